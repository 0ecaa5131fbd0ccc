"""`holdfast explain`: prints the plan of statements, without Kafka or Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.statements.options import Sql, job_options, load_job, sql_options

__all__ = ["command"]


@click.command("explain")
@sql_options
@job_options
def command(sql: Sql, config: Path | None, overrides: Sequence[str], home: str | None) -> None:
    """Print the plan of SQL_FILE (or --sql).

    Shows sources, steps, topics and keys; needs neither Kafka nor Spark.
    """
    name = None if sql.file is not None else "job"  # its plan is the same under any name
    job = load_job(sql, config, overrides, home, name=name)

    from holdfast.sql import explain

    click.echo(explain(job.topology))
