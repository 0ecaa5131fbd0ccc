"""`holdfast run`: one file of statements as one running job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.options import job_options, load_job

__all__ = ["command"]


@click.command("run")
@click.argument("sql_file", type=click.Path(path_type=Path))
@job_options
@click.option(
    "--until-caught-up",
    "--available-now",
    "until_caught_up",
    is_flag=True,
    help="Stop once every record that is there now has been processed.",
)
def command(
    sql_file: Path,
    config: Path | None,
    overrides: Sequence[str],
    home: str | None,
    until_caught_up: bool,
) -> None:
    """Run the statements of SQL_FILE until Ctrl-C.

    SIGTERM stops them as well.

    Stopping, killing and starting again lose nothing and count nothing twice.
    """
    job = load_job(sql_file, config, overrides, home)

    from holdfast.ingest.source import KafkaDataSource
    from holdfast.runtime.job import run

    run(
        job.topology,
        job.settings,
        data_source=KafkaDataSource,
        stop_when_caught_up=until_caught_up,
    )
