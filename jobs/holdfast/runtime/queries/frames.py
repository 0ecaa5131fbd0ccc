"""A query's DataFrame: filter, keys, windows and partial aggregation, all in Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, expr

from holdfast.runtime.jvm.functions import register_functions
from holdfast.runtime.queries.row_frames import row_frame, side_frame
from holdfast.tasks.evaluate.keys import state_key_sql
from holdfast.tasks.processors.aggregates.state import (
    HAS_NEW,
    HAS_OLD,
    RECORD_COLUMNS,
    WINDOW,
    by_record,
    partial_columns,
)
from holdfast.tasks.processors.base import KEY
from holdfast.types.topology import (
    HEADERS,
    HEADERS_TYPE,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    WINDOW_END,
    WINDOW_START,
    AggregateStep,
    NamedExpression,
    ProjectStep,
    Query,
    Window,
    WindowKind,
)

__all__ = [
    "aggregate_frame",
    "project_frame",
    "row_frame",
    "side_frame",
    "used_columns",
]

_ROW = "__exploded"


def used_columns(query: Query, side: int = 0) -> tuple[str, ...]:
    """Columns of a source that the query refers to; ingest does not decode the others."""
    source = query.sources[side]
    named = {name for each in query.over_records(side) for name in each.columns}
    if isinstance(query.step, AggregateStep) and query.step.undo:
        named |= {HAS_OLD, HAS_NEW}
    if not query.stateful:  # its results have the headers of what it reads
        named.add(HEADERS)
    if source.timestamp is not None:
        named.add(source.timestamp.column)
    if source.kind == "TABLE":  # a record without a key is none of its rows
        named |= {c.name for c in source.key_columns}
    if source.window is not None:  # the sink's keys may have the windows of the source's
        named |= {WINDOW_START, WINDOW_END}
    return tuple(c.name for c in source.readable if c.name in named)


def aggregate_frame(frame: DataFrame, query: Query, state_partitions: int) -> DataFrame:
    """One row per key (and window) of the batch, hashed by key into the state partitions.

    Without a window Spark aggregates before and after the shuffle.  With one it must shuffle
    by the key alone, so that all windows of a key share a state partition, and aggregates after.
    So it does where each record is a row of its own (`aggregate_state.by_record`).
    """
    step = query.step
    if not isinstance(step, AggregateStep):
        raise TypeError(f"{query.id} has no aggregate step")
    register_functions(frame.sparkSession, query)
    conf = frame.sparkSession.conf
    conf.set("spark.sql.shuffle.partitions", str(state_partitions))
    conf.set("spark.sql.adaptive.enabled", "false")  # it would merge state partitions
    keyed = _filtered(frame, query).withColumn(KEY, expr(state_key_sql(step.keys)))
    grouping = [KEY]
    if step.window is not None or by_record(step):
        keyed = keyed.repartition(state_partitions, col(KEY))
    if step.window is not None and step.window.kind is not WindowKind.SESSION:
        keyed = keyed.withColumn(WINDOW, expr(_window_sql(step.window)))
        grouping.append(WINDOW)
    if by_record(step):
        keyed = _sequenced(keyed)
        grouping += list(RECORD_COLUMNS)
    if step.undo:
        grouping += [HAS_OLD, HAS_NEW]
    partials = [expr(c.spark).alias(c.name) for c in partial_columns(step)]
    return keyed.groupBy(*grouping).agg(*partials)


def _sequenced(frame: DataFrame) -> DataFrame:
    if SEQUENCE in frame.columns:
        return frame
    return frame.withColumn(SEQUENCE, expr("CAST(NULL AS BIGINT)"))


def _window_sql(window: Window) -> str:
    """Start(s) in ms of the windows of a record: Kafka Streams' TimeWindows.windowsFor."""
    time, size, advance = f"`{TIMESTAMP}`", window.size_ms, window.advance_ms
    if advance == size:
        return f"{time} - pmod({time}, {size}L)"
    first = f"(greatest(0L, {time} - {size}L + {advance}L) div {advance}L) * {advance}L"
    return f"explode(sequence({first}, {time}, {advance}L))"


def project_frame(frame: DataFrame, query: Query) -> DataFrame:
    """Key columns k0…, value columns v0…, event time, tombstone flag, headers; as it was read.

    And where the sink's keys are windowed, the bounds of the source's windows; and the place of
    the record where the frame tells it.
    """
    step = query.step
    if not isinstance(step, ProjectStep):
        raise TypeError(f"{query.id} is not stateless")
    register_functions(frame.sparkSession, query)
    columns = [expr(k.sql).alias(f"k{i}") for i, k in enumerate(step.keys)]
    columns += [expr(v.sql).alias(f"v{i}") for i, v in enumerate(step.outputs)]
    if HEADERS not in frame.columns:
        frame = frame.withColumn(HEADERS, expr(f"CAST(NULL AS {HEADERS_TYPE.spark()})"))
    meta = [TIMESTAMP, TOMBSTONE, HEADERS]
    if query.sink.window is not None:
        meta += [WINDOW_START, WINDOW_END]
    if SEQUENCE in frame.columns:
        meta.append(SEQUENCE)
    if query.source.kind == "TABLE":
        return _table_rows(frame, query).select(*columns, *meta)
    source = frame if query.filter is None else _filtered(frame, query)
    return _exploded(source, step.explode).select(*columns, *meta)


def _table_rows(frame: DataFrame, query: Query) -> DataFrame:
    """A table's rows: one that WHERE does not pass is not there, one without a key never was."""
    if query.source.key_columns:
        present = " OR ".join(f"`{c.name}` IS NOT NULL" for c in query.source.key_columns)
        frame = frame.where(present)
    if query.filter is None:
        return frame
    dead = f"`{TOMBSTONE}` OR NOT coalesce({query.filter}, FALSE)"
    return frame.withColumn(TOMBSTONE, expr(dead))


def _filtered(frame: DataFrame, query: Query) -> DataFrame:
    """WHERE; a record without a value never passes it and never counts, as in ksqlDB."""
    alive = frame.where(f"NOT `{TOMBSTONE}`")
    return alive if query.filter is None else alive.where(query.filter.sql)


def _exploded(frame: DataFrame, arrays: Sequence[NamedExpression]) -> DataFrame:
    """One row per element of the longest array, one column per array; shorter arrays give nulls.

    A record whose arrays are all empty or NULL gives no row.  Rows keep their order.
    """
    if not arrays:
        return frame
    names = [f"{_ROW}_{i}" for i in range(len(arrays))]
    made = {n: expr(_present(a)) for n, a in zip(names, arrays, strict=True)}
    zipped = frame.withColumns(made).withColumn(
        _ROW, expr(f"explode(arrays_zip({', '.join(names)}))")
    )
    columns = {a.name: col(f"{_ROW}.{n}") for n, a in zip(names, arrays, strict=True)}
    return zipped.withColumns(columns)


def _present(array: NamedExpression) -> str:
    whole = array.expression.type.spark()
    return f"coalesce(CAST({array.sql} AS {whole}), CAST(array() AS {whole}))"
