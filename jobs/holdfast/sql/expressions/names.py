"""Scopes: names over a relation's columns, and over keys and aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType

from sqlglot import exp

from holdfast.sql.expressions.engines import DUCKDB, SPARK, Engine
from holdfast.sql.expressions.lambdas import LAMBDA_FUNCTIONS
from holdfast.sql.expressions.translator import Scope, Translator, call_name
from holdfast.sql.expressions.typed import Constant, Typed
from holdfast.sql.functions.catalog import lookup_function
from holdfast.sql.parse.script import Script, did_you_mean, start_of
from holdfast.sql.plan.relation import WINDOW_BOUNDS, Field, Relation
from holdfast.tasks.aggregates import registry
from holdfast.tasks.aggregates.base import AggregateFunction
from holdfast.types.columns.schema import BIGINT, Column, SqlType
from holdfast.types.statements.expressions import Expression, NamedExpression
from holdfast.types.statements.topology import AggregateCall

__all__ = [
    "AggregateScope",
    "Functions",
    "RelationScope",
    "could_be_key",
    "known_function",
    "relation_translator",
]


class Functions:
    """The aggregates one file may call: built in, registered, and those given to `compile_text`."""

    def __init__(
        self,
        extra: Mapping[str, AggregateFunction],
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._extra = {name.upper(): function for name, function in extra.items()}
        self._properties = dict(properties)

    def under(self, properties: Mapping[str, str]) -> Functions:
        """The same functions for a statement with these properties."""
        return Functions(self._extra, properties)

    def settings(self, function: AggregateFunction, result: SqlType) -> tuple[Constant, ...]:
        """The constants that the properties add to a call of this function and type."""
        return function.settings(self._properties, result)

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


class RelationScope(Scope):
    """The columns of a relation: as its source has them, or as the rows of a join have them.

    Args:
        clause: the place of the expressions, for messages.
        joined: the columns are those of a join's rows.
        windowed: the query aggregates in windows, whose bounds are not known here yet.
    """

    def __init__(
        self,
        script: Script,
        relation: Relation,
        functions: Functions,
        clause: str,
        *,
        joined: bool = False,
        windowed: bool = False,
    ) -> None:
        self._script = script
        self._relation = relation
        self._functions = functions
        self._clause = clause
        self._joined = joined
        self._windowed = windowed
        self._engine = DUCKDB

    @property
    def place(self) -> str:
        return "after the join" if self._joined else "before the aggregation"

    @property
    def first_engine(self) -> Engine:
        return DUCKDB if self._joined else SPARK

    def in_engine(self, engine: Engine) -> RelationScope:
        found = copy(self)
        found._engine = engine
        return found

    def function_names(self) -> Sequence[str]:
        return self._functions.names()

    def special(self, node: exp.Expr) -> Typed | None:
        name = call_name(node)
        if name is None or self._functions.aggregate(name) is None:
            return None
        fact, action = f"the aggregate {name} cannot stand in {self._clause}", ""
        if self._clause == "GROUP BY":
            fact = (
                f"GROUP BY does not support aggregate functions: {name} is an aggregate function."
            )
        if self._clause == "WHERE":
            action = "filter on aggregates with HAVING"
        raise self._script.invalid(node.meta.get("start", 0), fact, action=action)

    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        found = self._relation.find(name, qualifier)
        if not found:
            raise self._unresolved(node, name, qualifier)
        if len(found) > 1:
            options = " or ".join(f"{f.owner}.{f.name}" for f in found)
            raise self._script.invalid(
                start_of(node),
                "Line: {}, Col: {}: ".format(*self._script.place(start_of(node)))
                + f"Column '{name}' is ambiguous. Could be {options}.",
                action="write its source before it",
            )
        return self.typed(found[0])

    def typed(self, field: Field) -> Typed:
        """A column of the relation."""
        if self._joined:
            return _read(field.column, event_time=field.event_time)
        read = field.read
        return Typed(
            field.column.type,
            read.sql if self._engine is DUCKDB else read.canonical,
            ref=read.ref,
            event_time=field.event_time,
            columns=read.columns,
        )

    def _unresolved(self, node: exp.Column, name: str, qualifier: str | None) -> Exception:
        at = start_of(node)
        if name in WINDOW_BOUNDS and self._windowed:
            return self._script.invalid(
                at,
                f"Window bounds column {name} can only be used in the SELECT clause of windowed "
                "aggregations and can not be passed to aggregate functions",
            )
        relation = self._relation
        known = [*relation.owners, *(other for other, _ in relation.names)]
        if qualifier is not None and qualifier not in known:
            return self._script.invalid(
                at,
                f"Failed to prepare statement: '{qualifier}' is not a valid stream/table name or "
                "alias.",
                action=did_you_mean(qualifier, known) or f"known are: {', '.join(known)}",
            )  # fmt: skip
        hint = did_you_mean(name, relation.all_names())
        hint = hint or "known are: " + ", ".join(dict.fromkeys(relation.all_names()))
        if qualifier is None and _is_compared(node):
            hint = f"{hint}\nif text is meant, it takes single quotes: '{node.name}'"
        written = f"{qualifier}.{name}" if qualifier else name
        fact = f"{self._clause} column '{written}' cannot be resolved."
        if self._clause == "PARTITION BY":
            fact += (
                f" '{written}' must be a column in the source schema since PARTITION BY is "
                "applied on the input."
            )
        return self._script.invalid(at, fact, action=hint)


def _is_compared(node: exp.Column) -> bool:
    """Whether a name stands where a comparison has its value, and not beside one."""
    parent = node.parent
    if isinstance(parent, exp.In):
        return parent.this is not node
    if not isinstance(parent, exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.Like):
        return False
    return node is parent.expression or not isinstance(parent.expression, exp.Literal)


def relation_translator(
    script: Script,
    relation: Relation,
    functions: Functions,
    clause: str,
    *,
    joined: bool = False,
    windowed: bool = False,
) -> Translator:
    """A translator over a relation's columns; see `RelationScope`."""
    scope = RelationScope(script, relation, functions, clause, joined=joined, windowed=windowed)
    return Translator(script, scope)


