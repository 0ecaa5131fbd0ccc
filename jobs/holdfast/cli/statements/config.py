"""`holdfast config`: lists all properties."""

from __future__ import annotations

import sys

import click

from holdfast.config.table import HEADER, markdown, rows

__all__ = ["command"]

_PIPE_WIDTH = 200


@click.command("config")
@click.option("--markdown", "as_markdown", is_flag=True, help="As a Markdown table.")
def command(as_markdown: bool) -> None:
    """Print every property with its default and meaning.

    Properties come from --config FILE.yaml, then HOLDFAST_* variables (HOLDFAST_STATE_PARTITIONS
    is state.partitions), then the SQL file's SET statements, then --set; later ones win.
    """
    if as_markdown:
        click.echo(markdown(), nl=False)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*HEADER, box=None, pad_edge=False, header_style="bold")
    table.columns[0].no_wrap = True
    for row in rows():
        table.add_row(*row)
    # A pipe has no width: a table squeezed into 80 columns could not be read by grep.
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)
