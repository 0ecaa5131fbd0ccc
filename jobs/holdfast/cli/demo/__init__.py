"""`holdfast demo`: runs the main job on real input, kills it twice, compacts it, and judges it.

files.py       the demo's files, and which folders it may wipe
processes.py   the processes that it starts, and their end
screen.py      its output: commands, progress, results
deployed.py    the job's deployment
watch.py       the job's progress, from Kafka and its status file
kills.py       SIGKILL, and the time until recovery
results.py     values that anybody can check by hand
recount.py     every row of every table, counted again from the example data
compacting.py  the gain of compacting its changelogs
script.py      the demo itself, act by act
command.py     the click command
"""

from __future__ import annotations

from holdfast.cli.demo.command import command

__all__ = ["command"]
