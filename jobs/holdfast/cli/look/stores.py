"""`holdfast stores`: lists the stores on this machine's volumes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
import orjson

from holdfast.cli.statements.options import home_option, json_option, load_settings

__all__ = ["command"]


@click.command("stores")
@click.option("--application-id", metavar="ID", help="Only the stores of this job.")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    help="Folder of the volumes.  [default: state.dir, else the home's]",
)
@home_option
@json_option
def command(
    application_id: str | None, state_dir: Path | None, home: str | None, as_json: bool
) -> None:
    """Show rows, position and digest of every store.

    Reads each store in full while its job may be running; takes no lock and changes nothing. Two
    stores with the same rows have the same digest; `holdfast chaos` compares digests with the
    changelog's.
    """
    from holdfast.state.digest import store_digests

    settings = load_settings(None, (), home)
    root = state_dir or Path(settings.state.dir or Path(settings.home, "state"))
    found = store_digests(root, application_id)
    if as_json:
        click.echo(orjson.dumps([asdict(store) for store in found]).decode())
        return
    for s in found:
        click.echo(
            f"{s.application_id} {s.query_id} state partition {s.partition} on volume {s.volume}: "
            f"{s.rows} rows at changelog offset {s.position}, digest {s.digest}"
        )
    if not found:
        click.echo(f"There are no stores in {root}.")
