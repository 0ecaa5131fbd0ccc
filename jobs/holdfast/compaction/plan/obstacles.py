"""Why a changelog is left alone, and what may go wrong where it is not."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.compaction.plan.plan import Change
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.survey.facts import BrokerFacts, How, Survey, TopicFacts
from holdfast.compaction.survey.upkeep import Upkeep
from holdfast.types.words import human_bytes, human_seconds

__all__ = ["brokers_of", "obstacle", "risks"]

# Brokers end what has been open for longer (transaction.max.timeout.ms).
_TRANSACTION_MAX_MS = 900_000


def brokers_of(topic: TopicFacts, survey: Survey) -> list[BrokerFacts]:
    """Those that hold a replica of it."""
    ids = {broker for p in topic.partitions for broker in p.replicas}
    return [broker for broker in survey.brokers if broker.broker in ids]


def obstacle(topic: TopicFacts, survey: Survey, policy: Policy) -> str:
    """Why nothing at all may be changed, in one sentence; empty when something may."""
    if not policy.covers(topic.topic):
        return f"Left out: the policy's topics are {', '.join(policy.topics)}."
    if topic.orphaned:
        return f"Orphaned: {topic.orphaned.rstrip('.')}; it is only reported."
    if not topic.partitions:
        return "It has no partitions that could be surveyed."
    return _unhealthy(topic) or _stuck(topic, survey) or _uncleaned(topic, survey)


def risks(
    topic: TopicFacts, survey: Survey, changes: tuple[Change, ...], *, cleans: bool
) -> Iterator[str]:
    """What may go wrong, one sentence each."""
    lowered = {change.name for change in changes}
    keeps_ms = Upkeep.of(topic).delete_retention_ms
    if "delete.retention.ms" in lowered:
        after = next(c.after for c in changes if c.name == "delete.retention.ms")
        yield (
            f"A store that is away for longer than {human_seconds(int(after or 0) / 1000)} is "
            "restored in full when it comes back."
        )
    elif topic.longest_absence_ms > keeps_ms:
        yield (
            f"A store was away for {human_seconds(topic.longest_absence_ms / 1000)}, longer than "
            f"tombstones are kept ({human_seconds(keeps_ms / 1000)}): it is restored in full when "
            "it comes back."
        )
    if cleans:
        yield from _of_cleaning(topic, survey)


def _of_cleaning(topic: TopicFacts, survey: Survey) -> Iterator[str]:
    if topic.readers:
        yield (
            f"Superseded records that {_listed(topic.readers)} {_have(topic.readers)} not read yet "
            "go; readers of the newest rows miss nothing."
        )
    if topic.caught_up is False:
        behind = f"{topic.lag:,} offsets" if topic.lag is not None else "some offsets"
        yield f"The job is {behind} behind, and the cleaner takes disk and cores of its brokers."
    largest = max(p.bytes for p in topic.partitions)
    for broker in brokers_of(topic, survey):
        if 0 <= broker.free_bytes < largest:
            yield (
                f"Broker {broker.broker} has {human_bytes(broker.free_bytes)} of disk left, and a "
                f"cleaning writes up to {human_bytes(largest)} anew before old segments go."
            )
    error = sum(p.live_keys.error for p in topic.partitions)
    if error and any(p.live_keys.how is not How.COUNTED for p in topic.partitions):
        yield (
            f"Live keys are an estimate, {topic.live_keys:,.0f} ± {error:,.0f}, and so is what is "
            "won."
        )


def _unhealthy(topic: TopicFacts) -> str:
    leaderless = [p.partition for p in topic.partitions if p.leader < 0]
    if leaderless:
        return f"Partition {_listed(leaderless)} has no leader; bring its brokers back first."
    behind = [p.partition for p in topic.partitions if not set(p.in_sync) >= set(p.replicas)]
    if behind:
        missing = {r for p in topic.partitions for r in p.replicas if r not in p.in_sync}
        return (
            f"Partition {_listed(behind)} is not in sync on broker {_listed(sorted(missing))}; a "
            "cleaning would compete with its catching up."
        )
    return ""


def _stuck(topic: TopicFacts, survey: Survey) -> str:
    stuck = [
        p
        for p in topic.partitions
        if p.unstable and 0 <= p.last_write_ms < survey.taken_ms - _TRANSACTION_MAX_MS
    ]
    if not stuck:
        return ""
    p = stuck[0]
    return (
        f"Partition {p.partition} holds a transaction that nobody ends: no cleaner goes beyond "
        f"offset {p.end}; end it with `kafka-transactions.sh abort`."
    )


def _uncleaned(topic: TopicFacts, survey: Survey) -> str:
    stopped = [b for b in brokers_of(topic, survey) if not b.cleans(topic.topic)]
    if not stopped:
        return ""
    broker = stopped[0]
    evidence = f" ({broker.evidence.rstrip('.')})" if broker.evidence else ""
    does = "has given this changelog up" if broker.given_up else f"is {broker.cleaner}"
    return (
        f"The log cleaner of broker {broker.broker} {does}{evidence}: nothing would be cleaned "
        "there."
    )


def _listed(names: tuple[str, ...] | list[int]) -> str:
    return ", ".join(str(name) for name in names)


def _have(names: tuple[str, ...]) -> str:
    return "has" if len(names) == 1 else "have"
