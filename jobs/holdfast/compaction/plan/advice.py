"""What a plan says beside its changes: advice about brokers, and targets that cannot be met.

Holdfast changes no broker setting: they concern every topic of the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from holdfast.compaction.plan.model import core, cost, restore_seconds
from holdfast.compaction.plan.obstacles import brokers_of
from holdfast.compaction.plan.plan import TopicPlan
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.survey.facts import CleanerState, Survey, TopicFacts
from holdfast.compaction.survey.upkeep import Capacity
from holdfast.types.words import human_bytes, human_seconds

__all__ = ["broker_advice", "unmet_targets"]

_LONG_S = 600.0
_BACKOFF_MAX_MS = 60_000
_BYTES_PER_KEY = 24
_LOAD = 0.9


def broker_advice(survey: Survey, plans: Sequence[TopicPlan], policy: Policy) -> Iterator[str]:
    """One sentence per thing that a person may want to change at brokers."""
    yield from _stopped(survey)
    yield from _unseen(survey, plans)
    capacity = Capacity.of(survey.brokers, policy.cleaner_bytes_per_s)
    yield from _memory(survey, plans, capacity)
    yield from _speed(plans, capacity)
    for broker in survey.brokers:
        setting = broker.setting("log.cleaner.backoff.ms")
        if setting is not None and int(setting.value) > _BACKOFF_MAX_MS:
            yield (
                f"Broker {broker.broker}: log.cleaner.backoff.ms={setting.value} lets its cleaner "
                f"sleep for {human_seconds(int(setting.value) / 1000)} between looks; the default "
                "is 15000."
            )


def unmet_targets(survey: Survey, plans: Sequence[TopicPlan], policy: Policy) -> Iterator[str]:
    """What the policy asks for and this plan does not reach, with the numbers."""
    topics = {t.topic: t for t in survey.topics}
    if policy.target_restore_s:
        for plan in plans:
            if max(plan.after.restore_s, plan.steady.restore_s) > policy.target_restore_s:
                yield _slow(topics[plan.topic], plan, policy)
    if policy.disk_budget_bytes:
        yield from _large(topics, plans, policy)


def _stopped(survey: Survey) -> Iterator[str]:
    for broker in survey.brokers:
        if broker.cleaner not in (CleanerState.DEAD, CleanerState.OFF):
            continue
        held = [t for t in survey.topics if broker in brokers_of(t, survey)]
        grows = sum(1 for t in held if not broker.cleans(t.topic))
        remedy = (
            "set log.cleaner.enable=true and log.cleaner.threads=1 or more"
            if broker.cleaner is CleanerState.OFF
            else "look at its log for what it could not read, repair that, and restart the broker"
        )
        evidence = f" ({broker.evidence.rstrip('.')})" if broker.evidence else ""
        yield (
            f"Broker {broker.broker}: its log cleaner is {broker.cleaner}{evidence}, and "
            f"{grows} of {len(held)} changelogs there only grow; {remedy}."
        )


def _unseen(survey: Survey, plans: Sequence[TopicPlan]) -> Iterator[str]:
    unseen = [b.broker for b in survey.brokers if b.cleaner is CleanerState.UNKNOWN]
    if unseen and any(plan.temporary for plan in plans):
        yield (
            f"Whether the log cleaner of broker {', '.join(map(str, unseen))} runs cannot be seen "
            "from here; if it does not, nothing is won and temporary settings are put back."
        )


def _memory(survey: Survey, plans: Sequence[TopicPlan], capacity: Capacity) -> Iterator[str]:
    cleaned = {plan.topic for plan in plans if plan.cleaner_read_bytes}
    found = [
        (p.live_keys.value + p.tombstones.value, t.topic, p.partition)
        for t in survey.topics
        if t.topic in cleaned
        for p in t.partitions
    ]
    keys, topic, partition = max(found, default=(0.0, "", 0))
    if keys <= capacity.keys:
        return
    wanted = math.ceil(keys * _BYTES_PER_KEY / _LOAD) * capacity.threads
    yield (
        f"Partition {partition} of {topic} has {keys:,.0f} keys, and a cleaner thread's map holds "
        f"{capacity.keys:,}: it goes over the log {math.ceil(keys / capacity.keys)} times; "
        f"log.cleaner.dedupe.buffer.size={wanted} would do with one."
    )


def _speed(plans: Sequence[TopicPlan], capacity: Capacity) -> Iterator[str]:
    seconds = sum(plan.cleaner_s for plan in plans)
    if seconds < _LONG_S:
        return
    spans = f"The cleanings of this plan take {human_seconds(seconds)} one after the other"
    if capacity.throttle < capacity.bytes_per_s * capacity.threads:
        yield (
            f"{spans}, bounded by log.cleaner.io.max.bytes.per.second="
            f"{capacity.throttle:.0f}; raise it if the disks have room."
        )
        return
    widest = max(len(plan.partitions) for plan in plans if plan.cleaner_s)
    more = min(capacity.threads * 2, max(widest, capacity.threads))
    if more > capacity.threads:
        yield (
            f"{spans}; log.cleaner.threads={more} instead of {capacity.threads} would make it "
            f"about {human_seconds(seconds * capacity.threads / more)}."
        )


def _slow(topic: TopicFacts, plan: TopicPlan, policy: Policy) -> str:
    target = policy.target_restore_s
    least = cost(topic, [core(p) for p in topic.partitions]).restore_s
    reached = max(plan.after.restore_s, plan.steady.restore_s)
    head = f"{plan.topic}: a restore of {human_seconds(target)} is asked for"
    if least <= target:
        kept = "left alone" if plan.nothing else "changed as planned"
        return (
            f"{head}; {kept}, it takes {human_seconds(reached)} at its worst moment and "
            f"{human_seconds(least)} at its best."
        )
    rate, processes = topic.restore.records_per_s, topic.restore.processes
    each = "process" if processes == 1 else "processes"
    return (
        f"{head}; what no cleaning removes ({topic.live_keys:,.0f} live keys, and tombstones) "
        f"needs {human_seconds(least)} at {rate:,.0f} records/s with {processes} {each}; "
        f"{_remedy(topic, target)}."
    )


def _remedy(topic: TopicFacts, target: float) -> str:
    """More processes while partitions last, then more partitions."""
    live = [core(p).records for p in topic.partitions]
    for processes in range(topic.restore.processes + 1, len(live) + 1):
        if restore_seconds(topic, live, processes) <= target:
            return f"{processes} executors would do"
    return (
        f"{len(live)} executors, one per state partition, would not do either; more state "
        "partitions would (a new application.id)"
    )


def _large(
    topics: Mapping[str, TopicFacts], plans: Sequence[TopicPlan], policy: Policy
) -> Iterator[str]:
    budget = policy.disk_budget_bytes
    reached = sum(plan.steady.bytes for plan in plans)
    if reached <= budget:
        return
    least = sum(cost(t, [core(p) for p in t.partitions]).bytes for t in topics.values())
    how = "can hold" if least > budget else "stays within"
    yield (
        f"All changelogs: {human_bytes(budget)} are asked for; what cannot be removed takes "
        f"{human_bytes(least)}, and at the worst moment they take {human_bytes(reached)}: no plan "
        f"{how} the budget."
    )