class AggregateScope(Scope):
    """Keys, aggregates and window bounds.  Collects the aggregate calls it meets.

    `clause` is where the expression stands, SELECT or HAVING: window bounds are for SELECT only.
    `ungrouped` tells whether it met a column that is neither grouped nor aggregated.
    """

    def __init__(
        self,
        script: Script,
        before: Translator,
        keys: Sequence[NamedExpression],
        functions: Functions,
        windowed: bool,
        calls: Sequence[AggregateCall] = (),
    ) -> None:
        self._script = script
        self._before = before
        self._keys = {k.sql: k for k in keys}
        self._functions = functions
        self._windowed = windowed
        self.clause = "SELECT"
        self.ungrouped = False
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
        if isinstance(node, exp.Paren) or not could_be_key(
            node, self._functions, windowed=self._windowed
        ):
            return None
        found = self._keys.get(self._before.translate(node).sql)
        if found is None:
            return None
        return replace(_read(found.column), deterministic=found.expression.deterministic)

    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        if name in WINDOW_BOUNDS and self._windowed and self.clause == "SELECT":
            return _read(Column(name, BIGINT), event_time=True)
        self._before.translate(node)  # an unknown column is the better message
        self.ungrouped = True
        expressions = "expression(s)" if self.clause == "SELECT" else "expression"
        raise self._script.invalid(
            start_of(node),
            f"Non-aggregate {self.clause} {expressions} not part of GROUP BY: {name}",
            action=f"add {name} to GROUP BY, aggregate it, for example LATEST_BY_OFFSET({name}), "
            "or remove it",
        )

    def _aggregate(self, node: exp.Anonymous, name: str, function: AggregateFunction) -> Typed:
        self._refuse_distinct(node, name)
        at = node.meta.get("start", 0)
        nested = [n for a in node.expressions for n in self._functions.aggregates_in(a)]
        if nested:
            raise self._script.invalid(
                at, f"Aggregate functions can not be nested: {name}({call_name(nested[0])}())"
            )
        args, literals = self._arguments(node, function)
        try:
            result = function.result_type(tuple(a.type for a in args), literals)
        except ValueError as error:
            told = str(error).startswith((name, "Function"))
            fact = str(error) if told else f"{name}: {error}"
            raise self._script.invalid(at, fact) from None
        constants = literals + self._functions.settings(function, result)
        call = self._add(AggregateCall("", name, tuple(args), constants, result))
        determined = all(a.deterministic for a in args)
        return replace(_read(Column(call.name, call.type)), deterministic=determined)

    def _add(self, call: AggregateCall) -> AggregateCall:
        """The call under its internal name; an identical one is the same."""
        key = (call.function, call.args, _typed(call.literals))
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

    def _arguments(
        self, node: exp.Anonymous, function: AggregateFunction
    ) -> tuple[list[Expression], tuple[Constant, ...]]:
        """Columns and the constants after them; `*` is no argument at all."""
        nodes = list(node.expressions)
        if len(nodes) == 1 and isinstance(nodes[0], exp.Star):
            if call_name(node) != "COUNT":
                raise self._script.invalid(
                    node.meta.get("start", 0), f"{call_name(node)} takes a column, not *"
                )
            return [], ()
        typed = [self._before.translate(n) for n in nodes]
        columns = function.columns(len(typed))
        for at, (argument, found) in enumerate(zip(nodes, typed, strict=True)):
            if at >= columns and not found.constant:
                raise self._script.invalid(
                    start_of(argument),
                    f"Parameter {at + 1} passed to function {call_name(node)} must be a literal "
                    f"constant, but was expression: '{self._script.excerpt(argument)}'",
                )
        made = [self._before.expression(n) for n in nodes[:columns]]
        args = [argument for argument in made if argument is not None]
        if len(args) < len(made):
            at = node.meta.get("start", 0)
            fact = f"{call_name(node)}(NULL) has no type"
            raise self._script.invalid(at, fact, action="use CAST")
        wanted = function.passed_as([argument.type for argument in args])
        args = [
            given if given.type == kind else self._before.coerced(argument, kind)
            for given, kind, argument in zip(args, wanted, nodes[:columns], strict=True)
        ]
        return args, tuple(t.constant[0] for t in typed[columns:])


