"""`holdfast compaction verify`: compares a plan's predictions with the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.compaction.statuses import JobStatuses, status_option
from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings
from holdfast.compaction.runs import (
    APPLIED,
    PLAN,
    SURVEY,
    VERIFIED,
    history_file,
    newest_run,
    run_folder,
    write_file,
)
from holdfast.errors import Refused
from holdfast.types.words import human_bytes

if TYPE_CHECKING:
    from holdfast.compaction.survey.facts import Survey
    from holdfast.compaction.verify.verified import TopicResult, Verified
    from holdfast.config.settings import Settings

__all__ = ["verify_command"]


@click.command("verify")
@click.option("--run", help="The run to verify.  [default: the newest]")
@status_option
@job_options
@json_option
def verify_command(
    run: str | None,
    status: tuple[str, ...],
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Survey the changelogs of an applied plan again, and compare them with its predictions.

    Restores one partition of each topic into a temporary store. Writes verified.json, report.html
    and report.png into the run's folder, and adds to the history by which predictions are judged.
    """
    from holdfast.compaction.survey.facts import Survey
    from holdfast.compaction.verify.history import append, read_history
    from holdfast.compaction.verify.report import write_report

    with json_errors(as_json), reporter() as tell:
        settings = load_settings(config, overrides, home)
        folder = run_folder(settings.home, run or newest_run(settings.home))
        jobs = JobStatuses(settings.home, status)
        verified = _verified(settings, folder, jobs, tell)
        write_file(folder / VERIFIED, verified.to_json())
        history = history_file(settings.home)
        append(history, verified)
        tell("drawing")
        report = write_report(folder, verified, read_history(history))
        tables = _tables(Survey.read(folder / SURVEY), jobs)
    click.echo(_json(verified, report, tables) if as_json else _text(verified, report))


def _verified(
    settings: Settings, folder: Path, jobs: JobStatuses, tell: Callable[[str], None]
) -> Verified:
    from holdfast.compaction.apply.applied import Applied, Outcome
    from holdfast.compaction.plan.plan import Plan
    from holdfast.compaction.survey.facts import Survey
    from holdfast.compaction.survey.survey import SurveyOptions, take_survey
    from holdfast.compaction.verify.verify import compare, restores_again

    plan, before = Plan.read(folder / PLAN), Survey.read(folder / SURVEY)
    applied = Applied.read(folder / APPLIED)
    if applied is None:
        raise Refused(
            f"The plan of run {plan.run} was not applied.",
            action="run `holdfast compaction apply` first",
        )
    client = settings.client()
    there = {t.topic for t in applied.topics if t.outcome is not Outcome.GONE}
    names = sorted({t.application_id for t in before.topics if t.topic in there})
    if not names:
        return compare(plan, before, before, applied, {})
    after = take_survey(client, jobs, SurveyOptions(plan.run, names), tell)
    samples = restores_again(client, after, applied, folder, tell)
    return compare(plan, before, after, applied, samples)


def _tables(survey: Survey, jobs: JobStatuses) -> dict[str, str]:
    """The tables and streams of the surveyed changelogs, by changelog, as their jobs tell."""
    ids = sorted({topic.application_id for topic in survey.topics})
    return {
        query.changelog: query.sink
        for seen in jobs(ids)
        for query in seen.status.queries.values()
        if query.changelog
    }


def _json(verified: Verified, report: Path, tables: Mapping[str, str]) -> str:
    found = orjson.loads(verified.to_json())
    for topic in found["topics"]:
        topic["table"] = tables.get(topic["topic"])
    told = {"verdict": verified.verdict, "report": str(report), **found}
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()


def _text(verified: Verified, report: Path) -> str:
    lines = [_line(topic) for topic in verified.topics]
    if not lines:
        lines.append("Nothing to verify: the plan asked for no change.")
    lines += [f"warning: {warning}" for warning in verified.all_warnings]
    return "\n".join([*lines, f"run {verified.run}: {report}"])


def _line(topic: TopicResult) -> str:
    if not topic.partitions:
        return f"{topic.topic}: {topic.outcome}"
    told = (
        f"{topic.topic}: {human_bytes(topic.bytes_before)} → {human_bytes(topic.bytes_real)} "
        f"({human_bytes(topic.bytes_predicted)} predicted), {topic.removed_share:.0%} of what "
        "could go is gone"
    )
    before, after = topic.sample_before, topic.sample_after
    if before is None or after is None:
        return told
    return (
        f"{told}; a restore of partition {before.partition} replays {before.records:,} → "
        f"{after.records:,} records in {before.seconds:.2f} → {after.seconds:.2f} s"
    )
