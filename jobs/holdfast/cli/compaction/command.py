"""The group `holdfast compaction`."""

from __future__ import annotations

import click

from holdfast.cli.groups import LazyGroup

__all__ = ["command"]

# In the order of their use.
_MODULES = {
    name: f"holdfast.cli.compaction.{name}:{name}_command"
    for name in ("survey", "plan", "apply", "verify", "repair")
}


@click.group("compaction", cls=LazyGroup, modules=_MODULES)
def command() -> None:
    """See what changelog topics cost, plan their compaction, and carry it out.

    survey measures and changes nothing; plan proposes changes and predicts their gain; apply
    carries out an approved plan; verify compares the result with the prediction. A run keeps its
    files in <home>/compaction/<run>.
    """
