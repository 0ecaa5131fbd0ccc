"""The commands between precheck and verdict; each runs one step of `holdfast.chaos.run.run`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.chaos.opening import open_run
from holdfast.cli.chaos.options import run_options
from holdfast.cli.chaos.reading import access_options
from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import json_errors, json_option, sigterm_interrupts

if TYPE_CHECKING:
    from holdfast.chaos.reads.sessions import Access

__all__ = ["baseline", "heal", "nemesis", "quiesce", "workload"]


def _told(run: str, step: str, *, as_json: bool, words: str, **facts: object) -> None:
    told = {"ok": True, "run": run, "step": step, **facts}
    click.echo(orjson.dumps(told).decode() if as_json else words)


@click.command("baseline")
@run_options
@json_option
def baseline(run: str, home: str | None, as_json: bool) -> None:
    """Load the job for some seconds and measure how often it commits undisturbed."""
    with sigterm_interrupts(), json_errors(as_json), reporter() as tell:
        found = open_run(run, home, tell).baseline()
    words = f"{found.commits} commits, one every {found.interval_s:.2f} s"
    _told(run, "baseline", as_json=as_json, words=words, **asdict(found))


@click.command("workload")
@run_options
@access_options
@json_option
def workload(run: str, home: str | None, access: Access, as_json: bool) -> None:
    """Write numbered records into the job's input topics until the nemesis has finished.

    Meanwhile reads from the run's query servers.
    """
    with sigterm_interrupts(), json_errors(as_json), reporter() as tell:
        sent = open_run(run, home, tell, access).workload()
    _told(run, "workload", as_json=as_json, words=f"{sent:,} records", sent=sent)


@click.command("nemesis")
@run_options
@json_option
def nemesis(run: str, home: str | None, as_json: bool) -> None:
    """Carry out the schedule; the workload has to run at the same time."""
    with sigterm_interrupts(), json_errors(as_json), reporter() as tell:
        count = open_run(run, home, tell).nemesis()
    _told(run, "nemesis", as_json=as_json, words=f"{count} faults, each recovered from",
          faults=count)  # fmt: skip


@click.command("heal")
@run_options
@json_option
def heal(run: str, home: str | None, as_json: bool) -> None:
    """Undo all remaining faults, and wait until the job is ready."""
    with sigterm_interrupts(), json_errors(as_json), reporter() as tell:
        done = open_run(run, home, tell).heal()
    _told(run, "heal", as_json=as_json, words="; ".join(done) or "nothing was left", done=done)


@click.command("quiesce")
@run_options
@json_option
def quiesce(run: str, home: str | None, as_json: bool) -> None:
    """Wait until the input is read and no transaction is open."""
    with sigterm_interrupts(), json_errors(as_json), reporter() as tell:
        open_run(run, home, tell).quiesce()
    _told(run, "quiesce", as_json=as_json, words="all input is read, no transaction is open")
