"""The group `holdfast chaos`, and `run`: every step in one process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from holdfast.cli.chaos import steps, verdicts
from holdfast.cli.chaos.opening import open_run
from holdfast.cli.chaos.options import JobOptions, PlanOptions, job_and_plan_options
from holdfast.cli.chaos.own import going_on, own_job
from holdfast.cli.chaos.precheck import command as precheck
from holdfast.cli.chaos.precheck import plan_run, schedule_lines
from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import json_errors, json_option, sigterm_interrupts
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.chaos.run.run import Run

__all__ = ["command"]


@click.group("chaos")
def command() -> None:
    """Break a running job on purpose, and prove that its tables are exact.

    `run` does it all. The other commands are its steps, in this order: precheck, baseline,
    workload and nemesis side by side, heal, quiesce, verify, report.
    """


@command.command("run")
@job_and_plan_options
@click.option(
    "--own",
    is_flag=True,
    help="Start a Kafka in --home, deploy SQL_FILE as NAME, and remove both in the end.",
)
@json_option
@click.pass_context
def _run(ctx: click.Context, job: JobOptions, plan: PlanOptions, own: bool, as_json: bool) -> None:
    """Load the job NAME, or the one that makes the table NAME, break it, let it recover, judge it.

    Exits with 0 (valid), 1 (invalid), 3 (unknown) or 2 (refused: nothing was broken).
    """
    job = going_on(job, plan) if own else job
    with (
        sigterm_interrupts(),
        json_errors(as_json),
        reporter() as tell,
        own_job(job, plan.servers, tell) if own else nullcontext(),
    ):
        _, asked = plan_run(job, plan, own=own)
        click.echo("\n".join(schedule_lines(asked)), err=True)
        opened = open_run(asked.run, job.home, tell, plan.access)
        opened.baseline()
        _break(opened)
        status = verdicts.finish(opened, as_json=as_json)
    ctx.exit(status)


for _step in (precheck, steps.baseline, steps.workload, steps.nemesis, steps.heal, steps.quiesce,
              verdicts.verify, verdicts.report):  # fmt: skip
    command.add_command(_step)


def _break(run: Run) -> None:
    """Workload and nemesis side by side, then heal and quiesce.

    A failed step is printed and recorded; the verdict judges it.
    """
    # The broker will be down: its clients' complaints are expected.
    logging.getLogger("holdfast.kafka").setLevel(logging.CRITICAL)
    failed: list[HoldfastError] = []

    def load() -> None:
        try:
            run.workload()
        except HoldfastError as error:
            failed.append(error)

    loader = threading.Thread(target=load, name="workload")
    loader.start()
    try:
        _told(run.nemesis)
    finally:
        loader.join()
    for error in failed:
        click.echo(f"workload: {error.fact}", err=True)
    if _told(run.heal):
        _told(run.quiesce)


def _told(step: Callable[[], object]) -> bool:
    try:
        step()
    except HoldfastError as error:
        click.echo(error.fact, err=True)
        return False
    return True
