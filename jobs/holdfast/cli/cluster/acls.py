"""`holdfast acls`: the least ACLs in Kafka that each part of a job needs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.statements.options import Sql, job_options, load_job
from holdfast.types.acls import NEEDS, Binding, Names, Part, Resource, bindings, needs_of

__all__ = ["command"]

_FLAGS = {
    Resource.TOPIC: "--topic",
    Resource.GROUP: "--group",
    Resource.TRANSACTIONAL_ID: "--transactional-id",
}


@click.command("acls")
@click.argument("sql_file", required=False, type=click.Path(path_type=Path))
@click.option("--sql", "sql_text", metavar="TEXT", help="The statements, instead of SQL_FILE.")
@click.option(
    "--part",
    type=click.Choice([part.value for part in Part]),
    default=Part.JOB.value,
    show_default=True,
    help="Whose ACLs: a command, as the page calls it.",
)
@click.option(
    "--principal",
    default="User:holdfast",
    show_default=True,
    metavar="TYPE:NAME",
    help="Who gets them.",
)
@click.option("--markdown", is_flag=True, help="Print the list for all jobs and parts.")
@job_options
def command(
    sql_file: Path | None,
    sql_text: str | None,
    part: str,
    principal: str,
    markdown: bool,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
) -> None:
    """Print the ACLs that the job of SQL_FILE needs, as options of kafka-acls.sh.

    Put `kafka-acls.sh --bootstrap-server … --add` before each line. The ACLs are minimal: without
    any one of them something fails and names the missing one. Kafka is not contacted.
    """
    if markdown:
        click.echo("\n".join(_table()))
        return
    if (sql_file is None) == (sql_text is None):
        told = "Give either SQL_FILE or --sql TEXT, or --markdown for the list of all parts."
        raise click.UsageError(told)
    job = load_job(Sql(sql_file, sql_text or ""), config, overrides, home)
    settings = job.settings
    names = Names.of(job.topology, settings.application_id, settings.ingest.dead_letter_topic)
    for line in _lines(bindings(needs_of(Part(part)), names), principal):
        click.echo(line)


def _lines(found: Sequence[Binding], principal: str) -> list[str]:
    """One line per resource, with all of its operations."""
    places = dict.fromkeys((b.resource, b.name, b.prefixed) for b in found)
    return [
        shlex.join(
            [
                "--allow-principal",
                principal,
                *(part for b in found if (b.resource, b.name, b.prefixed) == place
                  for part in ("--operation", _operation(b))),
                *_place(*place),
            ]
        )
        for place in places
    ]  # fmt: skip


def _operation(binding: Binding) -> str:
    """As kafka-acls.sh writes it: DescribeConfigs."""
    return binding.operation.value.title().replace("_", "")


def _place(resource: Resource, name: str, prefixed: bool) -> list[str]:
    if resource is Resource.CLUSTER:
        return ["--cluster"]
    kind = ["--resource-pattern-type", "prefixed"] if prefixed else []
    return [_FLAGS[resource], name, *kind]


def _table() -> list[str]:
    rows = ["| part | of | operations | for |", "|---|---|---|---|"]
    for need in NEEDS:
        operations = ", ".join(need.operations)
        parts = ", ".join(f"`{part}`" for part in need.parts)
        rows.append(f"| {parts} | {need.of} | {operations} | {need.why} |")
    return rows
