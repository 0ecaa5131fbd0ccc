"""Survey, plan and apply of made changelogs, as the commands do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.compaction.apply.applied import Applied
from holdfast.compaction.apply.apply import Applying, apply_plan, hands_of
from holdfast.compaction.apply.progress import Bounds
from holdfast.compaction.plan.plan import Plan, TopicPlan
from holdfast.compaction.plan.planner import make_plan
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.survey.facts import Survey, TopicFacts
from holdfast.compaction.survey.jobs import JobSeen
from holdfast.compaction.survey.survey import SurveyOptions, take_survey
from tests.integration.compaction.changelogs import MadeChangelog

QUICK = Bounds(idle_s=60.0, rest_s=10.0, broker_s=30.0, level_s=5.0)
POLICY = Policy(min_gain_bytes=1 << 16)


def surveyed(client: Mapping[str, str], made: Sequence[MadeChangelog], run: str = "r") -> Survey:
    """A survey of these changelogs alone, with what their drivers would say.

    They were written in seconds and nobody goes on at that pace: their write rates are taken out.
    """
    jobs = [JobSeen(one.status(), {}) for one in made]
    names = sorted({one.application_id for one in made})
    found = take_survey(client, lambda _: jobs, SurveyOptions(run, names))
    return replace(found, topics=tuple(map(_quiet, found.topics)))


def _quiet(topic: TopicFacts) -> TopicFacts:
    partitions = tuple(
        replace(p, write_records_per_s=0.0, write_bytes_per_s=0.0) for p in topic.partitions
    )
    return replace(topic, partitions=partitions)


def planned(survey: Survey, policy: Policy = POLICY) -> Plan:
    """The plan, with segments that may roll after a second: there is no busy job to spare here."""
    return only(make_plan(survey, policy), _hurried)


def _hurried(topic: TopicPlan) -> TopicPlan:
    temporary = tuple(
        replace(c, after="1000") if c.name == "segment.ms" else c for c in topic.temporary
    )
    return replace(topic, temporary=temporary)


def only(plan: Plan, change: Callable[[TopicPlan], TopicPlan]) -> Plan:
    """The plan with every topic changed, sealed again."""
    return replace(plan, topics=tuple(map(change, plan.topics))).sealed()


def applying(
    client: Mapping[str, str],
    folder: Path,
    bounds: Bounds = QUICK,
    tell: Callable[[str], None] = lambda _: None,
) -> Applying:
    return Applying(client, folder, bounds, tell=tell)


def applied(
    plan: Plan, survey: Survey, options: Applying, earlier: Applied | None = None
) -> Applied:
    return apply_plan(plan, survey, options, approved=plan.hash, earlier=earlier)


def own_settings(client: Mapping[str, str], topic: str) -> dict[str, str]:
    """The topic's own settings, without those of other sources."""
    return hands_of(applying(client, Path())).own(topic)
