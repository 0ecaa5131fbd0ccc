"""Recomputes a statement from its whole decoded input in DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.judge.read.decode import InputDecoder, json_form, key_part
from holdfast.judge.read.incarnations import by_age
from holdfast.judge.statement import user_functions
from holdfast.judge.statement.arithmetic import register
from holdfast.judge.statement.translate import FIRST_RECORDS, INPUT, BatchQuery
from holdfast.judge.values import Key, Row, Untranslatable
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.statements.topology import Sink

__all__ = [
    "InputTable",
    "Recomputed",
    "arrow_type",
    "recompute_first",
    "recompute_stream",
    "recompute_table",
    "recomputed_rows",
    "run_sql",
    "stream_record",
]

_CHUNK_ROWS = 50_000
_CHOICES_MAX = 200  # choices of one window


class InputTable:
    """The decoded input of one query, as Arrow chunks; `__dead` marks records without a value."""

    def __init__(self, decoder: InputDecoder) -> None:
        self._decoder = decoder
        fields = [
            pa.field("__partition", pa.int32()),
            pa.field("__offset", pa.int64()),
            pa.field("__dead", pa.bool_()),
            pa.field("__timestamp", pa.int64()),
        ]
        fields += [pa.field(c.name, arrow_type(c.type)) for c in decoder.columns]
        self._schema = pa.schema(fields)
        self._chunks: list[pa.RecordBatch] = []
        self._rows: list[tuple[Any, ...]] = []
        self.records = 0

    def add(
        self, partition: int, offset: int, key: bytes | None, value: bytes | None, timestamp_ms: int
    ) -> None:
        """Adds one input record."""
        self.records += 1
        if value is None:
            row = self._decoder.tombstone(key, timestamp_ms)
        else:
            row = self._decoder.row(key, value, timestamp_ms)
        if row is not None:
            self._rows.append((partition, offset, value is None, *row))
        if len(self._rows) >= _CHUNK_ROWS:
            self._flush()

    def table(self) -> pa.Table:
        """Every record so far."""
        self._flush()
        return pa.Table.from_batches(self._chunks, self._schema)

    def _flush(self) -> None:
        columns: Iterable[Sequence[Any]] = zip(*self._rows, strict=True)
        if not self._rows:
            return
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
        self._chunks.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows = []


class Recomputed:
    """A recomputed table.

    Attributes:
        rows: value columns by key, in JSON form, without the groups that HAVING filters out.
        records: the number of input records by group key.
        newest: the newest event time by group key, in ms.
        spread: the number of records by topic partition, and the group's home; for windows only.
        newest_ms: the newest event time of the input, -1 without any.
    """

    def __init__(self, newest_ms: int) -> None:
        self.rows: dict[Key, Row] = {}
        self.records: dict[Key, int] = {}
        self.newest: dict[Key, int] = {}
        self.spread: dict[Key, tuple[dict[int, int], int]] = {}
        self.newest_ms = newest_ms


def recompute_table(batch: BatchQuery, sink: Sink, table: InputTable) -> Recomputed:
    """The rows that the table must hold."""
    data = table.table()
    living = data.filter(pc.invert(data["__dead"]))
    newest = pc.max(living["__timestamp"]).as_py()
    newest = -1 if newest is None else newest
    return recomputed_rows(run_sql(batch.sql, {INPUT: data}), batch, sink, newest)


def recompute_first(
    batch: BatchQuery,
    sink: Sink,
    table: InputTable,
    wanted: Mapping[Key, int],
    recomputed: Recomputed,
) -> dict[Key, list[Row]]:
    """Windows' rows from only their first records, by the offsets of each topic partition.

    It is unknown how the records of several topic partitions were interleaved, so there is a row
    for each choice; windows with too many choices are left out.

    Args:
        wanted: the number of first records, by key.
        recomputed: the result of `recompute_table`.
    """
    lines: list[tuple[int, int, int, int, int]] = []
    for key, total in wanted.items():
        spread, home = recomputed.spread[key]
        found = list(islice(_in_turn(spread, total), _CHOICES_MAX + 1))
        if len(found) <= _CHOICES_MAX:
            lines += [(key[-1], home, c, p, n) for c, choice in enumerate(found) for p, n in choice]
    if not lines:
        return {}
    columns = dict(zip("whcpn", map(list, zip(*lines, strict=True)), strict=True))
    data = {INPUT: table.table(), FIRST_RECORDS: pa.table(columns)}
    rows: dict[Key, list[Row]] = {}
    for found_row in run_sql(batch.first_sql, data):
        for key, row in recomputed_rows([found_row[:-1]], batch, sink, -1).rows.items():
            rows.setdefault(key, []).append(row)
    return rows


def _in_turn(spread: Mapping[int, int], total: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """`_choices`, knowing that a deleted topic's records came before its successor's."""
    whole: list[tuple[int, int]] = []
    for numbers in by_age(list(spread)):
        turn = [(p, spread[p]) for p in numbers]
        left = total - sum(n for _, n in whole)
        if sum(n for _, n in turn) > left:
            yield from ((*whole, *choice) for choice in _choices(turn, left))
            return
        whole += turn
    yield tuple(whole)


def _choices(
    spread: Sequence[tuple[int, int]], total: int
) -> Iterator[tuple[tuple[int, int], ...]]:
    """All ways to take `total` records, at most so many of each topic partition as it has."""
    (partition, most), *others = spread
    rest = sum(n for _, n in others)
    for n in range(max(0, total - rest), min(most, total) + 1):
        if not others:
            yield ((partition, n),)
            continue
        yield from (((partition, n), *choice) for choice in _choices(others, total - n))


def recomputed_rows(
    found: Iterable[tuple[Any, ...]], batch: BatchQuery, sink: Sink, newest_ms: int
) -> Recomputed:
    """A table's rows from DuckDB's result for `batch`."""
    kinds: dict[str, SqlType] = {c.name: c.type for c in sink.value_columns}
    width = len(sink.key_columns) + batch.bounds
    made = Recomputed(newest_ms)
    for row in found:
        key = tuple(map(key_part, row[:width]))
        *values, spread, home, newest, passes = row[width:]
        made.records[key] = sum(spread.values())
        made.newest[key] = newest
        if batch.window is not None:
            made.spread[key] = (spread, home)
        if passes:
            named = zip(batch.values, values, strict=True)
            made.rows[key] = {name: json_form(v, kinds.get(name)) for name, v in named}
    return made


def recompute_stream(
    batch: BatchQuery, columns: Sequence[Column], table: InputTable
) -> Counter[Key]:
    """How often each output record must occur; `columns` are the sink's, keys first."""
    found = run_sql(batch.sql, {INPUT: table.table()})
    return Counter(stream_record(batch, columns, row, dead=dead) for *row, dead in found)


