"""The group `holdfast savepoint`."""

from __future__ import annotations

import importlib

import click

__all__ = ["command"]

_COMMANDS = ("create", "list", "show", "export", "delete")


class _Steps(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"holdfast.cli.savepoint.{cmd_name}").command
        return found


@click.group("savepoint", cls=_Steps)
def command() -> None:
    """Freeze the tables of a running job, and begin other jobs with them.

    A savepoint has all tables of a job as of one moment, with the offsets of their sources. It is
    kept in snapshot.uri under a name, does not depend on changelogs, and stays until it is deleted.
    `holdfast deploy NEW FILE.sql --from-savepoint JOB/NAME` begins another job with it.
    """
