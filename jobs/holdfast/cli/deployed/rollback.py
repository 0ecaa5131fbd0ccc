"""`holdfast rollback`: deploys the previous revision."""

from __future__ import annotations

import click
import orjson

from holdfast.cli.deployed.targets import deployment_of, namespace_option, target_option
from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import (
    home_option,
    json_errors,
    json_option,
    sigterm_interrupts,
)

__all__ = ["command"]


@click.command("rollback")
@click.argument("name")
@target_option
@home_option
@namespace_option
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until the job is ready.",
)
@click.option(
    "--only-from",
    type=click.IntRange(min=1),
    metavar="REVISION",
    help="Refuse if another revision is the present one by now.",
)
@json_option
def command(
    name: str,
    target: str,
    home: str | None,
    namespace: str,
    timeout: float,
    only_from: int | None,
    as_json: bool,
) -> None:
    """Deploy the previous revision of NAME; undeploy NAME if there is none.

    State is never rolled back: a revision that fits it continues from the job's position.
    """
    with sigterm_interrupts(), json_errors(as_json), reporter() as tell:
        deployment = deployment_of(target, name, home, namespace)
        found = deployment.rollback(timeout, tell, only_from=only_from)
    click.echo(orjson.dumps(found.as_json()).decode() if as_json else found.as_text())
