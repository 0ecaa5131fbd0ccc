"""Sources and joined rows as columns for DuckDB, with the meaning of their names.

A source's columns are called `OWNER.NAME`, so that a join can hold both sides'.  Beside them:

    __timestamp   event time in ms
    __partition, __offset   a source record's place; for joined rows their number
    __dead   a record without a value
    __sure        the row exists in every order of the records
    __rank        the number of the record that made it, in processing order
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from holdfast.judge.read.decode import InputDecoder
from holdfast.judge.read.observe import Record
from holdfast.judge.recompute.recompute import arrow_type, run_sql
from holdfast.judge.statement.expressions import Scope, Translator
from holdfast.judge.statement.translate import INPUT
from holdfast.types.columns.schema import BIGINT, Column, SqlType
from holdfast.types.statements.topology import Source

__all__ = ["ROWKEY", "Found", "Joined", "Relation", "load"]

ROWKEY = "ROWKEY"
_BOUNDS = ("WINDOWSTART", "WINDOWEND")
_KEY = "__key"
_Shape = dict[str, SqlType]
_T = TypeVar("_T")
Found = tuple[int | None, int | None, int, bool]  # see `Joined.of`


@dataclass(frozen=True)
class Joined:
    """The pairs of rows that join, in parallel lists; None for a side without a row.

    Attributes:
        times: times of the results, in ms.
        sure: whether a result exists in every order of the records.
        doubt: why some are not sure, in words.
        count: the number of results in any order; None: it depends on the order.
        ranks: the number of the record that made each, in processing order; empty if unknown.
    """

    left: Sequence[int | None]
    right: Sequence[int | None]
    times: Sequence[int]
    sure: Sequence[bool]
    doubt: str = ""
    count: int | None = None
    ranks: Sequence[int] = ()

    @staticmethod
    def of(
        found: Sequence[Found],
        doubt: str = "",
        count: int | None = None,
        ranks: Sequence[int] = (),
    ) -> Joined:
        """From one tuple per result: left row, right row, time, whether it is sure."""
        left, right, times, sure = zip(*found, strict=True) if found else ((), (), (), ())
        return Joined(left, right, times, sure, doubt, count if doubt else len(found), ranks)


@dataclass(frozen=True)
class Relation:
    """Rows of a stream, or all changes of a table (only its final rows after a join).

    Attributes:
        columns: types by every name that a statement may write.
        places: the DuckDB column of each of those names.
        key: DuckDB columns of a table's primary key, or of a source's key.
        bounds: DuckDB columns of the window in a windowed source's key.
        size_ms: the size of those windows; 0: there are none, or they are sessions.
        stars: what `*` stands for: owner, name in a join's result, name as written.
        topic: a source's topic; empty for joined rows, whose order is unknown.
        doubt: why some rows depend on the order, in words.
        count: the number of rows in any order; None: it depends on the order.
        ordered: whether `__rank` of joined rows is known.
    """

    kind: str
    data: pa.Table
    columns: _Shape
    places: dict[str, str]
    key: tuple[str, ...]
    bounds: tuple[str, ...] = ()
    size_ms: int = 0
    stars: tuple[tuple[str, str, str], ...] = ()
    topic: str = ""
    doubt: str = ""
    count: int | None = None
    ordered: bool = False

    def scope(self, partitions: Sequence[int] = ()) -> Scope:
        """The scope of names; `partitions` of the topic, where its offsets order the rows."""
        return Scope(self.columns, partitions, self.places)

    def values(self, *nodes: exp.Expr) -> list[list[Any]]:
        """The values of expressions, row by row.

        Raises:
            Untranslatable: the judge does not support one of them.
        """
        translator = Translator(self.scope())
        return self.evaluated(*(translator.sql(node) for node in nodes))

    def evaluated(self, *texts: str) -> list[list[Any]]:
        """The values of DuckDB expressions, row by row."""
        rows = self.data.append_column("__row", pa.array(range(self.data.num_rows), pa.int64()))
        select = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
        sql = f"SELECT {select} FROM {INPUT} ORDER BY __row"
        return [list(row) for row in run_sql(sql, {INPUT: rows})]

    def column(self, name: str) -> list[Any]:
        """One of its DuckDB columns as a list."""
        found: list[Any] = self.data[name].to_pylist()
        return found

    def row_keys(self) -> list[tuple[Any, ...]]:
        """Every row's key, with the window of a windowed one."""
        names = [*self.key, *self.bounds]
        return list(zip(*(self.column(name) for name in names), strict=True))

    def at(self, rows: Sequence[int]) -> Relation:
        """The relation with only these rows, in this order."""
        return replace(self, data=self.data.take(pa.array(rows, pa.int64())))

    def with_column(self, name: str, values: Iterable[Any]) -> Relation:
        """The relation with new values in one of its DuckDB columns."""
        place = self.data.column_names.index(name)
        column = pa.array(list(values), self.data.schema.field(place).type)
        return replace(self, data=self.data.set_column(place, name, column))

    def final(self) -> Relation:
        """A table's final rows: the last change of each key, unless it is a deletion."""
        dead = self.column("__dead")
        last = {key: row for row, key in enumerate(self.row_keys())}
        return self.at([row for row in last.values() if not dead[row]])

    def joined(
        self, right: Relation, found: Joined, kind: str, key: tuple[list[Any], SqlType] | None
    ) -> Relation:
        """The rows of a join.

        Args:
            kind: STREAM or TABLE.
            key: if the join makes a key of its own, its values and their type.
        """
        count = len(found.times)
        sides = (self.data, pa.array(found.left, pa.int64())), (
            right.data, pa.array(found.right, pa.int64()))  # fmt: skip
        names = {
            name: data[name].take(at)
            for data, at in sides
            for name in data.column_names
            if "." in name
        }
        own = {
            "__timestamp": pa.array(found.times, pa.int64()),
            "__partition": pa.array([0] * count, pa.int32()),
            "__offset": pa.array(range(count), pa.int64()),
            "__dead": pa.array([False] * count, pa.bool_()),
            "__sure": pa.array(found.sure, pa.bool_()),
            "__rank": pa.array(found.ranks or range(count), pa.int64()),
        }
        columns = _merged(self.columns, right.columns)
        places = _merged(self.places, right.places)
        made = self.key
        if key is not None:
            values, sql_type = key
            own[_KEY] = pa.array(values, arrow_type(sql_type))
            columns[ROWKEY], places[ROWKEY] = sql_type, _KEY
            made = (_KEY,)
        elif _KEY in self.data.column_names:
            own[_KEY] = self.data[_KEY].take(pa.array(found.left, pa.int64()))
        return Relation(
            kind=kind,
            data=pa.table({**names, **own}),
            columns=columns,
            places=places,
            key=made,
            bounds=self.bounds,
            size_ms=self.size_ms,
            stars=(*self.stars, *right.stars),
            doubt="; ".join(filter(None, (self.doubt, right.doubt, found.doubt))),
            count=found.count,
            ordered=len(found.ranks) == count,
        )


