"""GROUP BY: one row of state per key (and window)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from holdfast.errors import InvalidStatement
from holdfast.sql.engines import DUCKDB
from holdfast.sql.expressions import Translator
from holdfast.sql.projection import Item, expand
from holdfast.sql.scopes import AggregateScope, Functions, could_be_key, source_translator
from holdfast.sql.script import Script, start_of
from holdfast.sql.statements import Select, WindowClause
from holdfast.sql.typed import Typed
from holdfast.types.schema import Base, Column, SqlType
from holdfast.types.topology import (
    AggregateCall,
    AggregateStep,
    KeyExpression,
    OutputColumn,
    Source,
    Window,
)

__all__ = ["plan_aggregate"]

_DAY_MS = 86_400_000
_GRACE_MS = _DAY_MS  # ksqlDB's default
_RETENTION_MS = _DAY_MS  # ksqlDB's default, where size and grace fit into it


def plan_aggregate(
    script: Script, select: Select, source: Source, functions: Functions
) -> AggregateStep:
    """The step of a SELECT with GROUP BY.

    The grouping expressions that are selected are the key columns, named as the SELECT names
    them; AS_VALUE(x) makes a copy in the value.

    Raises:
        InvalidStatement: a grouping expression is not selected, a column is neither grouped nor
            aggregated, a window's lengths contradict each other.
    """
    return _Planner(script, select, source, functions).plan()


class _Planner:
    def __init__(
        self, script: Script, select: Select, source: Source, functions: Functions
    ) -> None:
        self._script = script
        self._select = select
        self._functions = functions
        alias = select.source_alias.text if select.source_alias else None
        self._grouping = source_translator(script, source, alias, functions, "GROUP BY")
        self._before = source_translator(script, source, alias, functions, "an aggregate")
        self._items, _ = expand(script, select, source, self._before)
        self._windowed = select.window is not None

    def plan(self) -> AggregateStep:
        groups = [self._group(node) for node in self._select.group_by]
        keys, values = self._keys(groups)
        # Twice: the first pass finds the aggregates, the second names them in their own order,
        # so that neither the SELECT's order nor HAVING changes what is stored.
        first, _, _ = self._evaluate(keys, values, ())
        scope, outputs, condition = self._evaluate(keys, values, sorted(first.calls, key=_order))
        self._check(scope, outputs)
        window = self._select.window
        return AggregateStep(
            keys=keys,
            window=None if window is None else plan_window(self._script, window),
            aggregates=scope.calls,
            outputs=outputs,
            having=condition,
        )

    def _evaluate(
        self,
        keys: tuple[KeyExpression, ...],
        values: Sequence[Item],
        calls: Sequence[AggregateCall],
    ) -> tuple[AggregateScope, tuple[OutputColumn, ...], str | None]:
        scope = AggregateScope(
            self._script, self._before, keys, self._functions, self._windowed, calls
        )
        after = Translator(self._script, DUCKDB, scope)
        outputs = tuple(self._output(after, item) for item in values)
        having = self._select.having
        return scope, outputs, None if having is None else f"TRY({after.condition(having)})"

    def _group(self, node: exp.Expr) -> Typed:
        self._refuse_alias(node)
        typed = self._grouping.translate(node)
        if typed.constant or typed.type is None:
            raise self._script.invalid(
                start_of(node),
                f"GROUP BY {self._script.excerpt(node)} groups by a constant",
                action="ksqlDB knows no column numbers: name the column",
            )
        if typed.type.base is Base.MAP:
            raise self._script.invalid(start_of(node), "a MAP cannot be a key")
        return typed

    def _refuse_alias(self, node: exp.Expr) -> None:
        if not isinstance(node, exp.Column) or node.args.get("table"):
            return
        for item in self._select.items:
            alias, expression = item.alias, item.expression
            if alias is None or expression is None or alias.text != _column_name(node):
                continue
            if not self._is_column(node):
                raise self._script.invalid(
                    start_of(node),
                    f"GROUP BY cannot use {alias.text}, which is an alias of the SELECT",
                    action="repeat the expression in GROUP BY",
                )

    def _is_column(self, node: exp.Column) -> bool:
        try:
            self._grouping.translate(node)
        except InvalidStatement:
            return False
        return True

    def _keys(self, groups: Sequence[Typed]) -> tuple[tuple[KeyExpression, ...], list[Item]]:
        """Key columns in GROUP BY's order, and the items that are left for the value."""
        texts = [g.sql for g in groups]
        found: dict[str, Item] = {}
        values: list[Item] = []
        for item in self._items:
            text = self._before_text(item)
            if text not in texts:
                values.append(item)
            elif text in found:
                self._refuse_second_key(item, found[text])
            else:
                found[text] = item
        keys: list[KeyExpression] = []
        for node, group in zip(self._select.group_by, groups, strict=True):
            if group.sql in [k.spark for k in keys]:
                raise self._script.invalid(start_of(node), "GROUP BY names this twice")
            keys.append(self._key(node, group, found.get(group.sql)))
        self._refuse_same_folded()
        return tuple(keys), values

    def _key(self, node: exp.Expr, group: Typed, item: Item | None) -> KeyExpression:
        if item is None:
            written = self._script.excerpt(node)
            raise self._script.invalid(
                self._select.at,
                "Key missing from projection: the SELECT must include the grouping expression "
                f"{written}",
                action=f"write SELECT {written}, ...",
            )
        assert group.type is not None
        return KeyExpression(group.sql, Column(item.name, group.type))

    def _before_text(self, item: Item) -> str | None:
        """The item as Spark SQL when it could be a grouping expression."""
        if not could_be_key(item.expression, self._functions):
            return None
        return self._before.translate(item.expression).sql

    def _refuse_second_key(self, item: Item, first: Item) -> None:
        raise self._script.invalid(
            item.at,
            f"the projection contains a key column more than once, as {first.name} and {item.name}",
            action="AS_VALUE(column) copies a key column into the value",
        )

    def _refuse_same_folded(self) -> None:
        # DuckDB does not tell A from a, quoted or not.
        folded = [item.name.upper() for item in self._items]
        twice = next((i for n, i in enumerate(self._items) if folded[n] in folded[:n]), None)
        if twice is not None:
            raise self._script.unsupported(
                twice.at,
                f"columns of an aggregation whose names differ only in case: {twice.name}",
                action="give it another alias",
            )

    def _output(self, after: Translator, item: Item) -> OutputColumn:
        typed = after.translate(item.expression)
        if typed.type is None:
            raise self._script.invalid(item.at, f"{item.name} is NULL and has no type",
                                       action="use CAST(NULL AS ...)")  # fmt: skip
        text = typed.sql if typed.ref else _evaluated(typed.sql, typed.type)
        return OutputColumn(Column(item.name, typed.type), typed.ref, text)

    def _check(self, scope: AggregateScope, outputs: Sequence[OutputColumn]) -> None:
        if not scope.calls:
            raise self._script.invalid(
                start_of(self._select.group_by[0]),
                "GROUP BY requires aggregate functions in either the SELECT or HAVING clause",
                action="add one, for example COUNT(*)",
            )
        if not outputs:
            raise self._script.invalid(
                self._select.at, "the projection contains no value columns",
                action="select an aggregate or AS_VALUE(key)",
            )  # fmt: skip