def could_be_key(node: exp.Expr, functions: Functions, *, windowed: bool) -> bool:
    """Whether the expression can be evaluated before the aggregation.

    `windowed`: the query makes windows of its own, whose bounds are known only after it; without,
    WINDOWSTART and WINDOWEND are columns of the source.
    """
    if isinstance(node, (exp.Literal, exp.Null, exp.Boolean)) or not _whole(node):
        return False
    if call_name(node) == "AS_VALUE":  # asks for a copy in the value
        return False
    return not functions.aggregates_in(node) and not (windowed and _names_window(node))


def _whole(node: exp.Expr) -> bool:
    """Whether the node is a value by itself: not a unit of time, a star or a field's name."""
    if isinstance(node, exp.Column):
        return not isinstance(node.this, exp.Star)
    if call_name(node) is None:
        return not isinstance(node, exp.Lambda)
    return known_function(node)


def known_function(node: exp.Expr) -> bool:
    """Whether a call is one of a scalar function, or makes a STRUCT or a MAP."""
    name = call_name(node) or ""
    return name in ("STRUCT", "MAP", *LAMBDA_FUNCTIONS) or bool(lookup_function(name))


def _names_window(node: exp.Expr) -> bool:
    columns = node.find_all(exp.Column)
    return any(isinstance(c.this, exp.Identifier) and c.name.upper() in WINDOW_BOUNDS
               for c in columns)  # fmt: skip


def _read(column: Column, *, event_time: bool = False) -> Typed:
    name, text = column.name, DUCKDB.zoneless(DUCKDB.quote(column.name), column.type)
    return Typed(column.type, text, ref=name, event_time=event_time, columns=(name,))


def _typed(literals: Sequence[Constant]) -> tuple[tuple[str, Constant], ...]:
    # True == 1 in Python, but not as an argument.
    return tuple((type(v).__name__, v) for v in literals)
