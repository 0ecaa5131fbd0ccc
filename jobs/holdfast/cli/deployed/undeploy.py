"""`holdfast undeploy`: the end of a deployment."""

from __future__ import annotations

import click
import orjson

from holdfast.cli.deployed.targets import deployment_of, namespace_option, target_option
from holdfast.cli.statements.options import home_option, json_errors, json_option

__all__ = ["command"]


@click.command("undeploy")
@click.argument("name")
@target_option
@home_option
@namespace_option
@click.option(
    "--delete-state",
    is_flag=True,
    help="Delete the local stores (volumes), too; they can be restored from the changelogs.",
)
@json_option
def command(
    name: str, target: str, home: str | None, namespace: str, delete_state: bool, as_json: bool
) -> None:
    """Stop the deployment NAME for good.

    Topics stay, and so do the stores: deployed again, the job goes on from its commit markers. Its
    sinks stay its own: `holdfast sinks --release TOPIC` lets another job write them.
    """
    with json_errors(as_json):
        found = deployment_of(target, name, home, namespace).undeploy(delete_state=delete_state)
    kept = "its topics" if delete_state else "its topics and its stores"
    click.echo(
        orjson.dumps(found.as_json()).decode()
        if as_json
        else f"{name} is undeployed; {kept} are kept."
    )
