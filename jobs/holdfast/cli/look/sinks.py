"""`holdfast sinks`: lists the owners of sinks, and releases a sink."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
import orjson

from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings

__all__ = ["command"]

_READY_S = 30.0


@click.command("sinks")
@click.option(
    "--release",
    "released",
    multiple=True,
    metavar="TOPIC",
    help="Give up the claim to this sink: the next job that starts may write it.",
)
@job_options
@json_option
def command(
    released: tuple[str, ...],
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """List which query owns which sink topic of the cluster.

    A CREATE … AS SELECT claims its sink before its first batch and keeps it until it is terminated,
    so that two jobs cannot write one table. A job that is gone for good still owns its sinks:
    release them. Stop the owner first, or both will write.
    """
    with json_errors(as_json):
        settings = load_settings(config, overrides, home)

        from holdfast.state.topics.sink_owners import SinkOwners
        from holdfast.transport.cluster.admin import Admin

        admin = Admin(settings.client())
        admin.wait_ready(_READY_S)
        owners = SinkOwners(admin, settings.client())
        found = owners.release(released) if released else owners.claims()
    if as_json:
        done = "released" if released else "sinks"
        click.echo(orjson.dumps({done: [asdict(claim) for claim in found]}).decode())
        return
    verb = "was released; it belonged to" if released else "belongs to"
    for claim in found:
        click.echo(f"{claim.sink} {verb} {claim.told()}")
    if not found:
        click.echo("No sink of that name is claimed." if released else "No sink is claimed.")
