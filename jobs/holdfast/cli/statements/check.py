"""`holdfast check`: would this job start, and which topics would it find and create?"""

from __future__ import annotations

from collections.abc import Sequence
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
from holdfast.types.words import counted, listed

if TYPE_CHECKING:
    from holdfast.deploy.checks.preflight import Preflight, TopicFound

__all__ = ["as_text", "command"]

_INTERNAL = ("changelog", "progress")
_ROLES = ("source", "sink", "dead letters", *_INTERNAL)


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
    the reason if the job would be refused. --json names every topic.
    """
    with json_errors(as_json):
        job = load_job(sql, config, overrides, home)

        from holdfast.deploy.checks.preflight import check

        found = check(job.topology, job.settings)
    click.echo(orjson.dumps(found.as_json()).decode() if as_json else as_text(found))


def as_text(found: Preflight) -> str:
    """A line per query and schema, and one for each kind of topic."""
    lines = [f"The job {found.application_id} can be deployed."]
    for query in found.queries:
        what = "stateless"
        if query.stateful:
            what = f"{counted(query.state_partitions, 'state partition')}, "
            what += "new" if query.new else f"goes on from {query.records:,} records"
        lines.append(f"  query {query.id}: {query.source_topic} → {query.sink}; {what}")
    kinds: dict[tuple[str, bool], list[TopicFound]] = {}
    for topic in found.topics:
        kinds.setdefault((topic.role, topic.exists), []).append(topic)
    lines += [_line(role, topics) for (role, _), topics in sorted(kinds.items(), key=_by_role)]
    for schema in found.schemas:
        state = "to be registered" if schema.id is None else f"exists as {schema.id}"
        lines.append(f"  schema of {schema.subject}: {state}")
    return "\n".join(lines)


def _by_role(kind: tuple[tuple[str, bool], list[TopicFound]]) -> tuple[int, bool]:
    (role, exists), _ = kind
    return _ROLES.index(role), not exists


def _line(role: str, topics: Sequence[TopicFound]) -> str:
    """Topics of one kind; those that only the job itself reads are counted, not named."""
    state = "exist" if topics[0].exists else "to be created"
    state += "s" if topics[0].exists and len(topics) == 1 else ""
    if role in _INTERNAL and len(topics) > 1:
        each = listed(f"{number:,}" for number in sorted({t.partitions for t in topics}))
        each = each.replace(" and ", " or ")
        return f"  {len(topics):,} {role} topics, {state}: {each} partitions each"
    names = ", ".join(f"{t.name} ({counted(t.partitions, 'partition')})" for t in topics)
    return f"  {role} topic{'s' if len(topics) > 1 else ''}, {state}: {names}"
