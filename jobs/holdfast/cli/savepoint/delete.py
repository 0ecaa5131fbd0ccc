"""`holdfast savepoint delete`: removes a savepoint."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from holdfast.cli.savepoint.place import place_of
from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings

__all__ = ["command"]


@click.command("delete")
@click.argument("job")
@click.argument("name")
@job_options
@json_option
def command(
    job: str,
    name: str,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Delete the savepoint NAME of JOB with all its files.

    Jobs that began with it keep what they have; one that has not brought all of it in cannot begin.
    """
    with json_errors(as_json):
        settings = load_settings(config, overrides, home, application_id=job)
        place = place_of(job, settings)
        if not place.delete(name):
            place.read(name)  # which says that there is none, and which there are
    done = {"ok": True, "application_id": job, "name": name}
    click.echo(orjson.dumps(done).decode() if as_json else f"Savepoint {name} is deleted.")