def _order(call: AggregateCall) -> tuple[str, tuple[str, ...], str]:
    return call.function, call.args, repr(call.literals)


def _column_name(node: exp.Column) -> str:
    name = str(node.this.this)
    return name if node.this.args.get("quoted") else name.upper()


def _evaluated(text: str, sql_type: SqlType) -> str:
    """DuckDB text whose errors are NULL and whose type is exactly the column's."""
    if _has_timestamp(sql_type):
        return f"TRY({text})"  # zone-less, meaning UTC; a CAST would use the session's zone
    return f"TRY(CAST({text} AS {DUCKDB.type_name(sql_type)}))"


def _has_timestamp(sql_type: SqlType) -> bool:
    if sql_type.element is not None:
        return _has_timestamp(sql_type.element)
    return sql_type.base is Base.TIMESTAMP or any(_has_timestamp(f.type) for f in sql_type.fields)


def plan_window(script: Script, clause: WindowClause) -> Window:
    """A window with ksqlDB's defaults: grace 24 h, retention 1 day or what size + grace need."""
    grace = _GRACE_MS if clause.grace_ms is None else clause.grace_ms
    least = clause.size_ms + grace
    retention = clause.retention_ms
    if clause.size_ms <= 0 or not 0 < clause.advance_ms <= clause.size_ms:
        raise script.invalid(
            clause.at,
            f"ADVANCE BY ({clause.advance_ms} ms) must be more than 0 and no more than "
            f"SIZE ({clause.size_ms} ms)",
        )
    if retention is not None and retention < least:
        raise script.invalid(
            clause.at,
            f"RETENTION ({retention} ms) is less than SIZE + GRACE PERIOD "
            f"({clause.size_ms} + {grace} ms)",
            cause="without GRACE PERIOD it is 24 hours" if clause.grace_ms is None else "",
            action=f"set RETENTION to at least {least} MILLISECONDS, or shorten GRACE PERIOD",
        )
    kept = max(least, _RETENTION_MS) if retention is None else retention
    return Window(clause.kind, clause.size_ms, clause.advance_ms, grace, kept)
