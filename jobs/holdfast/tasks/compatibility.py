"""Does a statement fit the state that is there?  Asked by state tasks and before a deployment."""

from __future__ import annotations

import json

from holdfast.errors import IncompatibleStatement
from holdfast.state.changelog import CommitMarker
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


def check_marker(marker: CommitMarker | None, query: Query, state_partitions: int) -> None:
    """Compares a commit marker (None: nothing was ever committed) with the statement.

    Raises:
        IncompatibleStatement: another statement, or another number of state partitions, wrote it.
    """
    if marker is None:
        return
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
