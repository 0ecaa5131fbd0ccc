"""`holdfast functions`: lists all functions, without Kafka or Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.errors import InvalidConfig

if TYPE_CHECKING:
    from holdfast.sql.functions.docs import Entry

__all__ = ["command"]


@click.command("functions")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--markdown", is_flag=True, help="Print as a table of Markdown.")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A Python file whose functions and aggregates are listed too; may be repeated.",
)
def command(name: str | None, as_json: bool, markdown: bool, files: Sequence[Path]) -> None:
    """Print the scalar, table and aggregate functions, or those with NAME in their name."""
    from holdfast.sql.functions.docs import reference
    from holdfast.tasks.aggregates.user import load_functions

    load_functions([str(f) for f in files])
    found = [e for e in reference() if name is None or name.upper() in e.name]
    if not found:
        raise InvalidConfig(
            f"There is no function with {name} in its name.",
            action="list them all with: holdfast functions",
        )
    if as_json:
        click.echo(json.dumps([asdict(e) for e in found], indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(_markdown(found) if markdown else _lines(found)))


def _lines(entries: Sequence[Entry]) -> list[str]:
    lines = []
    for entry in entries:
        lines.append(f"{entry.name} ({entry.kind}): {entry.sentence}")
        lines += [f"    {signature}" for signature in entry.signatures]
    return lines


def _markdown(entries: Sequence[Entry]) -> list[str]:
    rows = ["| function | kind | what it does |", "|---|---|---|"]
    for entry in entries:
        signatures = "<br>".join(f"`{s}`" for s in entry.signatures).replace("|", "\\|")
        rows.append(f"| {signatures} | {entry.kind} | {entry.sentence} |")
    return rows
