"""The tables that sessions read, and the topics that hold their states.

A server follows a table's changelog if its rows are the state of an aggregate; otherwise it follows
the table's own topic: declared tables, joins, filters, final results.  Both contain every state
that the table ever had, by offset.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.chaos.load.workload import input_sources
from holdfast.chaos.reads.state_rows import ROWTIME, WINDOWEND, WINDOWSTART, StateRows
from holdfast.judge.read.decode import InputDecoder
from holdfast.judge.read.observe import Observer
from holdfast.judge.values import Untranslatable
from holdfast.types.columns.schema import Base, Column
from holdfast.types.statements.topology import (
    AggregateStep,
    Emit,
    Format,
    Query,
    Source,
    Topology,
    WindowKind,
)

__all__ = ["KEY_BASES", "Asked", "AskedTable", "TableRows", "asked_tables"]

KEY_BASES = frozenset({Base.STRING, Base.INTEGER, Base.BIGINT, Base.BOOLEAN})
"""Types of key columns whose literals are the same in SQL, in JSON and here."""

Window = tuple[int, ...]  # its bounds in ms: none, the start, or a session's start and end


class TableRows(Protocol):
    """Decodes the records of the topic that servers follow for a table.

    Attributes:
        columns: names of the known columns; ROWTIME is the first.
        bounds: names of the columns that distinguish windows.
        marked: commit markers end transactions; otherwise every record is a change of its own.
        doubtful: some values can be read in several ways.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def bounds(self) -> tuple[str, ...]: ...
    @property
    def marked(self) -> bool: ...
    @property
    def doubtful(self) -> bool: ...

    def key(self, data: bytes) -> tuple[tuple[Any, ...], Window] | None:
        """(key columns, window) of a record's key; None: the key is not a row's.

        Raises:
            ValueError, struct.error: the bytes are not such a key.
        """

    def row(self, key: bytes, value: bytes, timestamp_ms: int) -> dict[str, Any] | None:
        """The known columns; None: the value cannot be decoded, so there is no row.

        Raises:
            struct.error: a row in another layout.
        """


@dataclass(frozen=True)
class AskedTable:
    """One table that sessions read.

    Attributes:
        source: its name, columns and topic.
        query: the query that maintains it; None: it is declared, and others write it.
    """

    source: Source
    rows: TableRows
    query: Query | None = None

    @property
    def keys(self) -> tuple[Column, ...]:
        return self.source.key_columns

    @property
    def may_lack(self) -> bool:
        """Whether some changelog rows are rightly no rows of the table (HAVING)."""
        step = self.query.step if self.query is not None and self.rows.marked else None
        return isinstance(step, AggregateStep) and step.having is not None

    def topic(self, observer: Observer) -> str:
        """The topic that holds its states."""
        if self.query is not None and self.rows.marked:
            return observer.marker_topic(self.query)
        return self.source.topic


@dataclass(frozen=True)
class Asked:
    """All tables of a job, by name; for tables that are not read, the reason."""

    tables: Mapping[str, AskedTable] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)


def asked_tables(topology: Topology) -> Asked:
    """The tables that the job maintains or reads, declared ones first."""
    tables: dict[str, AskedTable] = {}
    others: dict[str, str] = {}
    for source, query in _tables(topology):
        try:
            tables[source.name] = AskedTable(source, _rows(source, query), query)
        except Untranslatable as unknown:
            others[source.name] = str(unknown)
    return Asked(tables, others)


def _tables(topology: Topology) -> Iterator[tuple[Source, Query | None]]:
    for source in input_sources(topology):
        if source.kind == "TABLE":
            yield source, None
    for query in topology.queries:
        if query.sink.kind == "TABLE" and not query.sink.internal:
            yield query.sink.as_source(), query


def _rows(source: Source, query: Query | None) -> TableRows:
    """Raises `Untranslatable`: the answers could not be judged."""
    strange = [c for c in source.key_columns if c.type.base not in KEY_BASES]
    if strange or not source.key_columns:
        raise Untranslatable(f"keys of type {strange[0].type}" if strange else "no key")
    step = query.step if query is not None else None
    if query is not None and isinstance(step, AggregateStep) and step.emit is not Emit.FINAL:
        return StateRows.of(query, step)
    return TopicRows.of(source)


# types whose values look the same in a topic's JSON and in an answer's
_PLAIN = frozenset({Base.STRING, Base.INTEGER, Base.BIGINT, Base.BOOLEAN, Base.DOUBLE})


@dataclass(frozen=True)
class TopicRows:
    """Reads keys and values of one topic; see `TableRows`.

    Attributes:
        columns: ROWTIME, and value columns of plain types; other columns are decoded as well,
            because a record in which one of them cannot be read is not a row.
        bounds: see `TableRows`.
    """

    columns: tuple[str, ...]
    bounds: tuple[str, ...]
    _decoder: InputDecoder

    @staticmethod
    def of(source: Source) -> TopicRows:
        """Raises `Untranslatable`: it does not read these formats or types."""
        if source.key_format not in (Format.KAFKA, Format.JSON):
            raise Untranslatable(f"keys in {source.key_format} format")
        if not source.wrap_single:
            raise Untranslatable("values that stand alone in their records (WRAP_SINGLE_VALUE)")
        decoder = InputDecoder(source, [c.name for c in source.value_columns])
        plain = (c.name for c in source.value_columns if c.type.base in _PLAIN)
        bounds = {None: (), WindowKind.SESSION: (WINDOWSTART, WINDOWEND)}
        return TopicRows((ROWTIME, *plain), bounds.get(source.window, (WINDOWSTART,)), decoder)

    @property
    def marked(self) -> bool:
        return False

    @property
    def doubtful(self) -> bool:
        return self._decoder.doubtful > 0

    def key(self, data: bytes) -> tuple[tuple[Any, ...], tuple[int, ...]] | None:
        """See `TableRows`; None for malformed keys, since any program may write to the topic."""
        found = self._decoder.tombstone(data, 0)
        try:
            window = self._decoder.bounds(data)[: len(self.bounds)]
        except struct.error:
            return None
        return None if found is None else (found[1 : 1 + len(self._decoder.key_columns)], window)

    def row(self, key: bytes, value: bytes, timestamp_ms: int) -> dict[str, Any] | None:
        """See `TableRows`."""
        found = self._decoder.row(key, value, timestamp_ms)
        if found is None:
            return None
        named = dict(zip((c.name for c in self._decoder.columns), found[1:], strict=True))
        named[ROWTIME] = found[0]
        return {name: _told(named[name]) for name in self.columns}


def _told(value: Any) -> Any:
    """The value as a run's history stores it: JSON has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
