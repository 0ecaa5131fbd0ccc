"""`holdfast compaction survey`: measures what every changelog costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.compaction.statuses import JobStatuses, status_option
from holdfast.cli.deployed.targets import namespace_option, target_option
from holdfast.cli.look.view import console
from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings
from holdfast.compaction.runs import SURVEY, SURVEY_PLOT, new_run, run_folder, write_file
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.compaction.survey.facts import Survey

__all__ = ["survey_command", "with_owners"]


@click.command("survey")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--run", help="A name for the run.  [default: the time]")
@target_option
@namespace_option
@status_option
@click.option("--exact", is_flag=True, help="Read every record, however long that takes.")
@click.option(
    "--sample-records",
    type=click.IntRange(min=100),
    default=20_000,
    show_default=True,
    help="Most records to read of each topic.",
)
@job_options
@json_option
def survey_command(
    names: tuple[str, ...],
    run: str | None,
    target: str,
    namespace: str,
    status: tuple[str, ...],
    exact: bool,
    sample_records: int,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Measure what changelog topics cost; nothing is changed.

    NAMES are application ids; by default every changelog of the cluster is surveyed. Reads samples,
    not whole topics; estimates are shown with `~` and, from 1 % on, half of their 95 % interval.
    --target kubernetes looks for KafkaTopics that own settings in --namespace.
    """
    from holdfast.compaction.survey.survey import SurveyOptions, take_survey

    with json_errors(as_json), reporter() as tell:
        settings = load_settings(config, overrides, home)
        options = SurveyOptions(run or new_run(), names, exact, sample_records)
        folder = run_folder(settings.home, options.run)
        jobs = JobStatuses(settings.home, status)
        survey = take_survey(settings.client(), jobs, options, tell)
        if target == "kubernetes":
            survey = with_owners(survey, namespace)
        write_file(folder / SURVEY, survey.to_json())
        drawn = _draw(survey, folder / SURVEY_PLOT, tell)
    if as_json:
        click.echo(survey.to_json().decode())
        return
    from holdfast.cli.compaction.survey_table import survey_view

    console().print(survey_view(survey))
    click.echo(f"run {survey.run}: {folder / SURVEY}{drawn}")


def with_owners(survey: Survey, namespace: str) -> Survey:
    """The survey with the resources that own topics' settings.

    If they cannot be listed, a note says so.
    """
    from holdfast.deploy.kubernetes.client import KubeClient
    from holdfast.deploy.kubernetes.strimzi import KafkaTopics

    try:
        owners = KafkaTopics(KubeClient()).owners(namespace)
    except HoldfastError as error:
        note = f"whether KafkaTopics keep the topics' settings is unknown: {error.fact}"
        return replace(survey, notes=(*survey.notes, note))
    topics = tuple(replace(t, owner=owners.get(t.topic, "")) for t in survey.topics)
    return replace(survey, topics=topics)


def _draw(survey: Survey, path: Path, tell: Callable[[str], None]) -> str:
    """Draws the plot where matplotlib is installed; returns words for it."""
    if not survey.topics:
        return ""
    try:
        from holdfast.compaction.survey.plot import write_survey_plot
    except ImportError:
        return " (pip install 'holdfast[chaos]' draws it as well)"
    tell("drawing")
    write_survey_plot(survey, path)
    return f", {path.name}"
