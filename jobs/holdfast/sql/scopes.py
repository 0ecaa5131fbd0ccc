"""What names mean: over a source's columns (Spark), and over keys and aggregates (DuckDB)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from holdfast.sql.engines import DUCKDB, SPARK
from holdfast.sql.expressions import Scope, Translator, call_name
from holdfast.sql.function_catalog import lookup_function
from holdfast.sql.later import CLAUSES
from holdfast.sql.script import Script, start_of
from holdfast.sql.typed import Constant, Typed
from holdfast.tasks.aggregates import registry
from holdfast.tasks.aggregates.base import AggregateFunction
from holdfast.types.schema import BIGINT, INTEGER, Base, SqlType
from holdfast.types.topology import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    AggregateCall,
    KeyExpression,
    Source,
)

__all__ = [
    "PSEUDO_COLUMNS",
    "RESERVED_NAMES",
    "WINDOW_BOUNDS",
    "AggregateScope",
    "Functions",
    "SourceScope",
    "could_be_key",
    "source_translator",
]

PSEUDO_COLUMNS: dict[str, tuple[str, SqlType]] = {
    "ROWTIME": (TIMESTAMP, BIGINT),
    "ROWPARTITION": (PARTITION, INTEGER),
    "ROWOFFSET": (OFFSET, BIGINT),
}
WINDOW_BOUNDS = ("WINDOWSTART", "WINDOWEND")
RESERVED_NAMES = (*PSEUDO_COLUMNS, *WINDOW_BOUNDS)


class Functions:
    """The aggregates one file may call: built in, registered, and those given to `compile_text`."""

    def __init__(self, extra: Mapping[str, AggregateFunction]) -> None:
        self._extra = {name.upper(): function for name, function in extra.items()}

    def aggregate(self, name: str) -> AggregateFunction | None:
        """The aggregate `name` (upper-case), if it is one."""
        return self._extra.get(name) or registry.lookup(name)

    def names(self) -> list[str]:
        """All aggregates' names."""
        return sorted({*self._extra, *registry.names()})

    def aggregates_in(self, node: exp.Expr) -> list[exp.Anonymous]:
        """The aggregate calls inside an expression, outermost first."""
        return [
            n
            for n in node.walk()
            if isinstance(n, exp.Anonymous) and self.aggregate(call_name(n) or "") is not None
        ]


class SourceScope(Scope):
    """The columns of one source and its pseudo columns, for Spark SQL."""

    def __init__(
        self,
        script: Script,
        source: Source,
        alias: str | None,
        functions: Functions,
        clause: str = "",
    ) -> None:
        self._script = script
        self._source = source
        self._names = {source.name, alias} if alias else {source.name}
        self._functions = functions
        self._clause = clause

    @property
    def place(self) -> str:
        return "before the aggregation"

    def function_names(self) -> Sequence[str]:
        return self._functions.names()

    def special(self, node: exp.Expr) -> Typed | None:
        name = call_name(node)
        if name is None or self._functions.aggregate(name) is None:
            return None
        clause = self._clause or "this expression"
        raise self._script.invalid(
            node.meta.get("start", 0),
            f"the aggregate {name} cannot stand in {clause}",
            action="filter on aggregates with HAVING; an aggregate inside an aggregate needs two "
            "statements, one after the other",
        )

    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        if qualifier is not None and qualifier not in self._names:
            known = sorted(n for n in self._names if n)
            raise self._script.unknown(start_of(node), "source", qualifier, known)
        found = next((c for c in self._source.columns if c.name == name), None)
        if found is not None:
            return Typed(found.type, SPARK.quote(name), ref=name)
        if name in PSEUDO_COLUMNS:
            column, sql_type = PSEUDO_COLUMNS[name]
            return Typed(sql_type, SPARK.quote(column), event_time=name == "ROWTIME")
        if name in WINDOW_BOUNDS:
            raise self._script.invalid(
                start_of(node),
                f"{name} cannot stand in {self._clause or 'this expression'}",
                action="window bounds are known after the aggregation of a query with WINDOW: "
                "use them in SELECT or HAVING",
            )
        names = [*(c.name for c in self._source.columns), *PSEUDO_COLUMNS]
        raise self._script.unknown(start_of(node), "column", name, names, of=self._source.name)


def source_translator(
    script: Script, source: Source, alias: str | None, functions: Functions, clause: str
) -> Translator:
    """A translator to Spark SQL over a source's columns; `clause` names the place in messages."""
    return Translator(script, SPARK, SourceScope(script, source, alias, functions, clause))


