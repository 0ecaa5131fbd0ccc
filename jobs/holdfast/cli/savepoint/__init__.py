"""`holdfast savepoint`: freezes the tables of a running job under a name.

create.py          orders a savepoint, and waits until it is made
list.py, show.py   what there is
delete.py          removes one
export.py          writes the rows of one to Parquet
place.py           where a job's savepoints are
command.py         the group
"""

from __future__ import annotations

from holdfast.cli.savepoint.command import command

__all__ = ["command"]
