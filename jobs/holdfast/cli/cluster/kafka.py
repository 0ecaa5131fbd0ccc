"""`holdfast kafka`: a real single-node Kafka on this machine, for demos, tests and development."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from holdfast.cli.progress import reporter
from holdfast.config.settings import Settings
from holdfast.errors import Refused
from holdfast.local.broker import DEFAULT_PORT, LocalKafka
from holdfast.local.processes import is_running
from holdfast.local.registry import LocalRegistry
from holdfast.types.status import JobStatus
from holdfast.types.words import counted

__all__ = ["NOT_RUNNING", "command", "home_option", "port_option"]

_F = TypeVar("_F", bound=Callable[..., object])
_DERIVED = ("state", "run", "spark")  # useless without their topics
_PARTITIONS = 4
NOT_RUNNING = 3  # exit status of service managers' `status`


def home_option(function: _F) -> _F:
    """Adds --home to a command about a local program."""
    return click.option(
        "--home",
        type=click.Path(path_type=Path, file_okay=False),
        default=Settings(application_id="").home,
        envvar="HOLDFAST_HOME",
        show_default=True,
        help="Folder of all local files; Kafka's are in its folder kafka.",
    )(function)


def port_option(default: int) -> Callable[[_F], _F]:
    """Adds --port to the command that starts a local program."""
    return click.option(
        "--port",
        type=click.IntRange(0, 65_535),
        default=default,
        show_default=True,
        help="0 takes a free one.",
    )


@click.group("kafka")
def command() -> None:
    """Start and stop a local Kafka.

    One node, with transactions, on the loopback interface only.
    """


@command.command("start")
@home_option
@port_option(DEFAULT_PORT)
@click.option("--wipe", is_flag=True, help="First delete the data of an earlier Kafka.")
def start(home: Path, port: int, wipe: bool) -> None:
    """Start Kafka in the background.

    A running one is left alone.

    The first time, its jars (42 MB) are downloaded from Maven Central and kept.
    """
    with reporter() as report:
        broker = LocalKafka(home, report)
        if wipe:
            LocalRegistry(home).wipe()
            broker.wipe()
        running = broker.start(port)
    click.echo(f"Kafka runs at {running.bootstrap_servers} (pid {running.pid}).")
    click.echo(f"Its log: {broker.log_file}")


@command.command("stop")
@home_option
def stop(home: Path) -> None:
    """Stop Kafka; its topics stay.

    The local registry, which keeps its schemas in Kafka, is stopped first.
    """
    if LocalRegistry(home).stop():
        click.echo("The registry stopped.")
    stopped = LocalKafka(home).stop()
    click.echo("Kafka stopped." if stopped else "No Kafka was running.")


@command.command("status")
@home_option
@click.pass_context
def status(ctx: click.Context, home: Path) -> None:
    """Say whether Kafka runs; exits with 3 if it does not."""
    running = LocalKafka(home).status()
    if running is None:
        click.echo("Kafka does not run.")
        ctx.exit(NOT_RUNNING)
    click.echo(f"Kafka runs at {running.bootstrap_servers} (pid {running.pid}).")


@command.command("topic")
@home_option
@click.argument("name")
@click.argument("partitions", type=click.IntRange(min=1), default=_PARTITIONS)
def topic(home: Path, name: str, partitions: int) -> None:
    """Create the topic NAME with so many PARTITIONS (4 by default); an existing one stays as it is.

    `--set bootstrap.servers` is for other commands: this one is about the local Kafka.
    """
    from holdfast.transport.cluster.admin import Admin

    running = LocalKafka(home).status()
    if running is None:
        raise Refused("Kafka does not run.", action=f"holdfast kafka start --home {home}")
    admin = Admin({"bootstrap.servers": running.bootstrap_servers})
    made = admin.create_topic(name, partitions)
    if made is not None:
        click.echo(f"Topic {name} was made, with {counted(made.partitions, 'partition')}.")
        return
    there = admin.describe(name)
    count = f" and has {counted(there.partitions, 'partition')}" if there is not None else ""
    click.echo(f"Topic {name} is there already{count}.")


@command.command("reset")
@home_option
def reset(home: Path) -> None:
    """Stop Kafka and delete its topics, with the stores and checkpoints made from them."""
    for path in sorted(home.glob("run/*/status.json")):
        job = JobStatus.read(path)
        if job is not None and is_running(job):
            raise Refused(
                f"The job {job.application_id} runs (pid {job.pid}) on the data to delete.",
                action="stop it first.",
            )
    LocalRegistry(home).wipe()
    LocalKafka(home).wipe()
    for folder in _DERIVED:
        shutil.rmtree(home / folder, ignore_errors=True)
    click.echo(f"{home} is empty again.")
