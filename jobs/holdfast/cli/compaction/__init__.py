"""`holdfast compaction`: what changelogs cost, what a cleaning would win, and what it won.

statuses.py        what the jobs themselves say of their tables
survey.py          facts            survey_table.py   for people
plan.py            proposal
apply.py           what was approved, and nothing else
verify.py          predicted against real
repair.py          what a killed apply has left
command.py         the group
"""

from __future__ import annotations

from holdfast.cli.compaction.command import command

__all__ = ["command"]
