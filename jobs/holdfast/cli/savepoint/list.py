"""`holdfast savepoint list`: shows the savepoints of a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.savepoint.place import place_of
from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings
from holdfast.errors import SnapshotDamaged

if TYPE_CHECKING:
    from holdfast.state.snapshots.savepoints import Savepoint, SavepointPlace

__all__ = ["command"]


@click.command("list")
@click.argument("job")
@job_options
@json_option
def command(
    job: str, config: Path | None, overrides: tuple[str, ...], home: str | None, as_json: bool
) -> None:
    """List the savepoints of JOB, the newest first."""
    from holdfast.cli.look.view import console
    from holdfast.cli.savepoint.view import as_json as told_of
    from holdfast.cli.savepoint.view import listed

    with json_errors(as_json):
        place = place_of(job, load_settings(config, overrides, home, application_id=job))
        found, damaged = _read(place)
    if as_json:
        click.echo(orjson.dumps([told_of(each) for each in found]).decode())
    elif found:
        console().print(listed(found))
    elif not damaged:
        click.echo(f"{job} has no savepoint.")
    for fact in damaged:
        click.echo(fact, err=True)


def _read(place: SavepointPlace) -> tuple[list[Savepoint], list[str]]:
    """Savepoints, and why others cannot be read."""
    found, damaged = [], []
    for name in place.names():
        try:
            found.append(place.read(name))
        except SnapshotDamaged as error:
            damaged.append(error.fact)
    return found, damaged
