"""`holdfast chaos`: break a running job on purpose, and prove that its tables are exact.

options.py     the options of a run
naming.py      finds the job of a name
opening.py     a run's folder, job and target
reading.py     the query servers that are read from, and access to them
precheck.py    checks that the run is possible, and plans it: writes run.json
steps.py       the steps in between, each a command
verdicts.py    verify and report
own.py         a Kafka and a deployment only for the run
command.py     the group, and `run`: all steps in one process
"""

from __future__ import annotations

from holdfast.cli.chaos.command import command

__all__ = ["command"]
