"""`holdfast chaos verify` and `report`: the judgement of a run, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.chaos.opening import open_run
from holdfast.cli.chaos.options import run_options
from holdfast.cli.options import json_errors, json_option, sigterm_interrupts
from holdfast.cli.progress import reporter
from holdfast.cli.verify import EXIT_STATUS

if TYPE_CHECKING:
    from holdfast.chaos.run import Run
    from holdfast.chaos.verdict import RunVerdict
    from holdfast.types.stores import StoreDigest

__all__ = ["finish", "report", "verify"]


@click.command("verify")
@run_options
@json_option
@click.pass_context
def verify(ctx: click.Context, run: str, home: str | None, as_json: bool) -> None:
    """Judge the tables and the run itself; writes verdict.json.

    Exits with 0 (valid), 1 (invalid) or 3 (unknown).
    """
    with sigterm_interrupts(), json_errors(as_json), reporter() as tell:
        opened = open_run(run, home, tell)
        verdict = _judged(opened)
    click.echo(_shown(opened.folder, verdict, as_json=as_json))
    ctx.exit(EXIT_STATUS[verdict.verdict.value])


@click.command("report")
@run_options
@json_option
@click.pass_context
def report(ctx: click.Context, run: str, home: str | None, as_json: bool) -> None:
    """Write the report of a run that was judged: HTML, PNG, JUnit XML.

    Exits as `verify` does.
    """
    from holdfast.chaos.run_file import run_folder

    with json_errors(as_json):
        opened = open_run(run, home, lambda _: None)
    del run_folder, opened
    ctx.exit(0)


def finish(run: Run, *, as_json: bool) -> int:
    """Verify and report, for `run`; returns the exit status."""
    verdict = _judged(run)
    click.echo(_shown(run.folder, verdict, as_json=as_json))
    return EXIT_STATUS[verdict.verdict.value]


def _judged(run: Run) -> RunVerdict:
    from holdfast.chaos.judge import judge_run

    return judge_run(run.folder, run.topology, run.settings, stores=_stores(run), tell=run.tell)


def _stores(run: Run) -> Callable[[], Mapping[tuple[str, int], StoreDigest]] | None:
    """How the stores of the job are read."""
    if run.asked.target != "local":
        return None

    def read() -> Mapping[tuple[str, int], StoreDigest]:
        from holdfast.state.digest import store_digests
        from holdfast.types.stores import newest_stores

        settings = run.settings
        root = Path(settings.state.dir or Path(settings.home, "state"))
        return newest_stores(store_digests(root, settings.application_id), settings.application_id)

    return read


def _shown(folder: Path, verdict: RunVerdict, *, as_json: bool) -> str:
    from holdfast.chaos.report import as_text

    if as_json:
        return orjson.dumps({"verdict": verdict.verdict.value, "folder": str(folder)}).decode()
    lines = [as_text(verdict.job)]
    for f in verdict.findings:
        lines.append(f"{f.verdict.value:8} {f.checker}: {f.fact}")
        lines += [f"    {e}" for e in f.examples]
    lines.append(f"verdict of the run: {verdict.verdict.value}; {folder}")
    return "\n".join(lines)
