"""`holdfast chaos verify` and `report`: judges a run and writes its report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.chaos.opening import home_of, open_run
from holdfast.cli.chaos.options import run_options
from holdfast.cli.look.verify import EXIT_STATUS
from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import json_errors, json_option, sigterm_interrupts

if TYPE_CHECKING:
    from holdfast.chaos.run.run import Run
    from holdfast.judge.verdict import RunVerdict
    from holdfast.types.stores import JobStores

__all__ = ["finish", "report", "verify"]


@click.command("verify")
@run_options
@json_option
@click.option("--verbose", is_flag=True, help="Show every check, not only findings.")
@click.pass_context
def verify(ctx: click.Context, run: str, home: str | None, as_json: bool, verbose: bool) -> None:
    """Judge the tables and the run itself; writes verdict.json.

    Exits with 0 (valid), 1 (invalid) or 3 (unknown).
    """
    from holdfast.chaos.report.files import run_as_text, verdict_as_json

    with sigterm_interrupts(), json_errors(as_json), reporter() as tell:
        verdict = _judged(open_run(run, home, tell))
    click.echo(verdict_as_json(verdict) if as_json else run_as_text(verdict, verbose=verbose))
    ctx.exit(EXIT_STATUS[verdict.verdict.value])


@click.command("report")
@run_options
@json_option
@click.pass_context
def report(ctx: click.Context, run: str, home: str | None, as_json: bool) -> None:
    """Write the report of a judged run beside its history: HTML, PNG, JUnit XML.

    Exits with the same status as `verify`.
    """
    from holdfast.chaos.history.run_file import run_folder
    from holdfast.chaos.report.summary import read_summary

    with json_errors(as_json):
        folder = run_folder(home_of(home), run)
        page, verdict = _reported(folder), read_summary(folder).verdict
    told = _in_short(verdict, page)
    click.echo(orjson.dumps(told).decode() if as_json else f"{verdict.verdict.value}: {page}")
    ctx.exit(EXIT_STATUS[verdict.verdict.value])


def finish(run: Run, *, as_json: bool) -> int:
    """Verify and report, for `run`; returns the exit status."""
    from holdfast.chaos.report.files import run_as_text

    verdict = _judged(run)
    page = _reported(run.folder)
    told = _in_short(verdict, page)
    lines = [run_as_text(verdict), f"report: {page}"]
    click.echo(orjson.dumps(told).decode() if as_json else "\n".join(lines))
    return EXIT_STATUS[verdict.verdict.value]


def _in_short(verdict: RunVerdict, page: Path) -> dict[str, object]:
    job = verdict.job
    return {
        "run": verdict.run,
        "verdict": verdict.verdict.value,
        "report": str(page),
        "job": job.application_id,
        "tables": [
            {"name": t.name, "verdict": t.verdict.value, "rows": t.rows} for t in job.tables
        ],
    }


def _judged(run: Run) -> RunVerdict:
    from holdfast.chaos.run.judge import judge_run

    return judge_run(run.folder, run.topology, run.settings, stores=_stores(run), tell=run.tell)


def _reported(folder: Path) -> Path:
    from holdfast.chaos.report.files import write_report

    return write_report(folder)


def _stores(run: Run) -> Callable[[], JobStores] | None:
    """The function that reads the job's stores; on Kubernetes they are in the executors' pods."""
    settings, asked = run.settings, run.asked
    if asked.target == "local":
        from holdfast.cli.look.local_stores import local_stores

        return local_stores(settings)
    from holdfast.chaos.targets.kubernetes.stores import release_stores

    remote = settings.state.backend == "remote"
    return lambda: release_stores(
        asked.namespace, asked.name, settings.application_id, remote=remote
    )
