"""`holdfast explain`: prints the plan of statements, without Kafka or Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
import orjson

from holdfast.cli.statements.options import (
    Sql,
    job_options,
    json_errors,
    json_option,
    load_job,
    sql_options,
)

__all__ = ["command"]


@click.command("explain")
@sql_options
@job_options
@json_option
def command(
    sql: Sql, config: Path | None, overrides: Sequence[str], home: str | None, as_json: bool
) -> None:
    """Print the plan of SQL_FILE (or --sql).

    Shows sources, steps, topics and keys; needs neither Kafka nor Spark. --json prints the topics
    that each statement reads and writes, and the columns from which each of its columns comes.
    """
    name = None if sql.file is not None else "job"  # its plan is the same under any name
    with json_errors(as_json):
        job = load_job(sql, config, overrides, home, name=name)

    from holdfast.sql import explain, lineage

    if as_json:
        told = {"lineage": [asdict(each) for each in lineage(job.topology)]}
        click.echo(orjson.dumps(told).decode())
    else:
        click.echo(explain(job.topology))
