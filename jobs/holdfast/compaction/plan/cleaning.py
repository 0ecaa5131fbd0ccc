"""One cleaning of one changelog: whether it pays, and which temporary settings it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.compaction.plan.levers import own
from holdfast.compaction.plan.limits import Limit
from holdfast.compaction.plan.model import (
    Size,
    Work,
    after_cleaning,
    before_cleaning,
    cleaner_work,
    cost,
)
from holdfast.compaction.plan.plan import Change
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.survey.facts import Estimate, PartitionFacts, TopicFacts
from holdfast.compaction.survey.upkeep import Capacity, Upkeep
from holdfast.types.words import human_bytes, human_seconds

__all__ = ["Cleaning", "as_cleaned", "cleaning"]

# Long enough that a busy job does not roll many segments meanwhile, short enough to wait out.
_ROLL_MS = 10_000


@dataclass(frozen=True)
class Cleaning:
    """The effect of a cleaning.  Without `wanted` nothing is cleaned and `after` is as now.

    Attributes:
        after: size of each partition, in the survey's order.
        work: the cleaner's work on each partition.
        seconds: time of the busiest broker.
        won: bytes gained, even when the cleaning is not wanted.
        why: one sentence.
    """

    wanted: bool
    roll: bool
    after: tuple[Size, ...]
    work: tuple[Work, ...]
    seconds: float
    won: int
    temporary: tuple[Change, ...]
    why: str


def cleaning(topic: TopicFacts, limit: Limit, policy: Policy, capacity: Capacity) -> Cleaning:
    """The cleaning that a changelog needs, or why it needs none.

    If a roll would still pay after this cleaning, it rolls at once: two cleanings cost more.
    """
    upkeep = Upkeep.of(topic)
    roll = policy.allow_roll and _roll_pays(topic, upkeep, policy)
    once = _cleaning(topic, limit, policy, capacity, roll=roll)
    again = once.wanted and policy.allow_roll and not roll
    if again and _roll_pays(as_cleaned(topic, once), upkeep, policy):
        return _cleaning(topic, limit, policy, capacity, roll=True)
    return once


def _cleaning(
    topic: TopicFacts, limit: Limit, policy: Policy, capacity: Capacity, *, roll: bool
) -> Cleaning:
    upkeep = Upkeep.of(topic)
    before = tuple(before_cleaning(p) for p in topic.partitions)
    after = _after(topic, upkeep, roll=roll)
    won = _bytes(before) - _bytes(after)
    temporary = _temporary(topic, upkeep, roll=roll)
    why_not = _why_not(topic, limit, policy, roll=roll)
    if not why_not and not temporary:
        why_not = (
            f"{human_bytes(won)} are superseded, and with the settings as they are the cleaner "
            "comes for them by itself."
        )
    if why_not:
        idle = tuple(Work() for _ in before)
        return Cleaning(False, False, before, idle, 0.0, won, (), why_not)
    work = tuple(
        cleaner_work(p, size, capacity.keys, roll=roll)
        for p, size in zip(topic.partitions, after, strict=True)
    )
    seconds = _seconds(topic, work, capacity)
    why = _why(topic, before, after)
    return Cleaning(True, roll, after, work, seconds, won, temporary, why)


def as_cleaned(topic: TopicFacts, once: Cleaning) -> TopicFacts:
    """The changelog as the next survey finds it, if all goes as predicted.

    The settings that stay are chosen for this state: if they were chosen for the present log, the
    same rules might choose again after the cleaning, and the next plan would change them again.
    """
    if not once.wanted:
        return topic
    pairs = zip(topic.partitions, once.after, strict=True)
    seconds = cost(topic, once.after).restore_s
    return replace(
        topic,
        partitions=tuple(_partition_as_cleaned(p, size, roll=once.roll) for p, size in pairs),
        restore=replace(topic.restore, seconds=seconds),
    )


def _partition_as_cleaned(p: PartitionFacts, size: Size, *, roll: bool) -> PartitionFacts:
    left, records = round(size.bytes), round(size.records)
    if left == p.bytes:
        return p
    active = 0.0 if roll else min(left, p.active_bytes.value)
    return replace(
        p,
        bytes=left,
        records=Estimate(records),
        live_keys=replace(p.live_keys, value=min(p.live_keys.value, records)),
        tombstones=replace(p.tombstones, value=min(p.tombstones.value, records)),
        dirty_ratio=Estimate(0),
        active_bytes=Estimate(active),
        markers=replace(p.markers, value=min(p.markers.value, 1)),
    )


def _after(topic: TopicFacts, upkeep: Upkeep, *, roll: bool) -> tuple[Size, ...]:
    return tuple(after_cleaning(p, upkeep, roll=roll) for p in topic.partitions)


def _roll_pays(topic: TopicFacts, upkeep: Upkeep, policy: Policy) -> bool:
    """Whether the records hidden in active segments would justify a cleaning of their own."""
    plain = _bytes(_after(topic, upkeep, roll=False))
    rolled = _bytes(_after(topic, upkeep, roll=True))
    return policy.worth(plain, plain - rolled)


def _why_not(topic: TopicFacts, limit: Limit, policy: Policy, *, roll: bool) -> str:
    now = cost(topic, [before_cleaning(p) for p in topic.partitions])
    if not all(p.live_keys.known for p in topic.partitions):
        return (
            "How many keys live is not known, and so not what a cleaning would win: survey with "
            "the job's status, or with --exact."
        )
    if limit.asked and limit.holds(now):
        return (
            f"Within its limits: {human_bytes(now.bytes)} on disk, a restore of "
            f"{human_seconds(now.restore_s)}."
        )
    if policy.worth(now.bytes, min(_gains(topic, roll=roll))):
        return ""
    won, surely = _gains(topic, roll=policy.allow_roll)
    share = won / now.bytes if now.bytes else 0.0
    unsure = f", {human_bytes(surely)} for sure" if surely < won else ""
    return f"A cleaning would win {human_bytes(won)} ({share:.0%}{unsure}), which is not worth it."


def _gains(topic: TopicFacts, *, roll: bool) -> tuple[int, int]:
    """Bytes that a cleaning wins, and bytes it wins at the upper bound of the live keys."""
    upkeep = Upkeep.of(topic)
    now = sum(p.bytes for p in topic.partitions)
    likely, worst = (_bytes(_after(t, upkeep, roll=roll)) for t in (topic, _at_worst(topic)))
    return now - likely, now - worst


def _at_worst(topic: TopicFacts) -> TopicFacts:
    """The same topic with as many live keys as the survey's error allows."""

    def more(p: PartitionFacts) -> PartitionFacts:
        live = p.live_keys
        return replace(p, live_keys=replace(live, value=live.value + live.error))

    return replace(topic, partitions=tuple(more(p) for p in topic.partitions))


