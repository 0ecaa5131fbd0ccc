"""`holdfast status`: shows whether deployments run, are ready and have caught up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.deployed.targets import deployment_of, namespace_option, target_option
from holdfast.cli.statements.options import home_option, json_option, load_settings
from holdfast.errors import InvalidConfig, Refused
from holdfast.types.words import nearest

if TYPE_CHECKING:
    from holdfast.deploy.deployment import Deployment

__all__ = ["command"]


@click.command("status")
@click.argument("name", required=False)
@target_option
@home_option
@namespace_option
@click.option("--all", "everywhere", is_flag=True, help="Of all namespaces.  (kubernetes)")
@json_option
def command(
    name: str | None,
    target: str,
    home: str | None,
    namespace: str,
    everywhere: bool,
    as_json: bool,
) -> None:
    """Show the deployment NAME; without NAME all deployments of the target.

    Exits with 0 in every state of a deployment; see `ready`, `caught_up`, `reason`, `warnings` and
    `left_out` of --json. A NAME that is not deployed is an error; with --json its `state` is
    `absent`.
    """
    if name is not None:
        if everywhere:
            raise InvalidConfig("--all is for all deployments.", action="leave NAME out, or --all")
        found = deployment_of(target, name, home, namespace).status()
        if not as_json:
            _refuse_absent(found, partial(_all, target, home, namespace))
        click.echo(orjson.dumps(found.as_json()).decode() if as_json else found.as_text())
        return
    several = _all(target, home, None if everywhere else namespace)
    if as_json:
        click.echo(orjson.dumps([one.as_json() for one in several]).decode())
    else:
        told = (_with_place(one) if everywhere else one.as_text() for one in several)
        click.echo("\n".join(told) or "Nothing is deployed.")


def _with_place(found: Deployment) -> str:
    """The text of a deployment, after its namespace if it has one."""
    place = found.details.get("namespace")
    return f"{place}/{found.as_text()}" if place else found.as_text()


def _all(target: str, home: str | None, namespace: str | None) -> Sequence[Deployment]:
    """Every deployment of the target; None: of all namespaces."""
    if target == "local":
        from holdfast.deploy.local.target import all_deployments

        return all_deployments(Path(load_settings(None, (), home).home))
    from holdfast.deploy.kubernetes.target import all_releases

    return all_releases(namespace)


def _refuse_absent(found: Deployment, others: Callable[[], Sequence[Deployment]]) -> None:
    """Refuse to show a deployment that is not there; name what is."""
    from holdfast.deploy.deployment import DeploymentState

    if found.state is not DeploymentState.ABSENT:
        return
    names = [one.name for one in others()]
    near = nearest(found.name, names)
    known = f"deployed are: {', '.join(names)}" if names else "nothing is deployed there"
    raise Refused(
        f"There is no deployment {found.name} ({found.target}).",
        cause=found.reason,
        action=(f"did you mean {near}? " if near else "") + f"{known}; --home, --target and "
        "--namespace say where to look",
    )
