"""Steps that see rows: filter, shuffle key and carried columns of each input, in Spark SQL.

The columns are those of `holdfast.tasks.processors.base`: the rows of all inputs under each other,
each told by its side, with nulls in the columns of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import coalesce, col, expr, lit

from holdfast.runtime.jvm.functions import register_functions
from holdfast.tasks.evaluate.keys import state_key_sql
from holdfast.tasks.processors.base import KEY, SIDE
from holdfast.types.ingest import side_prefix
from holdfast.types.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    Input,
    JoinStep,
    NamedExpression,
    Query,
)

__all__ = ["read_frame", "row_frame", "side_frame"]

_KEPT, _PLACE = "__kept", "__place"


def row_frame(frames: Sequence[DataFrame], query: Query, state_partitions: int) -> DataFrame:
    """The rows of all inputs of a step, hashed by key into the state partitions.

    Args:
        frames: one per input of the step, as ingest (and a `SEQUENCE` column, if any) has it.
    """
    sides = [side_frame(frame, query, side) for side, frame in enumerate(frames)]
    return _shuffled(reduce(DataFrame.union, sides), query, state_partitions)


def read_frame(frame: DataFrame, query: Query, state_partitions: int) -> DataFrame:
    """The same of inputs that were read as one (`IngestOptions.others`), without a second look.

    One side after the other gets its column names back, has its expressions evaluated for its own
    rows, and gives the names free again.  Rows that tell no side are those of every side: of a
    self-join, which reads its topic once.
    """
    register_functions(frame.sparkSession, query)
    inputs = query.inputs
    if SIDE not in frame.columns:
        sides_sql = ", ".join(f"{side}Y" for side in range(len(inputs)))
        frame = frame.withColumn(SIDE, expr(f"explode(array({sides_sql}))"))
    for side, each in enumerate(inputs):
        prefix = side_prefix(side)
        names = {c: c.removeprefix(prefix) for c in frame.columns if c.startswith(prefix)}
        ours = f"`{SIDE}` = {side}"
        made = {
            _made(side, what): expr(f"CASE WHEN {ours} THEN {sql} END")
            for what, sql in _side_sql(each).items()
        }
        back = {name: c for c, name in names.items()}
        frame = frame.withColumnsRenamed(names).withColumns(made).withColumnsRenamed(back)
    sides = range(len(inputs))
    kept = coalesce(*(_col(_made(side, _KEPT)) for side in sides))
    columns = [
        coalesce(*(_col(_made(side, KEY)) for side in sides)).alias(KEY),
        *(col(name) for name in (SIDE, PARTITION, OFFSET, TIMESTAMP)),
        coalesce(*(_col(_made(side, TOMBSTONE)) for side in sides)).alias(TOMBSTONE),
        _sequence(frame),
    ]
    columns += [
        _col(_made(side, c.column.name)).alias(c.column.name)
        for side, each in enumerate(inputs)
        for c in each.columns
    ]
    return _shuffled(frame.where(kept).select(*columns), query, state_partitions)


def _shuffled(rows: DataFrame, query: Query, state_partitions: int) -> DataFrame:
    conf = rows.sparkSession.conf
    conf.set("spark.sql.shuffle.partitions", str(state_partitions))
    conf.set("spark.sql.adaptive.enabled", "false")  # it would merge state partitions
    if isinstance(query.step, JoinStep) and query.step.broadcast:
        return _broadcast(rows, state_partitions)
    return rows.repartition(state_partitions, col(KEY))


def _broadcast(rows: DataFrame, state_partitions: int) -> DataFrame:
    """The table's rows to every state partition, the stream's by their topic partition.

    No key is hot then: a stream's records are spread as its topic is, and keep its order.
    """
    everywhere = f"sequence(0, {state_partitions - 1})"
    ours = f"array(CAST(pmod(`{PARTITION}`, {state_partitions}) AS INT))"
    places = f"explode(CASE WHEN `{SIDE}` = 1 THEN {everywhere} ELSE {ours} END)"
    placed = rows.withColumn(_PLACE, expr(places))
    return placed.repartitionById(state_partitions, col(_PLACE)).drop(_PLACE)


def side_frame(frame: DataFrame, query: Query, side: int) -> DataFrame:
    """One input's rows in the columns of a payload, not shuffled."""
    register_functions(frame.sparkSession, query)
    sql = _side_sql(query.inputs[side])
    columns = [
        expr(sql[KEY]).alias(KEY),
        lit(side).cast("tinyint").alias(SIDE),
        *(col(name) for name in (PARTITION, OFFSET, TIMESTAMP)),
        expr(sql[TOMBSTONE]).alias(TOMBSTONE),
        _sequence(frame),
    ]
    for number, each in enumerate(query.inputs):
        for c in each.columns:
            text = sql[c.column.name] if number == side else _cast("NULL", c)
            columns.append(expr(text).alias(c.column.name))
    return frame.where(sql[_KEPT]).select(*columns)


def _side_sql(each: Input) -> dict[str, str]:
    """Spark SQL over an input's columns: key, tombstone, whether the row is kept, carried ones."""
    dead, kept = f"`{TOMBSTONE}`", "TRUE"
    if each.filter is not None:
        passes = f"coalesce({each.filter}, FALSE)"
        if each.source.kind == "TABLE":
            dead = f"({dead} OR NOT {passes})"
        else:  # a record without a value passes no WHERE
            kept = f"(NOT {dead} AND {passes})"
    key = state_key_sql(each.keys, parts_may_miss=each.source.kind == "TABLE")
    fixed = {KEY: key, TOMBSTONE: dead, _KEPT: kept}
    return fixed | {c.column.name: _cast(c.sql, c) for c in each.columns}


def _cast(sql: str, to: NamedExpression) -> str:
    return f"CAST({sql} AS {to.column.type.spark()})"


def _made(side: int, what: str) -> str:
    return f"__made_{side}_{what}"


def _col(name: str) -> Column:
    return col("`" + name.replace("`", "``") + "`")


def _sequence(frame: DataFrame) -> Column:
    found = col(SEQUENCE) if SEQUENCE in frame.columns else lit(None).cast("bigint")
    return found.alias(SEQUENCE)
