"""`holdfast explain`: what a file of statements would do, without Kafka or Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.options import job_options, load_job

__all__ = ["command"]


@click.command("explain")
@click.argument("sql_file", type=click.Path(path_type=Path))
@job_options
def command(
    sql_file: Path, config: Path | None, overrides: Sequence[str], home: str | None
) -> None:
    """Print the plan of SQL_FILE.

    Its sources, steps, topics and keys; neither Kafka nor Spark is asked.
    """
    job = load_job(sql_file, config, overrides, home)

    from holdfast.sql import explain

    click.echo(explain(job.topology))
