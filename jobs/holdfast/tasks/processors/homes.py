"""The home of every stored row: the key by which the shuffle finds its state partition.

With it the rows of a table can be written anew for another number of state partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from holdfast.tasks.evaluate.keys import split_window
from holdfast.tasks.processors import deduplicate
from holdfast.tasks.processors.sessions.plan import split_session
from holdfast.tasks.processors.stream_joins import waiting
from holdfast.tasks.processors.stream_joins.clock import merged_clocks
from holdfast.tasks.processors.tables import foreign_key, subscribe, table_table
from holdfast.types.statements.topology import (
    AggregateStep,
    ChangesStep,
    DeduplicateStep,
    JoinForm,
    JoinStep,
    Query,
    ResolveStep,
    SubscribeStep,
    TableStep,
    WindowKind,
)

__all__ = ["homes", "merged"]


def homes(query: Query, keys: Sequence[bytes]) -> list[bytes | None]:
    """The shuffle key of each state key; None: the row belongs to every state partition.

    `transport.partitioner.state_partitions` of a shuffle key is the row's state partition.

    Raises:
        TypeError: the query keeps no state.
    """
    step = query.step
    if isinstance(step, AggregateStep):
        return _of_groups(step, keys)
    if query.is_broadcast:
        return [None] * len(keys)
    kind = _kind(query)
    if kind in _PLAIN:
        return list(keys)
    home_of = _HOMES.get(kind)
    if home_of is None:
        raise TypeError(f"{query.id} keeps no state")
    return [home_of(key) for key in keys]


def merged(query: Query, rows: Mapping[bytes, Sequence[bytes]]) -> dict[bytes, bytes]:
    """One row for each state key that belongs to every state partition.

    Any row of a broadcast table will do: every state partition has applied all changes of the
    table, in an order that does not depend on the stream's records between them.

    Args:
        rows: by state key, the rows that the state partitions have under it, at least one.

    Raises:
        TypeError: the query has no such rows.
    """
    merge = _first if query.is_broadcast else _MERGES.get(_kind(query))
    if rows and merge is None:
        raise TypeError(f"{query.id} has no rows that belong to every state partition")
    return {key: merge(found) for key, found in rows.items()} if merge is not None else {}


def _of_groups(step: AggregateStep, keys: Sequence[bytes]) -> list[bytes | None]:
    if step.window is None:
        return list(keys)
    if step.window.kind is WindowKind.SESSION:
        return [split_session(key)[0] for key in keys]
    return list(split_window(keys)[0])


def _kind(query: Query) -> object:
    return query.step.form if isinstance(query.step, JoinStep) else type(query.step)


def _first(rows: Sequence[bytes]) -> bytes:
    return rows[0]


# Steps whose state keys are the shuffle's.
_PLAIN: tuple[object, ...] = (JoinForm.STREAM_TABLE, ChangesStep, ResolveStep, TableStep)
_HOMES: dict[object, Callable[[bytes], bytes | None]] = {
    JoinForm.STREAM_STREAM: waiting.home_of,
    JoinForm.TABLE_TABLE: table_table.home_of,
    JoinForm.FOREIGN_KEY: foreign_key.home_of,
    DeduplicateStep: deduplicate.home_of,
    SubscribeStep: subscribe.home_of,
}
_MERGES: dict[object, Callable[[Sequence[bytes]], bytes]] = {
    JoinForm.STREAM_STREAM: merged_clocks,
    SubscribeStep: subscribe.merged_versions,
}
