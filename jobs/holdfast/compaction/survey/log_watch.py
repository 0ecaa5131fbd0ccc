"""The logs of one topic, as their sizes and the cleaner's checkpoints show them.

Sizes are told by brokers anywhere; checkpoints and segments only by log folders of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.compaction.survey.cleaner import CleanerView, cleaner_state, views_of
from holdfast.compaction.survey.facts import CleanerState
from holdfast.errors import KafkaUnavailable, TopicMissing
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.log_dirs import LogSizes, log_sizes

__all__ = ["LogWatch", "Look"]

_ASK_S = 10.0


@dataclass(frozen=True)
class Look:
    """One partition at one moment; `cleaned_to` is None where no checkpoint can be read."""

    bytes: int
    cleaned_to: int | None = None


class LogWatch:
    """Looks at the logs of one topic: the largest replica, the one cleaned least far."""

    def __init__(self, client: Mapping[str, str], cluster_id: str, topic: str) -> None:
        """Nothing is sent before the first look."""
        self._client = dict(client)
        self._cluster_id = cluster_id
        self._topic = topic

    def __call__(self) -> dict[int, Look]:
        """Every partition now.

        Raises:
            TopicMissing: the topic is gone.
            KafkaUnavailable: no broker answered.
        """
        return {p: self._look(p, logs) for p, logs in self._logs().items()}

    def active_bases(self) -> dict[int, int]:
        """The first offset of each active segment, as far as all replicas' files are here.

        Raises:
            TopicMissing, KafkaUnavailable: as a look.
        """
        found = {}
        for partition, logs in self._logs().items():
            bases = [log.active_base for log in logs]
            if None not in bases:
                found[partition] = min(base for base in bases if base is not None)
        return found

    def trouble(self) -> str:
        """What the cleaners on this machine say is wrong with this topic; empty when nothing."""
        said = []
        for (broker, _), view in self._views(self._sizes()).items():
            state, evidence = cleaner_state({}, [view], [self._topic])
            if state is CleanerState.DEAD:
                said.append(f"broker {broker}: {evidence}")
        return "; ".join(said)

    def _sizes(self) -> LogSizes:
        return log_sizes(self._client, [self._topic], _ASK_S)

    def _views(self, sizes: LogSizes) -> dict[tuple[int, str], CleanerView]:
        return views_of(sizes.dirs, self._cluster_id)

    def _logs(self) -> dict[int, list[_Replica]]:
        sizes = self._sizes()
        views = self._views(sizes)
        found: dict[int, list[_Replica]] = {}
        for folder in sizes.dirs:
            view = views.get((folder.broker, folder.path))
            for (topic, partition), count in folder.bytes.items():
                replica = _Replica(count, view, topic, partition)
                found.setdefault(partition, []).append(replica)
        if not found:
            self._refuse_missing()
        return found

    def _look(self, partition: int, logs: Sequence[_Replica]) -> Look:
        cleaned = [log.cleaned_to for log in logs]
        known = [offset for offset in cleaned if offset is not None]
        exact = len(known) == len(cleaned)
        return Look(max(log.bytes for log in logs), min(known) if exact else None)

    def _refuse_missing(self) -> None:
        if Admin(self._client, _ASK_S).describe(self._topic) is None:
            raise TopicMissing(
                f"Topic {self._topic} is gone.",
                cause="it was deleted while the log cleaner was waited for",
                action="nothing has to be put back; survey again for what is left",
            )
        raise KafkaUnavailable(
            f"No broker tells the size of topic {self._topic}.",
            cause="its brokers are starting",
            action="wait; it will be tried again.",
        )


@dataclass(frozen=True)
class _Replica:
    """One replica's log; `view` is None where its files are elsewhere."""

    bytes: int
    view: CleanerView | None
    topic: str
    partition: int

    @property
    def cleaned_to(self) -> int | None:
        """0 for a log the cleaner was never at; None where its checkpoint cannot be read."""
        if self.view is None:
            return None
        return self.view.cleaned_to(self.topic, self.partition) or 0

    @property
    def active_base(self) -> int | None:
        log = self.view.log(self.topic, self.partition) if self.view is not None else None
        return log.segments[-1].base if log is not None and log.segments else None
