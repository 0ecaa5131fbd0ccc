"""`holdfast verify`: recomputes every table of a job from its input, and compares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import Sql, job_options, load_job, sql_options
from holdfast.cli.statuses import WARNED

if TYPE_CHECKING:
    from holdfast.judge.verdict import JobVerdict

__all__ = ["EXIT_STATUS", "command", "exit_status"]

EXIT_STATUS = {"valid": 0, "invalid": 1, "unknown": 3}


@click.command("verify")
@sql_options
@job_options
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to wait for the job to read the rest of its input.",
)
@click.option("--verbose", is_flag=True, help="Show every check, not only findings.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the verdict as JUnit XML, too.",
)
@click.pass_context
def command(
    ctx: click.Context,
    sql: Sql,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    timeout: float,
    verbose: bool,
    as_json: bool,
    junit: Path | None,
) -> None:
    """Recompute every table and stream of SQL_FILE from its input topics and compare.

    Uses none of the engine's code: the statements run over their whole input at once. Waits until
    the job has caught up and no transaction is open, so nothing may be written to its input
    meanwhile. If the job runs on this machine, its stores are compared as well. Exits with 0
    (valid), 1 (invalid), 3 (unknown: not everything could be judged) or 4 (valid, but a table
    leaves out more of its input than late.warn.share and the like allow).
    """
    from holdfast.chaos.report import files as report

    verdict = _judge(sql, config, overrides, home, timeout)
    if junit is not None:
        junit.write_text(report.as_junit(verdict), encoding="utf-8")
    click.echo(report.as_json(verdict) if as_json else report.as_text(verdict, verbose=verbose))
    ctx.exit(exit_status(verdict))


def exit_status(verdict: JobVerdict) -> int:
    """The exit status; a table that leaves out too much of its input is not a success."""
    status = EXIT_STATUS[verdict.verdict.value]
    return status or (WARNED if verdict.warnings else 0)


def _judge(
    sql: Sql,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    timeout_s: float,
) -> JobVerdict:
    from holdfast.cli.look.local_stores import local_stores
    from holdfast.judge.oracle import Oracle, OracleOptions
    from holdfast.judge.read.observe import Observer
    from holdfast.transport.registry import registry_of

    job = load_job(sql, config, overrides, home)
    settings = job.settings
    # A killed producer's transaction ends by itself after this time.
    quiet_s = settings.transaction_timeout_ms / 1000 + 30
    with reporter() as tell:
        oracle = Oracle(
            settings.application_id,
            Observer(settings.client(), settings.application_id),
            options=OracleOptions(
                timeout_s,
                quiet_s,
                settings.warn,
                settings.functions,
                registry_of(settings.registry.client()),
            ),
            stores=local_stores(settings),
            tell=tell,
        )
        return oracle.judge(job.topology)
