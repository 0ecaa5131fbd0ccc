"""The group `holdfast savepoint`."""

from __future__ import annotations

import click

from holdfast.cli.groups import LazyGroup

__all__ = ["command"]

_MODULES = {
    name: f"holdfast.cli.savepoint.{name}:command"
    for name in ("create", "list", "show", "export", "delete")
}


@click.group("savepoint", cls=LazyGroup, modules=_MODULES)
def command() -> None:
    """Freeze the tables of a running job, and begin other jobs with them.

    A savepoint has all tables of a job as of one moment, with the offsets of their sources. It is
    kept in snapshot.uri under a name, does not depend on changelogs, and stays until it is deleted.
    `holdfast deploy NEW FILE.sql --from-savepoint JOB/NAME` begins another job with it.
    """
