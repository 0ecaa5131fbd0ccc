"""The job's progress, from Kafka and from its driver's status file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.cli.demo.files import APPLICATION_ID, DemoFiles
from holdfast.errors import HoldfastError, KafkaUnavailable, TopicMissing
from holdfast.judge.read.observe import Observer
from holdfast.state.progress import restoring
from holdfast.types.statements.topology import Query
from holdfast.types.status import JobStatus, status_path

__all__ = ["JobDied", "Progress", "Watch"]

_POLL_S = 0.2


class JobDied(HoldfastError):
    """The job ended by itself."""


@dataclass(frozen=True)
class Progress:
    """Offsets of the watched topic: produced, and committed by the slowest query."""

    produced: int
    committed: int


class Watch:
    """Watches one topic and the queries that read it.

    Args:
        queries: the queries that read `topic`.
        total: records that the topic will hold in the end.
    """

    def __init__(
        self, files: DemoFiles, observer: Observer, queries: Sequence[Query], total: int
    ) -> None:
        self._files, self._observer, self._queries = files, observer, queries
        self.total = total
        self._last = Progress(0, 0)

    def status(self) -> JobStatus | None:
        return JobStatus.read(status_path(self._files.home, APPLICATION_ID))

    def progress(self) -> Progress:
        """The current progress, or the last known one; the job creates the topic."""
        try:
            lags = [self._observer.lag(query) for query in self._queries]
        except (KafkaUnavailable, TopicMissing):
            return self._last
        self._last = Progress(max(x.end for x in lags), min(x.committed for x in lags))
        return self._last

    def note(self) -> str:
        """The job's current activity, in a few words."""
        stores = [s for s in restoring(self._files.state) if s.application_id == APPLICATION_ID]
        if stores:
            return f"restoring {len(stores)} stores"
        status = self.status()
        if status is None:
            return "starting"
        batches = sum(q.batch_id + 1 for q in status.queries.values())
        return f"{status.state}, {batches} batches"

    def until(
        self,
        done: Callable[[Progress], bool],
        why_dead: Callable[[], str],
        timeout_s: float,
        tell: Callable[[Progress, str], None],
    ) -> Progress:
        """Poll several times a second until `done`, and report each time.

        Args:
            why_dead: gives the reason why nothing runs the job any more, empty while something
                does.

        Raises:
            JobDied: the job ended meanwhile.
            KafkaUnavailable: it is not done in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            now = self.progress()
            tell(now, self.note())
            if done(now):
                return now
            if reason := why_dead():
                raise JobDied(f"The job ended: {reason}", action=f"read {self._files.log}.")
            if time.monotonic() >= deadline:
                raise KafkaUnavailable(
                    f"The job has committed {now.committed:,} of {now.produced:,} flights "
                    f"and made no progress within {timeout_s:.0f} s.",
                    cause="this machine is very busy, or the job is stuck.",
                    action=f"read {self._files.log}.",
                )
            time.sleep(_POLL_S)
