"""`holdfast compaction`: measures changelogs, and plans, applies and verifies their compaction.

statuses.py        the jobs' own status of their tables
survey.py          facts            survey_table.py   for people
plan.py            proposal
apply.py           carries out the approved plan
verify.py          compares predictions with measurements
repair.py          puts back settings that a killed apply left
command.py         the group
"""

from __future__ import annotations

from holdfast.cli.compaction.command import command

__all__ = ["command"]
