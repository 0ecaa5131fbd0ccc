"""Does a statement fit the state that is there?  Asked by state tasks and before a deployment."""

from __future__ import annotations

import json

from holdfast.errors import IncompatibleStatement
from holdfast.state.changelog import CommitMarker
from holdfast.state.table_store import store_name
from holdfast.transport.partitioner import PARTITIONER
from holdfast.types.topology import AggregateStep, Emit, Query

__all__ = ["check_marker", "state_fits"]


def state_fits(canonical: str, query: Query) -> bool:
    """Whether rows that were stored by the statement of that canonical text are the query's.

    CREATE OR REPLACE may give a stream's aggregate another WHERE, as in ksqlDB: what was counted
    stays counted.  Without OR REPLACE another filter is taken for a mistake.
    """
    if canonical == query.canonical():
        return True
    step = query.step
    if not query.replaces or not isinstance(step, AggregateStep):
        return False
    if step.window is not None or step.undo or step.emit is Emit.FINAL:
        return False
    before, now = json.loads(canonical), json.loads(query.canonical())
    return {**before, "filter": None} == {**now, "filter": None}


def check_marker(
    marker: CommitMarker | None,
    query: Query,
    state_partitions: int,
    *,
    application_id: str,
    state_partition: int,
) -> None:
    """Compares a commit marker (None: nothing was ever committed) with the statement.

    Args:
        application_id, state_partition: whose changelog partition the marker was found in.

    Raises:
        IncompatibleStatement: another statement, or another number of state partitions, wrote it,
            or it was written for another place.
    """
    if marker is None:
        return
    _check_place(marker, (application_id, query.id, state_partition), query.sink.name)
    problems = []
    if not state_fits(marker.canonical, query):
        problems.append(f"it was {marker.canonical}, it is now {query.canonical()}")
    if marker.state_partitions != state_partitions:
        problems.append(f"state.partitions was {marker.state_partitions}, is {state_partitions}")
    if marker.partitioner != PARTITIONER:
        problems.append(f"the partitioner was {marker.partitioner}, is {PARTITIONER}")
    if problems:
        raise IncompatibleStatement(
            f"The state of {query.sink.name} was written by another statement: "
            + "; ".join(problems),
            cause="the statement or state.partitions changed under a table that has state",
            action="put it back, or start the changed statement under a new application.id; "
            "CREATE OR REPLACE may give a stream's aggregate another WHERE",
        )


def _check_place(marker: CommitMarker, here: tuple[str, str, int], table: str) -> None:
    found = (marker.application_id, marker.query_id, marker.state_partition)
    if found != here:
        raise IncompatibleStatement(
            f"The state of {table} was written for another place: the changelog of state partition "
            f"{store_name(*here)} holds a commit marker of {store_name(*found)}.",
            cause="the changelog was copied, or restored, from another topic or topic partition",
            action="restore each partition of the changelog from its own backup, or start the "
            "statement under a new application.id",
        )
