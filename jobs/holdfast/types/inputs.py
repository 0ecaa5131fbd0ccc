"""The inputs of a step with state: its sources up to the shuffle, as Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.types.schema import Column
from holdfast.types.sources import Source

__all__ = ["Input", "JoinKind", "KeyExpression"]


class JoinKind(StrEnum):
    """Which rows without a partner stay."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"


@dataclass(frozen=True)
class KeyExpression:
    """One GROUP BY expression: Spark SQL over the source's columns, and the column it makes."""

    spark: str
    column: Column


@dataclass(frozen=True)
class Input:
    """One source of a step with state, up to the shuffle; all of it is Spark SQL.

    Attributes:
        keys: the shuffle key (join key, primary key); a null part drops a stream's record.
        columns: what is carried into the state task, named uniquely over all inputs of the step
            (`OutputColumn.duckdb` refers to them by that name).
        filter: records it does not pass count as not there: dropped from a stream, a tombstone
            of a table.
    """

    source: Source
    keys: tuple[KeyExpression, ...]
    columns: tuple[KeyExpression, ...]
    filter: str | None = None

    def fingerprint_parts(self) -> dict[str, object]:
        return {
            "source": [self.source.name, self.source.topic],
            "keys": [[k.spark, str(k.column.type)] for k in self.keys],
            "columns": [[c.spark, str(c.column.type)] for c in self.columns],
            "filter": self.filter,
        }
