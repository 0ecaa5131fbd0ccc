"""Compares a job's statements with a savepoint that it shall begin with."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import IncompatibleStatement
from holdfast.state.snapshots.savepoints import SavedQuery, Savepoint
from holdfast.state.topics.sink_owners import claims_sink
from holdfast.tasks.compatibility import check_saved
from holdfast.tasks.heirs import check_times
from holdfast.types.statements.topology import Query

__all__ = ["check_fits", "own_topics"]


def own_topics(savepoint: Savepoint, queries: Sequence[Query]) -> dict[str, str]:
    """The topics that the job writes, by those that the savepoint's job wrote."""
    by_id = {query.id: query for query in queries}
    return {
        saved.sink_topic: by_id[saved.id].sink.topic
        for saved in savepoint.queries
        if saved.id in by_id
    }


def check_fits(savepoint: Savepoint, queries: Sequence[Query], state_partitions: int) -> None:
    """Checks whether a job's queries can go on with a savepoint.

    Raises:
        IncompatibleStatement: they cannot.
    """
    by_id = {query.id: query for query in queries}
    topics = own_topics(savepoint, queries)
    lacking = [saved for saved in savepoint.queries if saved.sources and saved.id not in by_id]
    if lacking:
        raise IncompatibleStatement(
            f"The savepoint {savepoint.reference} has {', '.join(s.id for s in lacking)}, the job "
            f"has {', '.join(by_id) or 'no queries'}.",
            cause="a statement was left out, or its table has another name.",
            action="keep the names of tables and streams, and give sinks other topics with "
            "KAFKA_TOPIC; a table that is not wanted can be terminated later.",
        )
    for saved in savepoint.queries:
        query = by_id.get(saved.id)
        if query is None or not saved.sources:
            continue
        canonical = saved.stores[0].commit().canonical if saved.stores else ""
        check_saved(canonical, saved.facts, topics, query)
        times = [store.commit().stream_time_ms for store in saved.stores]
        check_times(query, times, state_partitions)
        _check_shared(saved, topics, queries)


def _check_shared(saved: SavedQuery, topics: dict[str, str], queries: Sequence[Query]) -> None:
    """Refuses a topic that INSERT INTO of both jobs writes: no offset fits the records of both."""
    shared = {query.sink.topic for query in queries if not claims_sink(query)}
    shared -= {query.sink.topic for query in queries if query.sink.internal}
    for source in saved.sources:
        if topics.get(source.topic) == source.topic and source.topic in shared:
            raise IncompatibleStatement(
                f"{saved.id} reads {source.topic}, which INSERT INTO of this job writes, as it did "
                "in the savepoint's job.",
                cause="what that job wrote after the savepoint would be there twice, and what "
                "others wrote could be skipped.",
                action="give the stream another topic with KAFKA_TOPIC.",
            )