class AggregateScope(Scope):
    """Keys, aggregates and window bounds, for DuckDB.  Collects the aggregate calls it meets."""

    def __init__(
        self,
        script: Script,
        before: Translator,
        keys: Sequence[KeyExpression],
        functions: Functions,
        windowed: bool,
        calls: Sequence[AggregateCall] = (),
    ) -> None:
        self._script = script
        self._before = before
        self._keys = {k.spark: k for k in keys}
        self._functions = functions
        self._windowed = windowed
        self._calls: dict[tuple[object, ...], AggregateCall] = {}
        for call in calls:
            self._add(call)

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        """The distinct aggregate calls met so far."""
        return tuple(self._calls.values())

    @property
    def place(self) -> str:
        return "after the aggregation"

    def function_names(self) -> Sequence[str]:
        return self._functions.names()

    def special(self, node: exp.Expr) -> Typed | None:
        name = call_name(node)
        if name is not None and (function := self._functions.aggregate(name)) is not None:
            assert isinstance(node, exp.Anonymous)
            return self._aggregate(node, name, function)
        return self.key(node)

    def key(self, node: exp.Expr) -> Typed | None:
        """The key column, when the expression is a grouping expression."""
        if isinstance(node, exp.Paren) or not could_be_key(node, self._functions):
            return None
        found = self._keys.get(self._before.translate(node).sql)
        if found is None:
            return None
        name = found.column.name
        return Typed(found.column.type, _read(name, found.column.type), ref=name)

    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        if qualifier is None and name in WINDOW_BOUNDS and self._windowed:
            return Typed(BIGINT, DUCKDB.quote(name), ref=name, event_time=True)
        if name in WINDOW_BOUNDS:
            raise self._script.invalid(
                start_of(node), f"{name} needs a query with WINDOW TUMBLING or HOPPING"
            )
        self._before.translate(node)  # an unknown column is the better message
        keys = ", ".join(k.column.name for k in self._keys.values())
        raise self._script.invalid(
            start_of(node),
            f"{name} is neither aggregated nor part of GROUP BY ({keys})",
            action=f"add {name} to GROUP BY, aggregate it, for example LATEST_BY_OFFSET({name}), "
            "or remove it",
        )

    def _aggregate(self, node: exp.Anonymous, name: str, function: AggregateFunction) -> Typed:
        self._refuse_distinct(node, name)
        args, literals = self._arguments(node)
        at = node.meta.get("start", 0)
        types = tuple(a.type for a in args if a.type is not None)
        if len(types) != len(args):
            raise self._script.invalid(at, f"{name}(NULL) has no type", action="use CAST")
        try:
            result = function.result_type(types, literals)
        except ValueError as error:
            fact = str(error) if str(error).startswith(name) else f"{name}: {error}"
            raise self._script.invalid(at, fact) from None
        texts = tuple(a.sql for a in args)
        call = self._add(AggregateCall("", name, texts, types, literals, result))
        return Typed(call.type, _read(call.name, call.type), ref=call.name)

    def _add(self, call: AggregateCall) -> AggregateCall:
        """The call under its internal name; an identical one is the same."""
        key = (call.function, call.args, call.arg_types, _typed(call.literals))
        if key not in self._calls:
            self._calls[key] = replace(call, name=f"__a{len(self._calls)}")
        return self._calls[key]

    def _refuse_distinct(self, node: exp.Anonymous, name: str) -> None:
        odd = next((a for a in node.expressions if isinstance(a, (exp.Distinct, exp.Order))), None)
        if odd is not None:
            raise self._script.invalid(
                node.meta.get("start", 0),
                f"{name} takes no {odd.key.upper()}",
                action="distinct values are what COUNT_DISTINCT(x), COLLECT_SET(x) and "
                "TOPKDISTINCT(x, k) see",
            )

    def _arguments(self, node: exp.Anonymous) -> tuple[list[Typed], tuple[Constant, ...]]:
        """Columns and the constants after them; `*` is no argument at all."""
        nodes = list(node.expressions)
        if len(nodes) == 1 and isinstance(nodes[0], exp.Star):
            if call_name(node) != "COUNT":
                raise self._script.invalid(
                    node.meta.get("start", 0), f"{call_name(node)} takes a column, not *"
                )
            return [], ()
        for argument in nodes:
            if isinstance(argument, exp.Lambda):
                raise self._script.unsupported(start_of(argument), CLAUSES["LAMBDA"].fact)
        typed = [self._before.translate(n) for n in nodes]
        first = len(typed)
        while first > 1 and typed[first - 1].constant:
            first -= 1
        return typed[:first], tuple(t.constant[0] for t in typed[first:])


def could_be_key(node: exp.Expr, functions: Functions) -> bool:
    """Whether the expression can be evaluated before the aggregation."""
    if isinstance(node, (exp.Literal, exp.Null, exp.Boolean)) or not _whole(node):
        return False
    if call_name(node) == "AS_VALUE":  # asks for a copy in the value
        return False
    return not functions.aggregates_in(node) and not _names_window(node)


def _whole(node: exp.Expr) -> bool:
    """Whether the node is a value by itself: not a unit of time, a star or a field's name."""
    if isinstance(node, exp.Column):
        return not isinstance(node.this, exp.Star)
    return not any(isinstance(n, exp.Lambda) for n in node.walk()) and (
        call_name(node) is None or bool(lookup_function(call_name(node) or ""))
    )


def _names_window(node: exp.Expr) -> bool:
    columns = node.find_all(exp.Column)
    return any(isinstance(c.this, exp.Identifier) and c.name.upper() in WINDOW_BOUNDS
               for c in columns)  # fmt: skip


def _read(name: str, sql_type: SqlType) -> str:
    """A column in DuckDB; timestamps become zone-less ones that mean UTC."""
    quoted = DUCKDB.quote(name)
    return f"make_timestamp(epoch_us({quoted}))" if sql_type.base is Base.TIMESTAMP else quoted


def _typed(literals: Sequence[Constant]) -> tuple[tuple[str, Constant], ...]:
    # True == 1 in Python, but not as an argument.
    return tuple((type(v).__name__, v) for v in literals)
