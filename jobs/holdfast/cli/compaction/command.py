"""The group `holdfast compaction`."""

from __future__ import annotations

import importlib

import click

__all__ = ["command"]

# In the order of their use; a command is imported when it is used.
_COMMANDS = ("survey", "plan", "apply", "verify", "repair")


class _Steps(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"holdfast.cli.compaction.{cmd_name}")
        found: click.Command = getattr(module, f"{cmd_name}_command")
        return found


@click.group("compaction", cls=_Steps)
def command() -> None:
    """See what changelog topics cost, plan their compaction, and carry it out.

    survey measures and changes nothing; plan proposes changes and predicts their gain; apply
    carries out an approved plan; verify compares the result with the prediction. A run keeps its
    files in <home>/compaction/<run>.
    """
