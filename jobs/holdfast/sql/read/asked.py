"""`Read`: a planned pull or push query, and which keys its rows can have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.sql.plan.relation import WINDOW_BOUNDS
from holdfast.types.columns.schema import Column
from holdfast.types.statements.expressions import Expression, NamedExpression
from holdfast.types.statements.sources import Source

__all__ = ["EVERYTHING", "Bounds", "Box", "Domain", "Grouping", "Keyed", "Point", "Read"]

_BOXES_MAX = 1_000


@dataclass(frozen=True)
class Point:
    """One value that a column is compared with.

    `at` is the offset of its literal in the text, None where it is more than a literal.
    """

    value: Any
    at: int | None = None


@dataclass(frozen=True)
class Domain:
    """The values that a column may have: `points`, or all of low … high (inclusive, None: open).

    Points go by the text of their value, since lists and structs have no hash.
    """

    points: dict[str, Point] | None = None
    low: Any = None
    high: Any = None

    def meet(self, other: Domain) -> Domain:
        """The values in both."""
        if self.points is not None:
            kept = {t: p for t, p in self.points.items() if other.holds(t, p.value)}
            return Domain(kept)
        if other.points is not None:
            return other.meet(self)
        lows = [d.low for d in (self, other) if d.low is not None]
        highs = [d.high for d in (self, other) if d.high is not None]
        return Domain(None, max(lows, default=None), min(highs, default=None))

    def holds(self, text: str, value: Any) -> bool:
        """Whether a value, with its text, is one of them."""
        if self.points is not None:
            return text in self.points
        return not (
            (self.low is not None and value < self.low)
            or (self.high is not None and value > self.high)
        )

    @property
    def empty(self) -> bool:
        if self.points is not None:
            return not self.points
        return self.low is not None and self.high is not None and bool(self.low > self.high)


@dataclass(frozen=True)
class Box:
    """Rows whose columns lie in these domains; a column that is not named may be anything."""

    domains: dict[str, Domain] = field(default_factory=dict)

    def meet(self, other: Box) -> Box:
        """The rows in both."""
        met = dict(self.domains)
        for name, domain in other.domains.items():
            met[name] = domain.meet(met[name]) if name in met else domain
        return Box(met)

    @property
    def empty(self) -> bool:
        return any(d.empty for d in self.domains.values())


@dataclass(frozen=True)
class Bounds:
    """Every row that passes a condition lies in one of the boxes; `exact`: and no other does."""

    boxes: tuple[Box, ...]
    exact: bool

    def both(self, other: Bounds) -> Bounds:
        """The bounds of `self AND other`."""
        if len(self.boxes) * len(other.boxes) > _BOXES_MAX:
            return replace(self, exact=False)
        met = [a.meet(b) for a in self.boxes for b in other.boxes]
        return Bounds(tuple(b for b in met if not b.empty), self.exact and other.exact)

    def either(self, other: Bounds) -> Bounds:
        """The bounds of `self OR other`."""
        boxes = self.boxes + other.boxes
        if any(not b.domains for b in boxes) or len(boxes) > _BOXES_MAX:
            return Bounds((Box(),), exact=False)
        return Bounds(boxes, self.exact and other.exact)


EVERYTHING = Bounds((Box(),), exact=False)


@dataclass(frozen=True)
class Grouping:
    """GROUP BY, or aggregates over all rows.

    `columns` are over the table's rows, by internal name: the grouping expressions (the first
    `groups` of them), then the aggregates.  The outputs of the read are over them.
    """

    columns: tuple[NamedExpression, ...]
    groups: int
    having: Expression | None = None


@dataclass(frozen=True)
class Keyed:
    """ksqlDB's verdict on the WHERE clause of a pull query over a table.

    Attributes:
        obstacle: why it would look at all rows; empty: it takes keys or a range of them.
        wrong_key: why it refuses to look up one of its keys; empty: it does not.
    """

    obstacle: str = ""
    wrong_key: str = ""


@dataclass(frozen=True)
class Read:
    """A SELECT over one stream or table; its expressions are DuckDB's.

    Attributes:
        source: what it reads, and its alias in `outputs`' errors is of no interest any more.
        outputs: what it makes of a row.
        condition: WHERE; None without.
        bounds: which keys and windows can pass it.
        keyed: what ksqlDB says of WHERE, of a pull query.
        order: places of the result columns by which a pull query's rows are sorted, and whether the
            largest comes first.
    """

    source: Source
    push: bool
    outputs: tuple[NamedExpression, ...]
    condition: Expression | None
    bounds: Bounds
    limit: int | None = None
    grouping: Grouping | None = None
    keyed: Keyed = Keyed()
    order: tuple[tuple[int, bool], ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(o.column for o in self.outputs)

    @property
    def over_rows(self) -> tuple[Expression, ...]:
        """The expressions that are evaluated over the rows as they come, but for WHERE."""
        made = self.outputs if self.grouping is None else self.grouping.columns
        return tuple(each.expression for each in made)

    @property
    def over_groups(self) -> tuple[Expression, ...]:
        """The expressions that are evaluated over what GROUP BY made of them."""
        if self.grouping is None:
            return ()
        having = () if self.grouping.having is None else (self.grouping.having,)
        return (*(each.expression for each in self.outputs), *having)

    @property
    def key_names(self) -> frozenset[str]:
        """The names of result columns that ksqlDB calls keys: by their names alone."""
        keys = (c.name for c in self.source.key_columns)
        return frozenset((*keys, *WINDOW_BOUNDS)) & {c.name for c in self.columns}

    @property
    def plain(self) -> bool:
        """Whether rows need no evaluation: their columns are the result's."""
        filtered = self.condition is not None and not self.bounds.exact
        return not filtered and self.grouping is None and all(o.ref for o in self.outputs)
