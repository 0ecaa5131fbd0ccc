"""The policy: the targets for changelogs, and what a plan may do to reach them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

from holdfast.config import values
from holdfast.config.values import Kind
from holdfast.errors import InvalidConfig
from holdfast.types.words import nearest

__all__ = ["HEADER", "POLICY_KEYS", "Policy", "PolicyKey", "parse_policy", "policy_rows"]

HEADER = ("key", "default", "takes", "meaning")

_DAY_MS = 86_400_000
_BYTES_MAX = 1 << 60


@dataclass(frozen=True)
class Policy:
    """Targets and permissions.  `POLICY_KEYS` says what each field means."""

    target_restore_s: float = 0.0
    disk_budget_bytes: int = 0
    growth_max: float = 4.0
    topics: tuple[str, ...] = ("*",)
    min_gain: float = 0.2
    min_gain_bytes: int = 64 << 20
    max_store_absence_ms: int = _DAY_MS
    cleaner_bytes_per_s: int = 20 << 20
    allow_roll: bool = True

    @property
    def has_target(self) -> bool:
        return self.target_restore_s > 0 or self.disk_budget_bytes > 0

    def covers(self, topic: str) -> bool:
        """Whether one of the patterns fits the topic's name."""
        return any(fnmatchcase(topic, pattern) for pattern in self.topics)

    def worth(self, now: int, gain: int) -> bool:
        """Whether gaining `gain` of `now` bytes is worth a cleaner's work."""
        return gain >= _SMALLEST_GAIN and (
            gain >= self.min_gain * now or gain >= self.min_gain_bytes
        )

    def as_dict(self) -> dict[str, Any]:
        """Every key with its value, as JSON has them."""
        found = {f.name.replace("_", "."): getattr(self, f.name) for f in fields(self)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}


# A smaller gain justifies no cleaning: a broker reads ahead by more than that.
_SMALLEST_GAIN = 64 << 10


@dataclass(frozen=True)
class PolicyKey:
    """One key of a policy: what it takes and what it means."""

    name: str
    kind: Kind
    doc: str

    @property
    def field(self) -> str:
        return self.name.replace(".", "_")

    @property
    def default(self) -> str:
        """The default as a person would type it."""
        value = getattr(Policy(), self.field)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float):
            return f"{value:g}"
        return ",".join(value) if isinstance(value, tuple) else str(value)


POLICY_KEYS: dict[str, PolicyKey] = {
    key.name: key
    for key in (
        PolicyKey(
            "target.restore.s",
            values.number(0, 86_400),
            "the longest time that a full restore of any one table may take; 0: no such target",
        ),
        PolicyKey(
            "disk.budget.bytes",
            values.whole(0, _BYTES_MAX),
            "the most that all changelogs may take together, one replica each; 0: no such target",
        ),
        PolicyKey(
            "growth.max",
            values.number(1.1, 1_000),
            "without a target: how many times its needed size a changelog may reach, once it is "
            "larger than min.gain.bytes",
        ),
        PolicyKey("topics", values.paths(), "patterns of the changelogs that may be changed"),
        PolicyKey(
            "min.gain",
            values.number(0, 1),
            "a cleaning that gains a smaller share, and less than min.gain.bytes, is not worth its "
            "I/O",
        ),
        PolicyKey("min.gain.bytes", values.whole(0, _BYTES_MAX), "see min.gain and growth.max"),
        PolicyKey(
            "max.store.absence.ms",
            values.whole(0, 365 * _DAY_MS),
            "how long a volume may be away and still find its tombstones: delete.retention.ms is "
            "never lowered below it",
        ),
        PolicyKey(
            "cleaner.bytes.per.s",
            values.whole(1 << 10, 1 << 40),
            "bytes that one log cleaner thread reads and writes per second, where brokers do not "
            "throttle it",
        ),
        PolicyKey(
            "allow.roll",
            values.flag(),
            "whether active segments may be rolled early, so that a cleaner reaches their records",
        ),
    )
}


def policy_rows() -> Iterator[tuple[str, str, str, str]]:
    """One row per key: name, default, what it takes, meaning."""
    for key in POLICY_KEYS.values():
        takes = "patterns, comma-separated" if key.name == "topics" else key.kind.allowed
        yield key.name, key.default, takes, key.doc


def parse_policy(given: Mapping[str, object]) -> Policy:
    """A policy from keys of a file or a command line; missing keys get their defaults.

    Raises:
        InvalidConfig: naming every unknown key and every value that does not fit.
    """
    found: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in given.items():
        key = POLICY_KEYS.get(name)
        if key is None:
            problems.append(_unknown(name))
            continue
        try:
            found[key.field] = key.kind.parse(value)
        except ValueError as error:
            problems.append(f"{name}: {_reason(error, value)}; it takes: {key.kind.allowed}")
    if found.get("topics") == ():
        problems.append("topics: it is empty; it takes: patterns, comma-separated")
    if problems:
        raise _refusal(problems)
    return Policy(**found)


def _unknown(name: str) -> str:
    guess = nearest(name, POLICY_KEYS)
    hint = f"did you mean {guess}?" if guess else f"there are: {', '.join(POLICY_KEYS)}"
    return f"{name}: no such key of a policy; {hint}"


def _reason(error: ValueError, value: object) -> str:
    return str(error) if "invalid literal" not in str(error) else f"{value!r} is no whole number"


def _refusal(problems: list[str]) -> InvalidConfig:
    count = "1 key" if len(problems) == 1 else f"{len(problems)} keys"
    return InvalidConfig(
        "\n".join(
            [
                f"{count} of the policy {'is' if len(problems) == 1 else 'are'} wrong:",
                *(f"  - {problem}" for problem in problems),
            ]
        ),
        action="`holdfast compaction plan --policy help` prints every key with its default.",
    )
