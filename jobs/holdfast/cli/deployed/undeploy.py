"""`holdfast undeploy`: ends a deployment."""

from __future__ import annotations

import click
import orjson

from holdfast.cli.deployed.targets import deployment_of, namespace_option, target_option
from holdfast.cli.progress import reporter
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
    help="Also delete the local stores (volumes); they can be restored from the changelogs.",
)
@json_option
def command(
    name: str, target: str, home: str | None, namespace: str, delete_state: bool, as_json: bool
) -> None:
    """Stop the deployment NAME for good.

    Topics and stores stay: a job that is deployed again continues from its commit markers. It still
    owns its sinks: `holdfast sinks --release TOPIC` lets another job write them.
    """
    with json_errors(as_json), reporter() as tell:
        tell(f"stopping {name}")
        found = deployment_of(target, name, home, namespace).undeploy(delete_state=delete_state)
    kept = "its topics" if delete_state else "its topics and its stores"
    click.echo(
        orjson.dumps(found.as_json()).decode()
        if as_json
        else f"{name} is undeployed; {kept} are kept."
    )
