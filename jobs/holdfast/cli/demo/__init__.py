"""`holdfast demo`: the main job on real input, killed twice, its changelogs cleaned, and judged.

files.py       where the demo keeps things, and what it may wipe
processes.py   every process it starts, and that none is left
screen.py      what it prints: commands, progress, results
deployed.py    the job's deployment
watch.py       how far the job is, by Kafka and by its status file
kills.py       SIGKILL, and how long until work goes on
results.py     values anybody can check by hand
recount.py     every row of every table, counted again from the example data
compacting.py  what the compaction of its changelogs has won
script.py      the demo itself, act by act
command.py     the click command
"""

from __future__ import annotations

from holdfast.cli.demo.command import command

__all__ = ["command"]
