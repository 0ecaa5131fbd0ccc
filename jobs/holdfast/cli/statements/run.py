"""`holdfast run`: runs a file of statements as one job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.statements.options import Sql, job_options, load_job, sql_options
from holdfast.config.settings import Settings
from holdfast.errors import Refused
from holdfast.lazy_imports import load_later
from holdfast.local.java import find_java
from holdfast.local.processes import is_running
from holdfast.types.status import JobStatus, status_path

__all__ = ["command"]


@click.command("run")
@sql_options
@job_options
@click.option(
    "--until-caught-up",
    "--available-now",
    "until_caught_up",
    is_flag=True,
    help="Stop after processing every record that exists now.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="End another driver that runs this job, rather than be refused.",
)
@click.option(
    "--fill-secret",
    metavar="NAME",
    help="In a pod: the Secret in its namespace from which spark.secret.file is written; an empty "
    "one is filled with a random value.",
)
@click.option(
    "--executors-of",
    metavar="NAME",
    help="In a pod: the StatefulSet in its namespace whose replicas are the job's executors; their "
    "number may change while the job runs.",
)
@click.option(
    "--fill-peer-token",
    metavar="NAME",
    help="In a pod: the Secret in its namespace with the token of query servers for each other; an "
    "empty one is filled with a random value.",
)
def command(
    sql: Sql,
    config: Path | None,
    overrides: Sequence[str],
    home: str | None,
    until_caught_up: bool,
    take_over: bool,
    fill_secret: str | None,
    executors_of: str | None,
    fill_peer_token: str | None,
) -> None:
    """Run the statements of SQL_FILE (or --sql) until Ctrl-C.

    SIGTERM stops them as well.

    A stopped or killed job that is started again loses nothing and counts nothing twice.
    """
    load_later()
    job = load_job(sql, config, overrides, home)
    _start_java(job.settings)
    if fill_secret:
        from holdfast.deploy.kubernetes.release_secrets import fill

        fill(fill_secret, job.settings.spark_secret_file)
    if fill_peer_token:
        from holdfast.deploy.kubernetes.release_secrets import fill_peers

        fill_peers(fill_peer_token)

    from holdfast.runtime.job import run

    executors = None
    if executors_of:
        from holdfast.deploy.kubernetes.replicas import Replicas

        executors = Replicas(executors_of, job.settings.placement.executors)
    run(
        job.topology,
        job.settings,
        stop_when_caught_up=until_caught_up,
        take_over=take_over,
        executors=executors,
    )


def _start_java(settings: Settings) -> None:
    """Starts Spark's Java while this process loads modules and asks Kafka.

    Raises:
        Refused: the job runs on this machine already, or there is no Java.
    """
    from holdfast.runtime.jvm.class_training import start_making
    from holdfast.runtime.jvm.session import is_local, start_java
    from holdfast.runtime.jvm.starting import end_at_once

    if is_local(settings):
        _refuse_second(settings)
        find_java()
        start_making()
    end_at_once()
    start_java(settings)


def _refuse_second(settings: Settings) -> None:
    """Two drivers of one job would take turns to fence each other."""
    name = settings.application_id
    status = JobStatus.read(status_path(settings.home, name))
    if status is not None and is_running(status):
        raise Refused(
            f"The job {name} runs already in {settings.home} (pid {status.pid}).",
            cause="`holdfast deploy` or another `holdfast run` has started it",
            action=f"end it first (`holdfast status {name}`, `holdfast undeploy {name}`), or run "
            "the statements as another job: --set application.id=NAME",
        )
