"""The settings that stay: with which of them a changelog stays within its limit most cheaply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from holdfast.compaction.plan.limits import Limit
from holdfast.compaction.plan.model import Size, core, cost, daily_io, tombstone_bytes, worst_moment
from holdfast.compaction.plan.plan import Change, Cost
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.survey.facts import TopicFacts
from holdfast.compaction.survey.upkeep import Upkeep
from holdfast.types.words import human_bytes, human_seconds

__all__ = ["changes_that_stay", "own", "settled"]

_RATIOS = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
# Kafka 4 takes no smaller segments than 1 MiB (KIP-1030).
_SEGMENTS = tuple(mib << 20 for mib in (64, 32, 16, 8, 4, 2, 1))
_BUSY_MAX = 0.1  # of one cleaner thread, for one topic
_NEARLY = 1.05  # that close to the best is as good when it costs the cleaner less
_BETTER = 0.2  # where no setting is enough, one that wins less than this share is not worth it


@dataclass(frozen=True)
class _Choice:
    """Settings, the worst moment with them, and what they cost the cleaner in bytes a day."""

    upkeep: Upkeep
    worst: Cost
    daily: float

    @property
    def effort(self) -> tuple[float, int, float]:
        """Least first: little I/O, then large segments, which are fewer files."""
        return self.daily, -self.upkeep.segment_bytes, -self.upkeep.dirty_ratio


def settled(topic: TopicFacts, limit: Limit, policy: Policy) -> Upkeep:
    """The settings that shall stay; those there are while they are good enough.

    Only ever lower ones are chosen: a lower ratio or smaller segments let a log grow less.
    Compaction lags are left alone, for some reader's sake somebody set them.
    """
    upkeep = Upkeep.of(topic)
    cores = [core(p) for p in topic.partitions]
    here = _choice(topic, upkeep, cores)
    if limit.holds(here.worst):
        return upkeep
    found = [_choice(topic, other, cores) for other in _lower(upkeep)]
    found = [c for c in found if c.daily <= policy.cleaner_bytes_per_s * 86_400 * _BUSY_MAX]
    enough = [c for c in found if limit.aimed(c.worst)]
    if enough:
        best = min(enough, key=lambda c: c.effort)
        won = here.worst.bytes - best.worst.bytes
        # Nobody asked: then it has to be worth it in plain bytes, a share of little is little.
        return best.upkeep if limit.asked or won >= policy.min_gain_bytes else upkeep
    return _least_bad(here, found)


def changes_that_stay(topic: TopicFacts, limit: Limit, policy: Policy) -> tuple[Change, ...]:
    """What becomes of the topic's own settings for good, each with its reason."""
    upkeep = Upkeep.of(topic)
    compacted = () if upkeep.policy == ("compact",) else (_compacted(topic),)
    pulled = _pulled(topic, upkeep, settled(topic, limit, policy))
    return (*compacted, *pulled, *_tombstones(topic, limit, policy))


def own(topic: TopicFacts, name: str) -> str | None:
    """The topic's own value of a setting, None when it has none."""
    setting = topic.setting(name)
    return setting.value if setting is not None and setting.source == "topic" else None


def _lower(upkeep: Upkeep) -> Iterator[Upkeep]:
    ratios = [upkeep.dirty_ratio, *(r for r in _RATIOS if r < upkeep.dirty_ratio)]
    segments = [upkeep.segment_bytes, *(s for s in _SEGMENTS if s < upkeep.segment_bytes)]
    for ratio, segment in product(ratios, segments):
        yield replace(upkeep, dirty_ratio=ratio, segment_bytes=segment)


def _choice(topic: TopicFacts, upkeep: Upkeep, cores: list[Size]) -> _Choice:
    pairs = list(zip(topic.partitions, cores, strict=True))
    worst = cost(topic, [worst_moment(p, upkeep, kept) for p, kept in pairs])
    return _Choice(upkeep, worst, sum(daily_io(p, upkeep, kept) for p, kept in pairs))


def _least_bad(here: _Choice, found: list[_Choice]) -> Upkeep:
    if not found:
        return here.upkeep
    least = min(choice.worst.bytes for choice in found)
    if here.worst.bytes - least < _BETTER * here.worst.bytes:
        return here.upkeep
    near = [choice for choice in found if choice.worst.bytes <= least * _NEARLY]
    return min(near, key=lambda c: c.effort).upkeep


def _change(topic: TopicFacts, name: str, after: str, why: str) -> Change:
    setting = topic.setting(name)
    return Change(name, own(topic, name), after, setting.value if setting else "", why)


def _compacted(topic: TopicFacts) -> Change:
    setting = topic.setting("cleanup.policy")
    found = setting.value if setting is not None else ""
    why = (
        f"cleanup.policy={found} deletes commit markers of a quiet table by their age, and with "
        "them its progress."
    )
    return _change(topic, "cleanup.policy", "compact", why)


def _pulled(topic: TopicFacts, upkeep: Upkeep, then: Upkeep) -> list[Change]:
    """The changes from one to the other; what both together reach stands in the last one."""
    found: list[Change] = []
    if then.dirty_ratio != upkeep.dirty_ratio:
        why = (
            f"The cleaner comes at {then.dirty_ratio:.0%} dirt instead of {upkeep.dirty_ratio:.0%}"
        )
        name = "min.cleanable.dirty.ratio"
        found.append(_change(topic, name, repr(then.dirty_ratio), f"{why}."))
    if then.segment_bytes != upkeep.segment_bytes:
        kept = human_bytes(sum(core(p).bytes for p in topic.partitions))
        why = (
            f"No cleaner touches active segments, up to {human_bytes(upkeep.segment_bytes)} in "
            f"each partition ({len(topic.partitions)}), for {kept} of table"
        )
        found.append(_change(topic, "segment.bytes", str(then.segment_bytes), f"{why}."))
    if found:
        reach = f"{found[-1].why.removesuffix('.')}: {_reach(topic, upkeep, then)}."
        found[-1] = replace(found[-1], why=reach)
    return found


def _reach(topic: TopicFacts, upkeep: Upkeep, then: Upkeep) -> str:
    cores = [core(p) for p in topic.partitions]
    here, there = _choice(topic, upkeep, cores), _choice(topic, then, cores)
    return (
        f"the log reaches {human_bytes(there.worst.bytes)} instead of "
        f"{human_bytes(here.worst.bytes)}, and the cleaner does {human_bytes(there.daily)} of I/O "
        f"a day instead of {human_bytes(here.daily)}"
    )


def _tombstones(topic: TopicFacts, limit: Limit, policy: Policy) -> Iterator[Change]:
    """Tombstones may go sooner where they are a good part of what stays and nobody needs them."""
    upkeep = Upkeep.of(topic)
    keep_ms = max(policy.max_store_absence_ms, topic.longest_absence_ms)
    cores = [core(p) for p in topic.partitions]
    part = sum(tombstone_bytes(p) for p in topic.partitions)
    held = limit.asked and limit.holds(_choice(topic, upkeep, cores).worst)
    kept = sum(size.bytes for size in cores)
    if keep_ms >= upkeep.delete_retention_ms or topic.readers or held:
        return
    if not policy.worth(round(kept), round(min(part, kept))):
        return
    yield _change(
        topic,
        "delete.retention.ms",
        str(keep_ms),
        f"Tombstones are {human_bytes(part)} of the {human_bytes(kept)} that stay, and no store "
        f"needs them for longer than {human_seconds(keep_ms / 1000)}.",
    )
