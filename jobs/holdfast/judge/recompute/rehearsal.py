"""Checks that the judge supports a statement, before there is anything to judge."""

from __future__ import annotations

import duckdb

from holdfast.judge.read.arrivals import Batches
from holdfast.judge.read.decode import InputDecoder, SinkDecoder
from holdfast.judge.recompute.blanks import Blanks
from holdfast.judge.recompute.rebuild import Facts, rebuilt_stream, rebuilt_table
from holdfast.judge.recompute.relations import load
from holdfast.judge.statement.statement import split
from holdfast.judge.statement.translate import needed_columns, translate
from holdfast.judge.statement.units import Unit
from holdfast.judge.values import Untranslatable
from holdfast.types.statements.topology import Query

__all__ = ["rehearse"]


def rehearse(unit: Unit) -> None:
    """Recomputes the unit's statements from an empty input.

    Raises:
        Untranslatable: the judge does not support one of them, or a format.
    """
    sink = unit.sink
    unit.refuse_strange()
    Blanks(sink)
    SinkDecoder(
        sink.key_columns, sink.value_columns, (sink.key_format, sink.value_format), windowed=False
    )
    if unit.plain is not None:
        InputDecoder(unit.plain.source, translate(unit.plain, [0]).needed)
        return
    for queries in unit.statements:
        try:
            _rehearsed(unit, queries)
        except duckdb.Error as error:
            raise Untranslatable(f"DuckDB does not support it: {error}") from error


def _rehearsed(unit: Unit, queries: tuple[Query, ...]) -> None:
    parts = split(queries[-1].statement)
    relations = [
        load(name.owner, source, needed_columns(parts, source, *(j.on for j in parts.joins)), ())[0]
        for name in (parts.source, *(join.right for join in parts.joins))
        for source in (unit.source(name),)
    ]
    ids = [query.id for query in queries]
    batches, partitions = {i: Batches() for i in ids}, dict.fromkeys(ids, 1)
    facts = Facts(parts, queries, relations, batches, partitions)
    (rebuilt_table if unit.sink.kind == "TABLE" else rebuilt_stream)(facts)
