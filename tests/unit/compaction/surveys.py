"""Surveys made by hand: a topic of which a test says only what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.compaction.survey.facts import (
    BrokerFacts,
    CleanerState,
    Estimate,
    How,
    PartitionFacts,
    RestoreFacts,
    Setting,
    Survey,
    TopicFacts,
)

__all__ = [
    "MIB",
    "TAKEN_MS",
    "a_broker",
    "a_partition",
    "a_survey",
    "a_topic",
    "changelog_settings",
    "own_settings",
]

MIB = 1 << 20
TAKEN_MS = 1_790_000_000_000
_DEFAULTS = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "max.compaction.lag.ms": "9223372036854775807",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}
_OF_CHANGELOGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "86400000",
    "segment.bytes": str(64 * MIB),
}


def own_settings(**own: str) -> tuple[Setting, ...]:
    """Kafka's defaults with a topic's own settings over them; `_` for `.`."""
    named = {name.replace("_", "."): value for name, value in own.items()}
    return changelog_settings(named)


def changelog_settings(own: dict[str, str]) -> tuple[Setting, ...]:
    """The settings of a changelog as Holdfast makes it, with others of its own over them."""
    owned = _OF_CHANGELOGS | own
    return tuple(
        Setting(name, owned.get(name, value), "topic" if name in owned else "default")
        for name, value in _DEFAULTS.items()
    )


def a_partition(number: int = 0, **facts: Any) -> PartitionFacts:
    """30 MB of 500,000 updates of 12,500 keys in one segment that is not closed; nobody writes."""
    plain = PartitionFacts(
        partition=number,
        leader=1,
        replicas=(1,),
        in_sync=(1,),
        bytes=30_000_000,
        start=0,
        end=500_100,
        records=Estimate(500_000),
        live_keys=Estimate(12_500),
        tombstones=Estimate(0),
        expired=Estimate(0),
        record_bytes=Estimate(60, how=How.DERIVED),
        dirty_ratio=Estimate(1, how=How.DERIVED),
        segments=Estimate(1),
        active_bytes=Estimate(30_000_000),
        last_write_ms=TAKEN_MS - 1_000,
    )
    given: dict[str, Any] = {
        name: Estimate(value) if _is_estimate(name) and not isinstance(value, Estimate) else value
        for name, value in facts.items()
    }
    return replace(plain, **given)


def _is_estimate(name: str) -> bool:
    return PartitionFacts.__dataclass_fields__[name].type == "Estimate"


def a_topic(name: str = "app-ctas_t-changelog", count: int = 4, **facts: Any) -> TopicFacts:
    """A healthy changelog of `count` partitions, which two processes restore at 200,000/s each.

    Facts of partitions are those of every partition; the others are the topic's.
    """
    of_partition = {k: facts.pop(k) for k in list(facts) if k in PartitionFacts.__annotations__}
    partitions = tuple(a_partition(number, **of_partition) for number in range(count))
    records = [p.records.value for p in partitions]
    seconds = max(sum(records) / 2, max(records, default=0.0)) / 200_000
    plain = TopicFacts(
        topic=name,
        topic_id="an-id",
        application_id="app",
        query_id="ctas_t",
        windowed=False,
        retention_ms=0,
        settings=own_settings(),
        partitions=partitions,
        restore=RestoreFacts(200_000, 2, seconds),
        caught_up=True,
        lag=0,
    )
    return replace(plain, **facts)


def a_broker(number: int = 1, **facts: Any) -> BrokerFacts:
    """A broker whose cleaner runs; settings by keyword, `_` for `.` and without `log.cleaner.`."""
    of_broker = ("cleaner", "evidence", "free_bytes", "given_up")
    named: dict[str, Any] = {name: facts.pop(name) for name in of_broker if name in facts}
    settings = tuple(
        Setting(f"log.cleaner.{name.replace('_', '.')}", str(value), "file")
        for name, value in facts.items()
    )
    return BrokerFacts(number, settings, **({"cleaner": CleanerState.RUNNING} | named))


def a_survey(*topics: TopicFacts, brokers: tuple[BrokerFacts, ...] = ()) -> Survey:
    """A survey of these topics on one healthy broker, or on those given."""
    return Survey("run", "cluster", TAKEN_MS, 1.0, brokers or (a_broker(),), topics)
