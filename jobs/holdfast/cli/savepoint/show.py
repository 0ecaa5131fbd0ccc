"""`holdfast savepoint show`: shows one savepoint."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from holdfast.cli.savepoint.place import place_of
from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings

__all__ = ["command"]


@click.command("show")
@click.argument("job")
@click.argument("name")
@click.option("--sql", "statements", is_flag=True, help="Print the statements it was made of.")
@job_options
@json_option
def command(
    job: str,
    name: str,
    statements: bool,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Show the savepoint NAME of JOB: its tables, and the offsets of their sources."""
    from holdfast.cli.look.view import console
    from holdfast.cli.savepoint.view import as_json as told_of
    from holdfast.cli.savepoint.view import shown

    with json_errors(as_json):
        settings = load_settings(config, overrides, home, application_id=job)
        found = place_of(job, settings).read(name)
    if statements:
        click.echo(found.text)
    elif as_json:
        click.echo(orjson.dumps(told_of(found)).decode())
    else:
        console().print(shown(found))
