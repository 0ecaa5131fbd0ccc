"""The settings that decide when and how a topic is cleaned, typed, with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.compaction.survey.facts import BrokerFacts, CleanerState, Setting, TopicFacts

__all__ = ["Capacity", "Upkeep"]

_NEVER_MS = (1 << 63) - 1
_DAY_MS = 86_400_000
_BYTES_PER_KEY = 24  # a hash of 16 bytes and an offset (SkimpyOffsetMap)
_MAP_BYTES_MAX = (1 << 31) - 1  # of one thread: a Java array


@dataclass(frozen=True)
class Upkeep:
    """The settings in force of one topic.

    Attributes:
        dirty_ratio: `min.cleanable.dirty.ratio`.
        policy: `cleanup.policy`, its words sorted.
    """

    dirty_ratio: float = 0.5
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    min_lag_ms: int = 0
    max_lag_ms: int = _NEVER_MS
    delete_retention_ms: int = _DAY_MS
    policy: tuple[str, ...] = ("compact",)

    @staticmethod
    def of(topic: TopicFacts) -> Upkeep:
        """What the survey found; what it does not hold is Kafka's default."""
        found = {s.name: s.value for s in topic.settings}
        plain = Upkeep()
        words = found.get("cleanup.policy", "compact").split(",")
        return Upkeep(
            float(found.get("min.cleanable.dirty.ratio", plain.dirty_ratio)),
            int(found.get("segment.bytes", plain.segment_bytes)),
            int(found.get("segment.ms", plain.segment_ms)),
            int(found.get("min.compaction.lag.ms", plain.min_lag_ms)),
            int(found.get("max.compaction.lag.ms", plain.max_lag_ms)),
            int(found.get("delete.retention.ms", plain.delete_retention_ms)),
            tuple(sorted(word.strip() for word in words if word.strip())),
        )

    @property
    def roll_s(self) -> float:
        """After how many seconds a segment is closed that did not fill up (KIP-354)."""
        return min(self.segment_ms, self.max_lag_ms) / 1000


@dataclass(frozen=True)
class Capacity:
    """What the log cleaner of the weakest broker can do.

    Attributes:
        threads: of one broker; each cleans one partition at a time.
        keys: distinct keys that one pass over a partition can take in.
        bytes_per_s: of one thread, read and written bytes together.
        throttle: bytes/s of all threads of a broker, read and written; infinite without one.
    """

    threads: int
    keys: int
    bytes_per_s: float
    throttle: float

    @staticmethod
    def of(brokers: Iterable[BrokerFacts], bytes_per_s: float) -> Capacity:
        """The weakest of those that clean.

        Args:
            bytes_per_s: assumed of one thread that is not throttled.
        """
        stopped = (CleanerState.DEAD, CleanerState.OFF)
        clean = [b for b in brokers if b.given_up or b.cleaner not in stopped]
        return Capacity(
            threads=min((_threads(b) for b in clean), default=1),
            keys=min((_keys(b) for b in clean), default=_keys(None)),
            bytes_per_s=bytes_per_s,
            throttle=min(
                (_number(b, "log.cleaner.io.max.bytes.per.second", float("inf")) for b in clean),
                default=float("inf"),
            ),
        )

    def seconds(self, work: Iterable[float]) -> float:
        """How long one broker takes for partitions of which each is so many bytes of work."""
        each = list(work)
        alone = max(each, default=0.0) / min(self.bytes_per_s, self.throttle)
        together = sum(each) / min(self.bytes_per_s * self.threads, self.throttle)
        return max(alone, together)


def _number(broker: BrokerFacts | None, name: str, otherwise: float) -> float:
    setting: Setting | None = broker.setting(name) if broker is not None else None
    return float(setting.value) if setting is not None else otherwise


def _threads(broker: BrokerFacts | None) -> int:
    return max(1, int(_number(broker, "log.cleaner.threads", 1)))


def _keys(broker: BrokerFacts | None) -> int:
    memory = _number(broker, "log.cleaner.dedupe.buffer.size", 128 << 20) / _threads(broker)
    load = _number(broker, "log.cleaner.io.buffer.load.factor", 0.9)
    return max(1, int(min(memory, _MAP_BYTES_MAX) // _BYTES_PER_KEY * load))
