"""Temporary settings: set after they are written down, put back, and taken off the list.

    step                         a kill right after it leaves
    1 write the ledger's entry   an entry, nothing changed
    2 set what is temporary      an entry that says how to undo it
    3 put back                   an entry, nothing to undo
    4 close the entry            nothing

`repair` does 3 and 4 for whatever entry it finds.  A setting that a person has changed meanwhile
is that person's: only what still has the temporary value goes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from holdfast.compaction.apply.ledger import Entry, Ledger
from holdfast.errors import KafkaUnavailable, Refused, TopicMissing
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.cluster.view import ClusterView, TopicState

__all__ = ["Hands", "TopicOwner", "repair", "with_temporary"]

_T = TypeVar("_T")

_RETRY_S = 1.0


class TopicOwner(Protocol):
    """Keeps the settings of topics instead of the topics themselves, as Strimzi does."""

    def alter(self, owner: str, changes: Mapping[str, str | None]) -> None:
        """Change settings in the resource `owner` (`kafkatopic/<namespace>/<name>`).

        Returns when the topic has them.  None removes one.

        Raises:
            Refused: the resource is gone or may not be changed.
        """


@dataclass(frozen=True)
class Hands:
    """What settings are read and changed with.

    Attributes:
        owners: for topics whose settings a resource keeps; None when there are none such.
        broker_s: for how long brokers may be away.
        tell: is told what is waited for.
    """

    view: ClusterView
    settings: TopicSettings
    owners: TopicOwner | None
    broker_s: float
    tell: Callable[[str], None]

    def own(self, topic: str) -> dict[str, str]:
        """The topic's own settings.

        Raises:
            TopicMissing, Refused, KafkaUnavailable: nobody tells.
        """
        found = self.patiently(lambda: self.settings.of([topic]))[topic]
        return {name: value.value for name, value in found.items() if value.source == "topic"}

    def alter(self, topic: str, owner: str, changes: Mapping[str, str | None]) -> None:
        """Changes settings where they are kept.

        Raises:
            TopicMissing, Refused, KafkaUnavailable: some of them may be changed.
        """
        if not changes:
            return
        if not owner:
            self.patiently(lambda: self.settings.alter(topic, changes))
        elif self.owners is not None:
            self.owners.alter(owner, changes)
        else:
            raise Refused(
                f"The settings of topic {topic} are kept by {owner}, which cannot be reached.",
                cause="the command runs without access to the Kubernetes API",
                action="use --target kubernetes, or change that resource by hand",
            )

    def topic_id(self, topic: str) -> str | None:
        """Of the topic as it is now, None when it is gone.

        Raises:
            Refused, KafkaUnavailable: nobody tells.
        """
        try:
            return self._state(topic).topic_id
        except TopicMissing:
            return None

    def _state(self, topic: str) -> TopicState:
        return self.patiently(lambda: self.view.topics([topic]))[topic]

    def unhealthy(self, topic: str) -> list[str]:
        """What is wrong with the partitions of a topic, one phrase each.

        Raises:
            TopicMissing, Refused, KafkaUnavailable: nobody tells.
        """
        told = []
        for n, state in enumerate(self._state(topic).partitions):
            if state.leader < 0:
                told.append(f"partition {n} has no leader")
            elif set(state.in_sync) < set(state.replicas):
                told.append(
                    f"partition {n} has {len(state.in_sync)} of {len(state.replicas)} replicas in "
                    "sync"
                )
        return told

    def patiently(self, ask: Callable[[], _T]) -> _T:
        """Asks again while brokers are away, for `broker_s`.

        Raises:
            KafkaUnavailable: they stayed away.
        """
        deadline = time.monotonic() + self.broker_s
        while True:
            try:
                return ask()
            except KafkaUnavailable as error:
                if time.monotonic() >= deadline:
                    raise
                self.tell(f"waiting for a broker: {error.fact}")
                time.sleep(_RETRY_S)


@contextmanager
def with_temporary(hands: Hands, ledger: Ledger, entry: Entry) -> Iterator[None]:
    """Has the entry's temporary settings in force inside the block, whatever ends it.

    Raises:
        TopicMissing, Refused, KafkaUnavailable: they could not be set.
        HoldfastError: they could not be put back; the ledger says what is open.
    """
    hands.patiently(lambda: ledger.write(entry))
    hands.patiently(lambda: ledger.find(entry.topic))  # who may not read it could not put back
    try:
        hands.alter(entry.topic, entry.owner, entry.temporary)
        yield
    finally:
        _return(hands, ledger, entry)


def _return(hands: Hands, ledger: Ledger, entry: Entry) -> None:
    try:
        found = hands.patiently(lambda: ledger.find(entry.topic))
        if found is None or found.token != entry.token:
            raise Refused(
                f"The temporary settings of topic {entry.topic} are in other hands by now.",
                cause="another apply, or a repair, has begun while this one was at work",
                action="wait for the other one to end, then survey again",
            )
        _undo(hands, entry)
        hands.patiently(lambda: ledger.close(entry.topic))
    except KafkaUnavailable as error:
        names = ", ".join(sorted(entry.temporary))
        raise KafkaUnavailable(
            f"Temporary settings of topic {entry.topic} ({names}) may still be in force: "
            f"{error.fact}",
            cause=error.cause,
            action=f"run `holdfast compaction repair` when brokers answer again; topic "
            f"{ledger.topic} has written down what to put back",
        ) from error


def repair(hands: Hands, ledger: Ledger) -> list[str]:
    """Puts back what an apply that was cut off has left; says what, one sentence each.

    Raises:
        Refused, KafkaUnavailable: something is open still; repair again.
    """
    told = []
    for entry in hands.patiently(ledger.open_entries):
        told.append(_undo(hands, entry))
        hands.patiently(partial(ledger.close, entry.topic))
    return told


def _undo(hands: Hands, entry: Entry) -> str:
    """Puts back what still has its temporary value; says what was done."""
    if hands.topic_id(entry.topic) != entry.topic_id:
        return f"{entry.topic} is gone, nothing had to be put back"
    try:
        own = hands.own(entry.topic)
        back = {
            name: entry.put_back.get(name)
            for name, value in entry.temporary.items()
            if own.get(name) == value and entry.put_back.get(name) != value
        }
        hands.alter(entry.topic, entry.owner, back)
    except TopicMissing:
        return f"{entry.topic} is gone, nothing had to be put back"
    if not back:
        return f"{entry.topic} had its own settings again already"
    put = ", ".join(f"{k}={v}" if v is not None else f"{k} removed" for k, v in back.items())
    return f"{entry.topic}: {put}"
