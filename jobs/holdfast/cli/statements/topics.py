"""`holdfast topics`: creates the missing topics of a job, and registers its schemas."""

from __future__ import annotations

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
from holdfast.types.words import counted

__all__ = ["command"]


@click.command("topics")
@sql_options
@job_options
@json_option
def command(
    sql: Sql, config: Path | None, overrides: tuple[str, ...], home: str | None, as_json: bool
) -> None:
    """Create the missing topics of SQL_FILE (or --sql), and check the others.

    Sources are created only if their statement gives PARTITIONS. Schemas of sinks are registered
    first, all or none. The job does the same when it starts; use this command to see the result
    first.
    """
    with json_errors(as_json):
        job = load_job(sql, config, overrides, home)

        from holdfast.deploy.checks.preflight import make_missing

        made = make_missing(job.topology, job.settings)
    if as_json:
        topics = [{**asdict(t), "created": not t.exists, "exists": True} for t in made.topics]
        registered = [{**asdict(s), "registered": not known} for s, known in made.schemas]
        told = {"ok": True, "topics": topics, "schemas": registered}
        click.echo(orjson.dumps(told).decode())
        return
    for topic in made.topics:
        state = "exists" if topic.exists else "created"
        partitions = counted(topic.partitions, "partition")
        click.echo(f"{topic.role} topic {topic.name}: {partitions}, {state}")
    for schema, known in made.schemas:
        state = "exists" if known else "registered"
        click.echo(f"schema of {schema.subject}: {state} as {schema.id}")
