"""`holdfast check`: would this job start, and which topics would it find and create?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from holdfast.deploy.checks.preflight import Preflight

__all__ = ["as_text", "command"]


@click.command("check")
@sql_options
@job_options
@json_option
def command(
    sql: Sql, config: Path | None, overrides: tuple[str, ...], home: str | None, as_json: bool
) -> None:
    """Check SQL_FILE (or --sql) against Kafka before deploying it.

    Reads statements, properties, existing topics, the schemas of a registry, and commit markers of
        a present or past deployment with the same application.id; changes nothing. Exits with 2 and
        the reason if the job would be refused.
    """
    with json_errors(as_json):
        job = load_job(sql, config, overrides, home)

        from holdfast.deploy.checks.preflight import check

        found = check(job.topology, job.settings)
    click.echo(orjson.dumps(found.as_json()).decode() if as_json else as_text(found))


def as_text(found: Preflight) -> str:
    """A line per query, topic and schema."""
    lines = [f"The job {found.application_id} can be deployed."]
    for query in found.queries:
        what = "stateless"
        if query.stateful:
            what = counted(query.state_partitions, "state partition")
            what += f", fingerprint {query.fingerprint}, "
            what += "new" if query.new else f"goes on from {query.records:,} records"
        lines.append(f"  query {query.id}: {query.source_topic} → {query.sink}; {what}")
    for topic in found.topics:
        state = "exists" if topic.exists else "to be created"
        partitions = counted(topic.partitions, "partition")
        lines.append(f"  {topic.role} topic {topic.name}: {partitions}, {state}")
    for schema in found.schemas:
        state = "to be registered" if schema.id is None else f"exists as {schema.id}"
        lines.append(f"  schema of {schema.subject}: {state}")
    return "\n".join(lines)
