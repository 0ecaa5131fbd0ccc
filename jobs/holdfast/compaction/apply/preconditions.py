"""Does a plan still fit what it was made from?  Everything is looked at before anything changes."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.compaction.apply.put_back import Hands
from holdfast.compaction.plan.plan import Plan, TopicPlan
from holdfast.compaction.survey.facts import Survey
from holdfast.errors import PreconditionsChanged, Refused, TopicMissing

__all__ = ["check_approved", "check_preconditions", "final_value"]

_AGAIN = "run `holdfast compaction survey` and `plan` again, and approve the new plan"


def check_approved(plan: Plan, survey: Survey, approved: str) -> None:
    """Refuse a plan that is not the approved one, or was made from another survey.

    Args:
        approved: the hash of the plan that a person has seen.

    Raises:
        PreconditionsChanged: it is another plan, or another survey.
    """
    if approved != plan.hash:
        raise PreconditionsChanged(
            f"Plan {approved} was approved, run {plan.run} has plan {plan.hash}.",
            cause="the plan was made again after it was approved",
            action=f"look at the new plan and approve it, or {_AGAIN}",
        )
    if survey.taken_ms != plan.survey_ms:
        raise PreconditionsChanged(
            f"Run {plan.run} was surveyed at {survey.taken_ms} ms, its plan stands on a survey of "
            f"{plan.survey_ms} ms.",
            cause="the survey was taken again after the plan was made",
            action=_AGAIN,
        )


def final_value(topic: TopicPlan, name: str) -> str | None:
    """A topic's own value of a setting once the plan is carried out; None: none of its own."""
    for change in (*topic.changes, *topic.temporary):
        if change.name == name:
            return change.after if change in topic.changes else change.before
    return topic.precondition.settings.get(name)


def check_preconditions(hands: Hands, topics: Sequence[TopicPlan]) -> set[str]:
    """Refuse unless every topic is as the plan found it, or as it leaves it.

    Returns:
        Those that were deleted.

    Raises:
        PreconditionsChanged: naming everything that differs.
        Refused, KafkaUnavailable: nobody tells.
    """
    gone, problems = set(), []
    for topic in topics:
        topic_id = hands.topic_id(topic.topic)
        if topic_id is None:
            gone.add(topic.topic)
        elif topic_id != topic.precondition.topic_id:
            was = topic.precondition.topic_id
            problems.append(f"{topic.topic} was remade (id {topic_id}, surveyed was {was})")
        else:
            problems += _settings(hands, topic, gone) + _health(hands, topic.topic)
    if problems:
        raise PreconditionsChanged(
            "\n".join(["The changelogs are not as they were surveyed:", *_listed(problems)]),
            cause="somebody else changed them after the plan was made",
            action=_AGAIN,
        )
    return gone


def _settings(hands: Hands, topic: TopicPlan, gone: set[str]) -> list[str]:
    try:
        own = hands.own(topic.topic)
    except TopicMissing:
        gone.add(topic.topic)
        return []
    found = []
    for name, before in topic.precondition.settings.items():
        now, final = own.get(name), final_value(topic, name)
        if now not in (before, final):
            found.append(f"{topic.topic} has {name}={_said(now)}, surveyed was {_said(before)}")
    return found


def _health(hands: Hands, topic: str) -> list[str]:
    try:
        return [f"{topic} {problem}" for problem in hands.unhealthy(topic)]
    except Refused as error:
        return [error.fact]


def _said(value: str | None) -> str:
    return value if value is not None else "(none of its own)"


def _listed(problems: Sequence[str]) -> list[str]:
    return [f"  - {problem}" for problem in problems]
