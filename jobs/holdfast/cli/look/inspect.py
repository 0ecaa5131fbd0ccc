"""`holdfast inspect`: shows a table's rows, and its state partitions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from holdfast.cli.statements.options import Sql, job_options, load_job, load_settings
from holdfast.config.settings import Settings
from holdfast.types.statements.topology import Query

__all__ = ["command"]


@dataclass(frozen=True)
class _Asked:
    """The job to inspect, by its file or by its driver's status in the home."""

    settings: Settings
    queries: tuple[Query, ...] = ()


@click.command("inspect")
@click.argument("what", nargs=-1, metavar="[TABLE] [FILE.sql]")
@click.option("--sql", "sql_text", metavar="TEXT", help="The statements, instead of FILE.sql.")
@job_options
@click.option("--application-id", help="The job, if no FILE.sql is given and several jobs exist.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Most rows to show of a table.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(
    what: tuple[str, ...],
    sql_text: str | None,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    application_id: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show TABLE: its rows, and owner, size, position, lag and restore of each state partition.

    Without TABLE all tables are listed. Rows come from the sink topic (committed records only), the
    rest from Kafka and from the status that the driver wrote after its last batch, so the job need
    not run. FILE.sql gives the types of keys; without it they are guessed.
    """
    from holdfast.cli.look import view as inspect_view
    from holdfast.cli.look.facts import find_status, gather
    from holdfast.judge.read.observe import Observer
    from holdfast.transport.registry import registry_of

    table, sql = _arguments(what, sql_text)
    if application_id is not None:
        overrides = (*overrides, f"application.id={application_id}")
    asked = _asked(sql, config, overrides, home)
    settings = asked.settings
    known = None if application_id is None and sql is None else settings.application_id
    status = find_status(Path(settings.home), known)
    application = status.application_id if status else settings.application_id
    view = gather(
        asked.queries,
        status,
        Observer(settings.client(), application),
        application_id=application,
        table=table,
        limit=limit,
        schemas=registry_of(settings.registry.client()),
    )
    if as_json:
        click.echo(inspect_view.as_json(view))
    else:
        inspect_view.console().print(inspect_view.render(view, details=table is not None))


def _arguments(what: tuple[str, ...], sql_text: str | None) -> tuple[str | None, Sql | None]:
    """(table, statements), in either order."""
    given = [Sql(Path(w)) for w in what if w.lower().endswith(".sql")]
    tables = [w for w in what if not w.lower().endswith(".sql")]
    given += [Sql(given=sql_text)] if sql_text is not None else []
    if len(given) > 1 or len(tables) > 1:
        raise click.UsageError("Give at most one TABLE and one FILE.sql (or --sql).")
    return (tables[0] if tables else None), (given[0] if given else None)


def _asked(
    sql: Sql | None, config: Path | None, overrides: tuple[str, ...], home: str | None
) -> _Asked:
    if sql is None:
        return _Asked(load_settings(config, overrides, home))
    job = load_job(sql, config, overrides, home)
    return _Asked(job.settings, job.topology.queries)
