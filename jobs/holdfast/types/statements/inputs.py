"""The inputs of a step with state: its sources up to the shuffle."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.types.statements.expressions import Expression, NamedExpression, canonical
from holdfast.types.statements.sources import Source

__all__ = ["Input", "JoinKind"]


class JoinKind(StrEnum):
    """Which rows without a partner stay."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"


@dataclass(frozen=True)
class Input:
    """One source of a step with state, up to the shuffle.

    Attributes:
        keys: the shuffle key (join key, primary key); a null part drops a stream's record.
        columns: what is carried into the state task, named uniquely over all inputs of the step
            (a join's outputs refer to them by that name).
        filter: records it does not pass count as not there: dropped from a stream, a tombstone
            of a table.
    """

    source: Source
    keys: tuple[NamedExpression, ...]
    columns: tuple[NamedExpression, ...]
    filter: Expression | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All of them."""
        filters = () if self.filter is None else (self.filter,)
        return (*filters, *(e.expression for e in (*self.keys, *self.columns)))

    def fingerprint_parts(self) -> dict[str, object]:
        return {
            "source": [self.source.name, self.source.topic],
            "keys": [[k.expression.canonical, str(k.column.type)] for k in self.keys],
            "columns": [[c.expression.canonical, str(c.column.type)] for c in self.columns],
            "filter": canonical(self.filter),
        }