def load(
    owner: str, source: Source, needed: Sequence[str], records: Iterable[Record]
) -> tuple[Relation, InputDecoder]:
    """A source's records, without undecodable ones, and for a table without those that lack a key.

    Raises:
        Untranslatable: the judge does not support one of its formats or types.
    """
    decoder = InputDecoder(source, needed)
    table = source.kind == "TABLE"
    rows: list[tuple[Any, ...]] = []
    for r in records:
        dead = r.value is None or r.value == b"null"
        row = decoder.tombstone(r.key, r.timestamp_ms) if dead else None
        if not dead and r.value is not None:
            row = decoder.row(r.key, r.value, r.timestamp_ms)
        if row is None or (table and r.key is None):
            continue
        rows.append((r.partition, r.offset, dead, *decoder.bounds(r.key), *row))
    return _relation(owner, source, decoder.columns, rows), decoder


def _relation(
    owner: str, source: Source, columns: Sequence[Column], rows: list[tuple[Any, ...]]
) -> Relation:
    bounds = tuple(f"{owner}.{name}" for name in _BOUNDS) if source.window else ()
    fields = [pa.field("__partition", pa.int32()), pa.field("__offset", pa.int64())]
    fields += [pa.field("__dead", pa.bool_())]
    fields += [pa.field(name, pa.int64()) for name in bounds]
    fields += [pa.field("__timestamp", pa.int64())]
    fields += [pa.field(f"{owner}.{c.name}", arrow_type(c.type)) for c in columns]
    values: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(v, f.type) for v, f in zip(values, fields, strict=True)]
    data = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    count = data.num_rows
    for name in ("__timestamp", "__partition", "__offset"):
        data = data.append_column(f"{owner}.{name}", data[name])
    data = data.append_column("__sure", pa.array([True] * count, pa.bool_()))
    data = data.append_column("__rank", pa.array(range(count), pa.int64()))
    named, places = _names(owner, columns, bounds)
    return Relation(
        kind=source.kind,
        data=data,
        columns=named,
        places=places,
        key=tuple(f"{owner}.{c.name}" for c in source.key_columns),
        bounds=bounds,
        size_ms=source.window_size_ms,
        stars=tuple((owner, f"{owner}_{c.name}", f"{owner}.{c.name}") for c in source.columns),
        topic=source.topic,
    )


def _names(
    owner: str, columns: Sequence[Column], bounds: Sequence[str]
) -> tuple[_Shape, dict[str, str]]:
    named: _Shape = {}
    places: dict[str, str] = {}
    plain = [(c.name, f"{owner}.{c.name}", c.type) for c in columns]
    plain += [(name, place, BIGINT) for name, place in zip(_BOUNDS, bounds, strict=False)]
    for name, place, sql_type in plain:
        for written in (name, f"{owner}.{name}"):
            named[written], places[written] = sql_type, place
    pseudo = {"ROWTIME": "__timestamp", "ROWPARTITION": "__partition", "ROWOFFSET": "__offset"}
    for name, place in pseudo.items():
        named[f"{owner}.{name}"], places[f"{owner}.{name}"] = BIGINT, f"{owner}.{place}"
    return named, places


def _merged(left: dict[str, _T], right: dict[str, _T]) -> dict[str, _T]:
    """The names of both sides; a name that both have needs its owner."""
    both = left.keys() & right.keys()
    return {name: v for name, v in (left | right).items() if name not in both}
