"""Steps that see rows: filter, shuffle key and carried columns of each input, in Spark SQL.

The columns are those of `holdfast.tasks.processors.base`: the rows of all inputs under each other,
each told by its side, with nulls in the columns of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, expr, lit

from holdfast.runtime.functions import register_functions
from holdfast.tasks.keys import state_key_sql
from holdfast.tasks.processors.base import KEY, SIDE
from holdfast.types.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    Input,
    Query,
)

__all__ = ["row_frame", "side_frame"]


def row_frame(frames: Sequence[DataFrame], query: Query, state_partitions: int) -> DataFrame:
    """The rows of all inputs of a step, hashed by key into the state partitions.

    Args:
        frames: one per input of the step, as ingest (and a `SEQUENCE` column, if any) has it.
    """
    conf = frames[0].sparkSession.conf
    conf.set("spark.sql.shuffle.partitions", str(state_partitions))
    conf.set("spark.sql.adaptive.enabled", "false")  # it would merge state partitions
    sides = [side_frame(frame, query, side) for side, frame in enumerate(frames)]
    return reduce(DataFrame.union, sides).repartition(state_partitions, col(KEY))


def side_frame(frame: DataFrame, query: Query, side: int) -> DataFrame:
    """One input's rows in the columns of a payload, not shuffled."""
    register_functions(frame.sparkSession, query)
    inputs = query.inputs
    ours = inputs[side]
    dead = f"`{TOMBSTONE}`"
    if ours.filter is not None:
        passes = f"coalesce({ours.filter}, FALSE)"
        if ours.source.kind == "TABLE":
            dead = f"({dead} OR NOT {passes})"
        else:  # a record without a value passes no WHERE
            frame = frame.where(f"NOT {dead} AND {passes}")
    columns = [
        expr(state_key_sql(ours.keys)).alias(KEY),
        lit(side).cast("tinyint").alias(SIDE),
        col(PARTITION),
        col(OFFSET),
        col(TIMESTAMP),
        expr(dead).alias(TOMBSTONE),
        _sequence(frame),
    ]
    for number, each in enumerate(inputs):
        columns += _carried(each, present=number == side)
    return frame.select(*columns)


def _sequence(frame: DataFrame) -> Column:
    found = col(SEQUENCE) if SEQUENCE in frame.columns else lit(None).cast("bigint")
    return found.alias(SEQUENCE)


def _carried(each: Input, *, present: bool) -> list[Column]:
    """An input's carried columns, nulls in the rows of the other sides."""
    return [
        expr(f"CAST({c.spark if present else 'NULL'} AS {c.column.type.spark()})").alias(
            c.column.name
        )
        for c in each.columns
    ]
