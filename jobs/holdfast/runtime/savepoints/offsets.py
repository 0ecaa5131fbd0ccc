"""The first source offsets of a job that begins with a savepoint."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.config.settings import Settings
from holdfast.errors import DataLoss, Refused
from holdfast.runtime.savepoints.fitting import own_topics
from holdfast.state.snapshots.savepoints import SavedQuery, SavedSource, Savepoint
from holdfast.tasks.bringing_in import Origin
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.statements.topology import Query

__all__ = ["Offsets", "check_offsets"]

_ENDED_S = 15.0  # between two looks of a broker for transactions that are too old


def check_offsets(
    admin: Admin, settings: Settings, savepoint: Savepoint, queries: Sequence[Query]
) -> None:
    """Checks that the records after the savepoint are there, before anything is brought in.

    Raises:
        DataLoss: some are not, and `fail.on.data.loss` is set.
        Refused: a query that had read nothing would read another job's results.
        TopicMissing: a source topic does not exist.
    """
    own = own_topics(savepoint, queries)
    copied = settings.snapshots.topics == "copied"
    for saved in savepoint.queries:
        for source in saved.sources:
            if source.topic not in own and settings.ingest.fail_on_data_loss:
                _check_source(admin, saved.id, source, copied=copied)
    sinks = {query.sink.topic for query in queries if not query.sink.internal}
    taken_over = {was for was, now in own.items() if was == now} & sinks
    for query in queries:
        found = savepoint.query(query.id)
        if found is not None and not found.sources:
            _check_unread(admin, query, taken_over)


def _check_source(admin: Admin, query_id: str, source: SavedSource, *, copied: bool) -> None:
    found = admin.look(source.topic)
    if source.topic_id and found.topic_id != source.topic_id and not copied:
        raise DataLoss(
            f"The topic {source.topic} has the id {found.topic_id}; the offsets of {query_id} in "
            f"the savepoint belong to one with the id {source.topic_id}.",
            cause="the topic was made again, or this is another cluster",
            action="take a savepoint of a job on this topic; if this is a copy in which every "
            "record has the offset that it had there, set savepoint.topics=copied",
        )
    for partition, offset in source.offsets.items():
        start, end = found.bounds.get(partition, (0, -1))
        if not start <= offset <= end:
            raise DataLoss(
                f"{query_id} stands at offset {offset} of {source.topic} partition {partition} in "
                f"the savepoint; the topic has {start}..{end}.",
                cause="its retention has deleted records since, or it was truncated",
                action="take a newer savepoint; fail.on.data.loss=false goes on without them",
            )


def _check_unread(admin: Admin, query: Query, taken_over: set[str]) -> None:
    """A sink that the job takes over has results that it will compute, and read, again."""
    for topic in taken_over.intersection(source.topic for source in query.sources):
        if any(start < end for start, end in admin.bounds(topic).values()):
            raise Refused(
                f"{query.id} had read nothing of {topic} at the savepoint, and the topic "
                "has results by now, which this job would compute again.",
                action="give the topic's table or stream another KAFKA_TOPIC.",
            )


class Offsets:
    """Finds the offsets from which queries go on.

    Offsets of topics that other programs write stay as they are.  Of a topic that the job writes
    itself everything up to the savepoint was read; the new job's own begins behind that.
    """

    def __init__(
        self, admin: Admin, settings: Settings, savepoint: Savepoint, queries: Sequence[Query]
    ) -> None:
        self._admin = admin
        self._ended_s = settings.transaction_timeout_ms / 1000 + _ENDED_S
        self._copied = settings.snapshots.topics == "copied"
        self._savepoint = savepoint
        self._own = own_topics(savepoint, queries)
        self._internal = {query.sink.topic for query in queries if query.sink.internal}

    def origin(self, saved: SavedQuery, query: Query) -> Origin:
        """The origin of a query in the savepoint."""
        source = saved.source()
        topics = [self._own.get(topic, topic) for topic in source.topics]
        ends: dict[Place, int] = {}
        ids: dict[str, str] = {}
        for was, now in zip(source.topics, topics, strict=True):
            if was in self._own:
                ids[now], begins = self._begins(now)
                ends |= {(now, p): at for p, at in begins.items()}
            else:
                ids[now] = (
                    self._admin.look(now).topic_id if self._copied else source.ids.get(was, "")
                )
                ends |= {place: at for place, at in source.ends().items() if place[0] == was}
        return Origin(
            self._savepoint.reference,
            f"{self._savepoint.folder}/{query.id}",
            saved.stores,
            OffsetRange.over(topics, ends, ends, ids),
            frozenset(topic for topic in source.topics if topic not in self._own),
        )

    def _begins(self, topic: str) -> tuple[str, dict[int, int]]:
        """The topic id, and where this job's records begin in a topic of its own.

        The end that counts is behind all transactions of whoever wrote it before.
        """
        if topic in self._internal:
            found = self._admin.look(topic)
            return found.topic_id, {p: start for p, (start, _) in found.bounds.items()}
        for partition in self._admin.look(topic).bounds:
            self._admin.await_ended(topic, partition, self._ended_s)
        found = self._admin.look(topic)
        return found.topic_id, {p: end for p, (_, end) in found.bounds.items()}
