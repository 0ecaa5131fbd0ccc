"""Shared by commands about deployments: the target options, and access to a deployment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from holdfast.cli.statements.options import load_settings

if TYPE_CHECKING:
    from holdfast.deploy.deployment import Deployment

__all__ = ["AnyDeployment", "deployment_of", "namespace_option", "target_option"]

_F = TypeVar("_F", bound=Callable[..., object])


class AnyDeployment(Protocol):
    """A deployment of either target."""

    def status(self) -> Deployment:
        """The current state."""

    def rollback(
        self, timeout_s: float, tell: Callable[[str], None], *, only_from: int | None
    ) -> Deployment:
        """Deploy the previous revision, or undeploy the first."""

    def undeploy(self, *, delete_state: bool) -> Deployment:
        """Undeploy it."""


def target_option(function: _F) -> _F:
    """Adds --target to a command."""
    return click.option(
        "--target",
        type=click.Choice(["local", "kubernetes"]),
        default="local",
        show_default=True,
        help="A supervised process on this machine, or a Helm release.",
    )(function)


def namespace_option(function: _F) -> _F:
    """Adds --namespace to a command."""
    return click.option(
        "--namespace",
        envvar="HOLDFAST_NAMESPACE",
        default="holdfast",
        show_default=True,
        help="Namespace of the release.  (kubernetes)",
    )(function)


def deployment_of(target: str, name: str, home: str | None, namespace: str) -> AnyDeployment:
    """Access to a deployment, which need not exist."""
    if target == "kubernetes":
        from holdfast.deploy.kubernetes.target import KubernetesDeployment

        return KubernetesDeployment(namespace, name)
    from holdfast.deploy.local.target import LocalDeployment

    return LocalDeployment(Path(load_settings(None, (), home).home), name)
