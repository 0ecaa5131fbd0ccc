"""`holdfast compaction apply`: carry an approved plan out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.compaction.owners import Owners
from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import (
    job_options,
    json_errors,
    json_option,
    load_settings,
    sigterm_interrupts,
)
from holdfast.compaction.runs import APPLIED, PLAN, SURVEY, newest_run, run_folder, write_file
from holdfast.errors import Refused
from holdfast.types.words import human_bytes, human_seconds

if TYPE_CHECKING:
    from holdfast.compaction.apply.applied import Applied, AppliedTopic
    from holdfast.compaction.plan.plan import Plan

__all__ = ["apply_command"]


@click.command("apply")
@click.option("--run", help="The run whose plan to apply.  [default: the newest]")
@click.option("--hash", "approved", help="The hash of the approved plan.")
@click.option("--yes", is_flag=True, help="Do not ask: approve the run's plan, whatever it is.")
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds to wait for a log cleaner that makes no progress.",
)
@job_options
@json_option
def apply_command(
    run: str | None,
    approved: str | None,
    yes: bool,
    idle_s: float,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Apply the plan's settings, and have the brokers clean the changelogs, one at a time.

    Temporary settings are put back whatever happens; settings that a killed apply left are put back
    first. Exits with 4 when the changelogs have changed since the survey: survey and plan again.
    """
    from holdfast.compaction.apply.applied import Applied
    from holdfast.compaction.apply.apply import Applying, apply_plan
    from holdfast.compaction.apply.progress import Bounds
    from holdfast.compaction.plan.plan import Plan
    from holdfast.compaction.survey.facts import Survey

    with json_errors(as_json), sigterm_interrupts():
        settings = load_settings(config, overrides, home)
        folder = run_folder(settings.home, run or newest_run(settings.home))
        plan = Plan.read(folder / PLAN)
        approved = approved or _approved(plan, yes)
        with reporter() as tell:
            options = Applying(
                client=settings.client(),
                folder=folder,
                bounds=Bounds(idle_s=idle_s),
                owners=Owners(),
                tell=tell,
                save=lambda record: write_file(folder / APPLIED, record.to_json()),
            )
            survey, earlier = Survey.read(folder / SURVEY), Applied.read(folder / APPLIED)
            done = apply_plan(plan, survey, options, approved=approved, earlier=earlier)
    click.echo(done.to_json().decode() if as_json else _text(done))


def _approved(plan: Plan, yes: bool) -> str:
    """The plan's hash, once a person has said yes to it.

    Raises:
        Refused: there is no terminal to ask at.
        click.Abort: the person says no.
    """
    if yes or plan.nothing:
        return plan.hash
    if not sys.stdin.isatty():
        raise Refused(
            f"Nobody has approved plan {plan.hash} of run {plan.run}.",
            action="look at it with `holdfast compaction plan`, then give --hash, or --yes",
        )
    named = ", ".join(t.topic for t in plan.topics if not t.nothing)
    click.confirm(f"Apply plan {plan.hash} to {named}?", abort=True, err=True)
    return plan.hash


def _text(done: Applied) -> str:
    lines = [f"put back first: {told}" for told in done.repaired]
    lines += [_line(topic) for topic in done.topics]
    if not done.topics:
        lines.append("Nothing to do: the plan asks for no change.")
    lines.append(f"plan {done.plan_hash} of run {done.run}, {human_seconds(done.seconds)}")
    return "\n".join(lines)


def _line(topic: AppliedTopic) -> str:
    told = [f"{topic.topic}: {topic.outcome.value}"]
    if topic.bytes_before:
        told.append(f"{human_bytes(topic.bytes_before)} → {human_bytes(topic.bytes_after)}")
    if topic.changed:
        told.append("set " + ", ".join(f"{k}={v or '(none)'}" for k, v in topic.changed.items()))
    if topic.restore is not None:
        sample = topic.restore
        told.append(f"a restore of one partition replayed {sample.records:,} records before")
    if topic.note:
        told.append(topic.note)
    return ", ".join(told)
