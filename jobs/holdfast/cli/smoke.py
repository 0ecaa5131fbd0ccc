"""`holdfast smoke`: does a deployed job do what it should?"""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from holdfast.cli.options import (
    Sql,
    job_options,
    json_errors,
    json_option,
    load_job,
    sql_options,
)
from holdfast.cli.progress import reporter

__all__ = ["command"]


@click.command("smoke")
@sql_options
@job_options
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the first commits and results.",
)
@json_option
def command(
    sql: Sql,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Look whether the deployed job of SQL_FILE (or --sql) works.

    Every state partition must have a commit marker with this statement's fingerprint (unless the
    source is empty), and the newest results must be readable. Exits with 1 and a reason if not.
    `holdfast verify` proves more, and takes longer.
    """
    with json_errors(as_json):
        job = load_job(sql, config, overrides, home)

        from holdfast.deploy.smoke import smoke

        with reporter() as tell:
            found = smoke(job.topology, job.settings, timeout_s=timeout, tell=tell)
    if as_json:
        queries = [query.as_json() for query in found]
        click.echo(orjson.dumps({"ok": True, "queries": queries}, default=str).decode())
        return
    for query in found:
        note = query.note or f"{query.decoded} results read, the last one {query.sample}"
        click.echo(f"{query.id}: {query.committed} partitions committed; {note}")
