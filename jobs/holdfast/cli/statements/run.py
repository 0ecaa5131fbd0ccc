"""`holdfast run`: runs a file of statements as one job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.statements.options import Sql, job_options, load_job, sql_options
from holdfast.lazy_imports import load_later
from holdfast.local.java import find_java

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
    "--fill-secret",
    metavar="NAME",
    help="In a pod: the Secret in its namespace from which spark.secret.file is written; an empty "
    "one is filled with a random value.",
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
    fill_secret: str | None,
    fill_peer_token: str | None,
) -> None:
    """Run the statements of SQL_FILE (or --sql) until Ctrl-C.

    SIGTERM stops them as well.

    A stopped or killed job that is started again loses nothing and counts nothing twice.
    """
    load_later()
    job = load_job(sql, config, overrides, home)
    if fill_secret:
        from holdfast.deploy.kubernetes.release_secrets import fill

        fill(fill_secret, job.settings.spark_secret_file)
    if fill_peer_token:
        from holdfast.deploy.kubernetes.release_secrets import fill_peers

        fill_peers(fill_peer_token)

    from holdfast.runtime.job import run
    from holdfast.runtime.jvm.class_training import start_making
    from holdfast.runtime.jvm.session import is_local

    if is_local(job.settings):
        find_java()  # before any topic is made
        start_making()

    run(job.topology, job.settings, stop_when_caught_up=until_caught_up)
