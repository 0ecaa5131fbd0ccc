"""`holdfast registry`: a real schema registry on this machine, for tests and development."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.cluster.kafka import NOT_RUNNING, home_option, port_option
from holdfast.cli.progress import reporter
from holdfast.local.registry import DEFAULT_PORT, LocalRegistry, RegistryStatus, is_ready

__all__ = ["command"]


@click.group("registry")
def command() -> None:
    """Start and stop a local schema registry.

    Apicurio Registry, which speaks the API of Confluent's, on the loopback interface only. It
    keeps its schemas in the local Kafka.
    """


@command.command("start")
@home_option
@port_option(DEFAULT_PORT)
def start(home: Path, port: int) -> None:
    """Start the registry in the background.

    A running one is left alone. `holdfast kafka start` comes first.

    The first time, it (109 MB) is downloaded from Maven Central and kept.
    """
    with reporter() as report:
        registry = LocalRegistry(home, report)
        running = registry.start(port)
    click.echo(_told(running))
    click.echo(f"Its log: {registry.log_file}")


@command.command("stop")
@home_option
def stop(home: Path) -> None:
    """Stop the registry; its schemas stay."""
    stopped = LocalRegistry(home).stop()
    click.echo("The registry stopped." if stopped else "No registry was running.")


@command.command("status")
@home_option
@click.pass_context
def status(ctx: click.Context, home: Path) -> None:
    """Say whether the registry runs and answers; exits with 3 if it does not."""
    running = LocalRegistry(home).status()
    if running is None:
        click.echo("The registry does not run.")
        ctx.exit(NOT_RUNNING)
    if not is_ready(running.port):
        click.echo(f"The registry (pid {running.pid}, port {running.port}) is not ready.")
        ctx.exit(NOT_RUNNING)
    click.echo(_told(running))


def _told(running: RegistryStatus) -> str:
    return f"The registry runs at {running.url} (pid {running.pid})."
