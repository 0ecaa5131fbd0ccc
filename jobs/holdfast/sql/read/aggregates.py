"""Aggregates over the rows of a table that is read: DuckDB computes them, once, at the end."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from holdfast.sql.expressions.engines import DUCKDB
from holdfast.sql.expressions.names import AggregateScope, Functions
from holdfast.sql.expressions.translator import Translator
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.parse.script import Script
from holdfast.sql.plan.aggregate import tried
from holdfast.sql.read.asked import Grouping
from holdfast.types.columns.schema import Column
from holdfast.types.statements.expressions import Expression, NamedExpression, combined
from holdfast.types.statements.topology import AggregateCall

__all__ = ["GroupedScope", "aggregate", "grouping", "grouping_keys"]

# {0} and {1} are the arguments, {t} the result's type.
_TEXTS = {
    "COUNT": "count({0})",
    "COUNT_DISTINCT": "count(DISTINCT {0})",
    "SUM": "TRY_CAST(sum({0}) AS {t})",
    "AVG": "avg({0})",
    "MIN": "min({0})",
    "MAX": "max({0})",
    "COLLECT_LIST": "coalesce(list({0}), [])",
    "COLLECT_SET": "coalesce(list(DISTINCT {0}), [])",
    "STDDEV_SAMP": "stddev_samp({0})",
    "CORRELATION": "corr({0}, {1})",
    "HISTOGRAM": "CAST(histogram({0}) AS {t})",
}


class GroupedScope(AggregateScope):
    """Keys and aggregates of a SELECT with GROUP BY; window bounds may be grouping expressions."""

    def __init__(
        self,
        script: Script,
        rows: Translator,
        keys: Sequence[NamedExpression],
        functions: Functions,
    ) -> None:
        super().__init__(script, rows, keys, functions, windowed=False)
        self._rows = rows

    def key(self, node: exp.Expr) -> Typed | None:
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            found = self._keys.get(self._rows.translate(node).sql)
            return None if found is None else _column(found.column)
        return super().key(node)


def _column(column: Column) -> Typed:
    name = column.name
    return Typed(column.type, DUCKDB.quote(name), ref=name, columns=(name,))


def grouping_keys(rows: Translator, nodes: Sequence[exp.Expr]) -> tuple[NamedExpression, ...]:
    """The grouping expressions under internal names, `__g0`, `__g1` …."""
    made = [rows.expression(n) for n in nodes]
    return tuple(NamedExpression(f"__g{i}", e) for i, e in enumerate(made) if e is not None)


def grouping(
    script: Script,
    at: int,
    keys: Sequence[NamedExpression],
    calls: Sequence[AggregateCall],
    having: Expression | None,
) -> Grouping:
    """The grouping that DuckDB computes, from grouping expressions and aggregates."""
    columns = [NamedExpression(k.name, _tried(k.expression)) for k in keys]
    columns += [NamedExpression(c.name, aggregate(script, at, c)) for c in calls]
    return Grouping(tuple(columns), len(keys), having)


def _tried(made: Expression) -> Expression:
    """An expression whose errors are NULL; a plain column has none."""
    return made if made.ref is not None else tried(made)


def aggregate(script: Script, at: int, call: AggregateCall) -> Expression:
    """An aggregate in DuckDB.

    Raises:
        Unsupported: it needs the order of records, which a table does not keep, or it is the
            user's own.
    """
    parts = [_tried(a) for a in call.args]
    arguments = [part.sql for part in parts] or ["*"]
    if call.function == "TOPK" and len(call.args) == 1:
        largest = f"coalesce(max({arguments[0]}, {call.literals[0]}), [])"
        return combined(parts, largest, call.type)
    text = _TEXTS.get(call.function)
    if text is None:
        raise script.unsupported(
            at,
            f"{call.function} over the rows of a table is not supported in a query of its own",
            action=f"known are: {', '.join(sorted([*_TEXTS, 'TOPK']))}; "
            "others can be kept by a CREATE TABLE ... AS SELECT",
        )
    return combined(parts, text.format(*arguments, t=DUCKDB.type_name(call.type)), call.type)