def _temporary(topic: TopicFacts, upkeep: Upkeep, *, roll: bool) -> tuple[Change, ...]:
    """Settings that make the cleaner come now, together with their values before."""
    found: list[Change] = []
    if roll and upkeep.roll_s * 1000 > _ROLL_MS:
        found.append(_lowered(topic, "segment.ms", str(_ROLL_MS), _why_roll(topic)))
    if upkeep.dirty_ratio > 0:
        why = f"The cleaner comes at once instead of at {upkeep.dirty_ratio:.0%} dirt."
        # In the broker's own notation: the value is later compared with its answer.
        found.append(_lowered(topic, "min.cleanable.dirty.ratio", "0.0", why))
    return tuple(found)


def _why_roll(topic: TopicFacts) -> str:
    known = [p.active_bytes for p in topic.partitions if p.active_bytes.known]
    size = f"{human_bytes(sum(a.value for a in known))} in " if known else ""
    return (
        f"The next record closes the active segments, {size}which no cleaner touches; where the "
        "job writes none, one that is aborted does."
    )


def _lowered(topic: TopicFacts, name: str, after: str, why: str) -> Change:
    setting = topic.setting(name)
    return Change(name, own(topic, name), after, setting.value if setting else "", why)


def _seconds(topic: TopicFacts, work: Sequence[Work], capacity: Capacity) -> float:
    """Seconds for the broker with the most work; brokers clean their replicas in parallel."""
    loads: dict[int, list[float]] = {}
    for partition, each in zip(topic.partitions, work, strict=True):
        for broker in partition.replicas:
            loads.setdefault(broker, []).append(each.read + each.written)
    return max((capacity.seconds(load) for load in loads.values()), default=0.0)


def _why(topic: TopicFacts, before: Sequence[Size], after: Sequence[Size]) -> str:
    now, then = cost(topic, before), cost(topic, after)
    restore, less = human_seconds(now.restore_s), human_seconds(then.restore_s)
    takes = f"takes {less} instead of {restore}" if less != restore else f"still takes {restore}"
    return (
        f"{human_bytes(now.bytes - then.bytes)} of {human_bytes(now.bytes)} are superseded or "
        f"removed rows: a restore {takes} without them."
    )


def _bytes(sizes: Sequence[Size]) -> int:
    return round(sum(size.bytes for size in sizes))
