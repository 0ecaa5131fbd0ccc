"""`holdfast chaos`: break a running job on purpose, and prove that its tables are exact.

options.py     what can be asked of a run
naming.py      which job is meant by a name
opening.py     a run's folder, job and target
reading.py     which query servers are read from, and how they are let in
precheck.py    may this be done here, and what comes when: writes run.json
steps.py       the steps between, each a command
verdicts.py    verify and report
own.py         a Kafka and a deployment of the run's own
command.py     the group, and `run`: all of it in one process
"""

from __future__ import annotations

from holdfast.cli.chaos.command import command

__all__ = ["command"]
