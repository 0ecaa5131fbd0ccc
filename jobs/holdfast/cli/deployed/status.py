"""`holdfast status`: shows whether deployments run, are ready and have caught up."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from holdfast.cli.deployed.targets import deployment_of, namespace_option, target_option
from holdfast.cli.statements.options import home_option, json_option, load_settings

__all__ = ["command"]


@click.command("status")
@click.argument("name", required=False)
@target_option
@home_option
@namespace_option
@json_option
def command(name: str | None, target: str, home: str | None, namespace: str, as_json: bool) -> None:
    """Show the deployment NAME; without NAME all deployments of the target.

    Exits with 0 in every state; see `ready`, `caught_up`, `reason` and `warnings` of --json.
    """
    if name is not None:
        found = deployment_of(target, name, home, namespace).status()
        click.echo(orjson.dumps(found.as_json()).decode() if as_json else found.as_text())
        return
    if target == "local":
        from holdfast.deploy.local.target import all_deployments

        several = all_deployments(Path(load_settings(None, (), home).home))
    else:
        from holdfast.deploy.kubernetes.target import all_releases

        several = all_releases(namespace)
    if as_json:
        click.echo(orjson.dumps([one.as_json() for one in several]).decode())
    else:
        click.echo("\n".join(one.as_text() for one in several) or "Nothing is deployed.")
