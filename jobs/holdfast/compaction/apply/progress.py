"""How one knows that the log cleaner has been over a topic.

Where the brokers' log folders are on this machine their checkpoints say it exactly: every offset
below the checkpoint was cleaned.  From elsewhere only sizes tell: a log that fell by a good part of
what was predicted and then rested has been cleaned.  A log that does neither for too long belongs
to a cleaner that does nothing, which is an error with all that is known about it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.compaction.survey.log_watch import Look
from holdfast.errors import CleanerIdle, KafkaUnavailable
from holdfast.types.words import human_bytes

__all__ = ["Bounds", "Cleaned", "Goal", "await_cleaned"]

_POLL_S = 1.0
_AWAY_S = 15.0  # longer between two answers: the broker was away
_SMALL = 0.05  # a gain below this share is not told from ordinary growth by sizes alone
_TROUBLE_S = 10.0
_USUAL = (
    "a cleaner thread has ended, a partition is marked uncleanable, or less is dirty than "
    "min.cleanable.dirty.ratio asks for"
)
_FELL = 0.5  # of the predicted gain: the rest may have been mispredicted


@dataclass(frozen=True)
class Bounds:
    """How long a wait may take, in seconds.

    Attributes:
        idle_s: without any sign of a cleaner.
        rest_s: that a log has to rest after it fell; a cleaner looks for work more often.
        broker_s: without an answer of a broker.
        level_s: for the job to be level again.
    """

    idle_s: float = 300.0
    rest_s: float = 45.0
    broker_s: float = 120.0
    level_s: float = 300.0

    @property
    def attempt_s(self) -> float:
        """Of one question to a broker, which is asked again for `broker_s`."""
        return min(30.0, self.broker_s)


@dataclass(frozen=True)
class Goal:
    """One partition that shall be cleaned.

    Attributes:
        to: the offset below which everything shall be cleaned; None where nobody knows how far
            the cleaner may go, then only sizes tell.
        bytes: of its log before; `expected` after.
    """

    partition: int
    to: int | None
    bytes: int
    expected: int

    @property
    def gain(self) -> int:
        return max(0, self.bytes - self.expected)


@dataclass(frozen=True)
class Cleaned:
    """What a wait ended with: bytes by partition, and whether checkpoints said so."""

    bytes: dict[int, int]
    seconds: float
    exact: bool


def await_cleaned(
    topic: str,
    goals: Sequence[Goal],
    look: Callable[[], Mapping[int, Look]],
    *,
    bounds: Bounds,
    trouble: Callable[[], str],
    tell: Callable[[str], None],
) -> Cleaned:
    """Wait until the log cleaner has been over every partition of `goals`.

    Args:
        look: at the topic's logs; `LogWatch`.
        trouble: what is known to be wrong with the cleaner, empty when nothing is; asked now and
            then while nothing changes.

    Raises:
        CleanerIdle: nothing happened for `bounds.idle_s`, or the cleaner has given up.
        TopicMissing: the topic was deleted meanwhile.
        KafkaUnavailable: no broker answered for `bounds.broker_s`.
    """
    began = time.monotonic()
    wait = _Wait(topic, goals, bounds)
    while True:
        looks = _patiently(look, wait, bounds.broker_s)
        if looks is not None and wait.seen(looks):
            took = time.monotonic() - began
            return Cleaned({p: seen.bytes for p, seen in looks.items()}, took, wait.exact)
        said = wait.trouble(trouble)
        if said or wait.idle_s > bounds.idle_s:
            raise _idle(wait, said or _USUAL)
        tell(wait.words())
        time.sleep(_POLL_S)


def _patiently(
    look: Callable[[], Mapping[int, Look]], wait: _Wait, bound_s: float
) -> Mapping[int, Look] | None:
    """A look, None while no broker answers; that time is not the cleaner's."""
    try:
        return look()
    except KafkaUnavailable:
        if wait.silent_s > bound_s:
            raise
        return None


class _Wait:
    """Owns what was seen of each partition, and since when nothing changed."""

    def __init__(self, topic: str, goals: Sequence[Goal], bounds: Bounds) -> None:
        now = time.monotonic()
        self.topic = topic
        self.goals = {goal.partition: goal for goal in goals}
        self.open = set(self.goals)
        self.exact = True
        self.looks: dict[int, Look] = {g.partition: Look(g.bytes) for g in goals}
        self._rest_s = bounds.rest_s
        self._changed = dict.fromkeys(self.goals, now)
        self._answered = self._asked = now

    def seen(self, looks: Mapping[int, Look]) -> bool:
        """Takes the looks in; true when every partition is done."""
        now = time.monotonic()
        if now - self._answered > _AWAY_S:
            self._changed = dict.fromkeys(self.goals, now)  # a broker that was away cleans nothing
        self._answered = now
        for partition in sorted(self.open & looks.keys()):
            self._take(partition, looks[partition], now)
        return not self.open

    @property
    def idle_s(self) -> float:
        """Since the last change of a partition that is not done."""
        last = max((self._changed[p] for p in self.open), default=self._answered)
        return self._answered - last

    def trouble(self, ask: Callable[[], str]) -> str:
        """What is wrong, asked only now and then and while nothing changes."""
        now = time.monotonic()
        if self.idle_s < _TROUBLE_S or now - self._asked < _TROUBLE_S:
            return ""
        self._asked = now
        return ask()

    @property
    def silent_s(self) -> float:
        return time.monotonic() - self._answered

    def words(self) -> str:
        """Where it stands, for people."""
        done = len(self.goals) - len(self.open)
        now = sum(look.bytes for look in self.looks.values())
        expected = sum(goal.expected for goal in self.goals.values())
        return (
            f"waiting for the log cleaner: {self.topic}, {done} of {len(self.goals)} partitions, "
            f"{human_bytes(now)} now, {human_bytes(expected)} predicted"
        )

    def _take(self, partition: int, look: Look, now: float) -> None:
        before, goal = self.looks[partition], self.goals[partition]
        if look.bytes < before.bytes or (look.cleaned_to or 0) > (before.cleaned_to or 0):
            self._changed[partition] = now
        self.looks[partition] = look
        if goal.to is not None and look.cleaned_to is not None and look.cleaned_to >= goal.to:
            self.open.discard(partition)
        elif self._looks_done(goal, look, rested=now - self._changed[partition] >= self._rest_s):
            self.exact = False
            self.open.discard(partition)

    def _looks_done(self, goal: Goal, look: Look, *, rested: bool) -> bool:
        """What sizes say; where there is little to win they say nothing."""
        if goal.gain <= _SMALL * goal.bytes:
            return rested or goal.to is None or look.cleaned_to is None
        fell = goal.bytes - look.bytes >= _FELL * goal.gain
        return (fell and rested) or look.bytes <= goal.expected * (1 + _SMALL)


def _idle(wait: _Wait, cause: str) -> CleanerIdle:
    left = ", ".join(
        f"{p} ({human_bytes(wait.looks[p].bytes)}, {_removable(wait.goals[p]):.0%} of it removable)"
        for p in sorted(wait.open)
    )
    return CleanerIdle(
        f"The log cleaner did nothing for {wait.idle_s * 1000:.0f} ms to topic {wait.topic}, "
        f"partitions {left}.",
        cause=cause,
        action="look for `Error due to` and `uncleanable` in the broker's log-cleaner.log; restart "
        "a broker whose cleaner thread has ended, and apply the plan again",
    )


def _removable(goal: Goal) -> float:
    return goal.gain / goal.bytes if goal.bytes else 0.0
