"""Groups that import a command's module when the command is asked for.

So `--help` does not wait for the libraries of other commands.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from holdfast.types.words import nearest

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """A group of commands that each have a module.

    Args:
        modules: `module:attribute` by the command's name, in the order in which they are listed.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is asked for.

        Raises:
            click.UsageError: there is none; suggests the nearest name.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as wrong:
            near = None if args[0].startswith("-") else nearest(args[0], self._modules)
            if near is None:
                raise
            raise click.UsageError(f"{wrong.message} Did you mean {near}?", ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return None
        module, _, attribute = self._modules[cmd_name].partition(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found
