"""Survey and policy in, plan out.  Pure: the same survey and policy give the same plan.

    obstacles.py  why a changelog is left alone      limits.py    what each one may cost
    levers.py     settings that stay                 cleaning.py  whether and how it is cleaned
    model.py      what all that costs                advice.py    further remarks

No rule here reduces data safety: replicas and min.insync.replicas are never touched,
cleanup.policy only ever becomes `compact`, delete.retention.ms never falls below the longest
absence of a store, and no prediction is above what the changelog costs now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.compaction.plan.advice import broker_advice, unmet_targets
from holdfast.compaction.plan.cleaning import Cleaning, as_cleaned, cleaning
from holdfast.compaction.plan.levers import changes_that_stay, own, settled
from holdfast.compaction.plan.limits import Limit, cost_in_the_end, limits
from holdfast.compaction.plan.model import Size, before_cleaning, cost
from holdfast.compaction.plan.obstacles import brokers_of, obstacle, risks
from holdfast.compaction.plan.plan import (
    Change,
    PartitionPrediction,
    Plan,
    Precondition,
    TopicPlan,
)
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.survey.facts import Survey, TopicFacts
from holdfast.compaction.survey.upkeep import Capacity, Upkeep

__all__ = ["make_plan"]


def make_plan(survey: Survey, policy: Policy) -> Plan:
    """A sealed plan for every topic of the survey, including topics with nothing to do."""
    why_not = {t.topic: obstacle(t, survey, policy) for t in survey.topics}
    free = [t for t in survey.topics if not why_not[t.topic]]
    allowed = limits(survey.topics, free, policy)
    once = {t.topic: _cleaning(t, allowed[t.topic], survey, policy) for t in free}
    then = {t.topic: as_cleaned(t, once[t.topic]) for t in free}
    allowed = limits([then.get(t.topic, t) for t in survey.topics], list(then.values()), policy)
    plans = [
        _left_alone(t, why_not[t.topic])
        if why_not[t.topic]
        else _planned(t, then[t.topic], once[t.topic], allowed[t.topic], survey, policy)
        for t in survey.topics
    ]
    ordered = _ordered(plans)
    return Plan(
        run=survey.run,
        cluster_id=survey.cluster_id,
        survey_ms=survey.taken_ms,
        policy=policy.as_dict(),
        topics=ordered,
        advice=tuple(broker_advice(survey, ordered, policy)),
        unmet=tuple(unmet_targets(survey, ordered, policy)),
    ).sealed()


def _cleaning(topic: TopicFacts, limit: Limit, survey: Survey, policy: Policy) -> Cleaning:
    capacity = Capacity.of(brokers_of(topic, survey), policy.cleaner_bytes_per_s)
    return cleaning(topic, limit, policy, capacity)


def _planned(
    topic: TopicFacts,
    then: TopicFacts,
    once: Cleaning,
    limit: Limit,
    survey: Survey,
    policy: Policy,
) -> TopicPlan:
    """The plan of a topic; `then` is the topic as the cleaning leaves it."""
    changes = changes_that_stay(then, limit, policy)
    return TopicPlan(
        topic=topic.topic,
        order=0,
        changes=changes,
        temporary=once.temporary,
        roll=once.roll,
        precondition=_precondition(topic, (*changes, *once.temporary)),
        partitions=_predictions(topic, once.after),
        before=cost(topic, [before_cleaning(p) for p in topic.partitions]),
        after=cost(topic, once.after),
        steady=cost_in_the_end(then, settled(then, limit, policy)).least(
            cost_in_the_end(topic, Upkeep.of(topic))
        ),
        cleaner_read_bytes=round(sum(work.read for work in once.work)),
        cleaner_write_bytes=round(sum(work.written for work in once.work)),
        cleaner_s=round(once.seconds, 3),
        risks=tuple(risks(topic, survey, changes, cleans=once.wanted)),
        why=f"Only settings change. {once.why}" if changes and not once.wanted else once.why,
        owner=topic.owner,
        patch=_patch(changes) if topic.owner and changes else {},
    )


def _left_alone(topic: TopicFacts, why: str) -> TopicPlan:
    before = tuple(before_cleaning(p) for p in topic.partitions)
    now = cost(topic, before)
    return TopicPlan(
        topic=topic.topic,
        order=0,
        changes=(),
        temporary=(),
        roll=False,
        precondition=_precondition(topic, ()),
        partitions=_predictions(topic, before),
        before=now,
        after=now,
        steady=cost_in_the_end(topic, Upkeep.of(topic)),
        why=why,
        owner=topic.owner,
    )


def _precondition(topic: TopicFacts, changes: Sequence[Change]) -> Precondition:
    return Precondition(topic.topic_id, {c.name: own(topic, c.name) for c in changes})


def _predictions(topic: TopicFacts, after: Sequence[Size]) -> tuple[PartitionPrediction, ...]:
    """Predictions, the largest gain first."""
    found = [
        PartitionPrediction(
            p.partition, p.bytes, round(size.bytes), round(p.records.value), round(size.records)
        )
        for p, size in zip(topic.partitions, after, strict=True)
    ]
    return tuple(sorted(found, key=lambda p: (p.bytes_after - p.bytes_before, p.partition)))


def _patch(changes: Sequence[Change]) -> dict[str, Any]:
    """The merge patch for a Strimzi KafkaTopic, which would revert changes made beside it."""
    return {"spec": {"config": {change.name: change.after for change in changes}}}


def _ordered(plans: Sequence[TopicPlan]) -> tuple[TopicPlan, ...]:
    """The most bytes won per second of cleaning first; topics with only new settings last."""

    def place(plan: TopicPlan) -> tuple[bool, bool, float, str]:
        won = plan.before.bytes - plan.after.bytes
        return plan.nothing, not plan.temporary, -won / max(0.1, plan.cleaner_s), plan.topic

    return tuple(replace(plan, order=order) for order, plan in enumerate(sorted(plans, key=place)))
