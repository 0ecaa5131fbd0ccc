"""`holdfast smoke`: checks that a deployed job works."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.json_values import json_of
from holdfast.cli.progress import reporter
from holdfast.cli.servers.ask_server import connected, server_options
from holdfast.cli.statements.options import (
    Job,
    Sql,
    job_options,
    json_errors,
    json_option,
    load_job,
    sql_options,
)
from holdfast.cli.statuses import WARNED
from holdfast.types.words import counted

if TYPE_CHECKING:
    from holdfast.deploy.checks.smoke import SmokeFound

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
    help="Time to wait for the first commits and results.",
)
@server_options(
    "Query servers, comma-separated, from which each table's newest result is read back.  "
    "[default: those of the local deployment, if it has any]"
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    sql: Sql,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    timeout: float,
    server: str | None,
    server_token: str,
    server_ca: Path | None,
    as_json: bool,
) -> None:
    """Check that the deployed job of SQL_FILE (or --sql) works.

    Every state partition must have a commit marker with this statement's fingerprint (unless the
    source is empty), and the newest results must be readable. Query servers, if any, must return
    each table's newest result by its key, after waiting for the positions committed now. Exits with
    1 and a reason if not, and with 4 if it works but leaves out more of its input than
    late.warn.share and the like allow. `holdfast verify` proves more, and takes longer.
    """
    with json_errors(as_json):
        job = load_job(sql, config, overrides, home)

        from holdfast.deploy.checks.smoke import smoke

        with ExitStack() as stack:
            tell, client = stack.enter_context(reporter()), None
            if servers := server.split(",") if server else _of_deployment(job):
                client = stack.enter_context(connected(servers, server_token, server_ca))
            found = smoke(job.topology, job.settings, timeout_s=timeout, tell=tell, client=client)
    warnings = [f"{query.sink}: {text}" for query in found for text in query.warnings]
    if as_json:
        queries = [query.as_json() for query in found]
        told = {"ok": True, "warnings": warnings, "queries": queries}
        click.echo(json_of(told))
    else:
        _show(found, warnings)
    ctx.exit(WARNED if warnings else 0)


def _show(found: Sequence[SmokeFound], warnings: Sequence[str]) -> None:
    for query in found:
        newest = "newest result" if query.decoded == 1 else f"newest {query.decoded:,} results"
        note = query.note or f"the {newest} can be read, the last one is {json_of(query.sample)}"
        served = "; query servers give it back" if query.served else ""
        left = query.left_out.beside(query.warnings)
        left = f"; not in {query.sink}: {left}" if left else ""
        committed = counted(query.committed, "partition")
        click.echo(f"{query.id}: {committed} committed; {note}{served}{left}")
    for text in warnings:
        click.echo(f"warning: {text}")


def _of_deployment(job: Job) -> tuple[str, ...]:
    """Addresses of the local deployment's query servers, if it has any."""
    from holdfast.deploy.local.servers import LocalServers

    return LocalServers(Path(job.settings.home), job.settings.application_id).addresses