def stream_record(
    batch: BatchQuery, columns: Sequence[Column], row: Sequence[Any], *, dead: bool
) -> Key:
    """A record of a stream's sink from DuckDB's row; `columns` are the sink's, keys first.

    A record without a value passes unchanged, with the values of its own key.
    """
    values = tuple(json_form(v, c.type) for v, c in zip(row, columns, strict=True))
    if not dead:
        return values
    keys = zip(values, batch.dead_keys, strict=False)
    return (*(v if kept else None for v, kept in keys), *[None] * len(batch.values))


def run_sql(sql: str, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    """DuckDB's result of the query over these tables.

    Raises:
        Untranslatable: a user's aggregate failed.
    """
    with duckdb.connect(config={"threads": 2}) as engine:
        engine.execute("SET TimeZone = 'UTC'")
        register(engine)
        user_functions.register(engine)
        for name, data in tables.items():
            engine.register(name, data)
        try:
            return engine.execute(sql).fetchall()
        except duckdb.Error as error:
            if user_functions.failed():
                raise Untranslatable(user_functions.failed()) from error
            raise


def arrow_type(kind: SqlType) -> pa.DataType:
    """The Arrow type in which DuckDB receives values of a type."""
    # Whole numbers are computed in 64 bits, so that nothing overflows here.
    return pa.int64() if kind.base is Base.INTEGER else kind.arrow()
