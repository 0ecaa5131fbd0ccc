"""TRANSFORM, FILTER and REDUCE, whose arguments are lambdas.

DuckDB evaluates them, for Spark too: in ksqlDB arithmetic on a NULL inside a lambda makes the whole
call NULL, and so does a map with a NULL value, which Spark has no words for.  Columns that a lambda
refers to are arguments of DuckDB's text; parameters are `__l0`, `__l1`, ... by their depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from holdfast.errors import InvalidStatement
from holdfast.sql.expressions.engines import DUCKDB, SPARK
from holdfast.sql.expressions.scope import Scope
from holdfast.sql.expressions.type_rules import common_type
from holdfast.sql.expressions.typed import Typed, describe
from holdfast.sql.functions.signatures import Call, in_duckdb, py, too_large
from holdfast.sql.parse.script import Script, resolve_identifier, start_of
from holdfast.tasks.functions.limits import ITEMS_MAX, VALUE_MAX
from holdfast.types.columns.schema import BIGINT, BOOLEAN, STRING, Base, Column, SqlType

if TYPE_CHECKING:
    from holdfast.sql.expressions.translator import Translator

__all__ = ["LAMBDA_FUNCTIONS", "LAMBDA_SIGNATURES", "lambda_call"]

_FAILS = "CASE WHEN CAST('fails' AS INTEGER) = 0 THEN CAST(NULL AS {type}) END"


def _or_fail(sql: str, type_name: str) -> str:
    """The value; where it is NULL an error, which makes the whole call NULL."""
    return f"coalesce({sql}, {_FAILS.format(type=type_name)})"


class _Captured(Scope):
    """Names that mean the outer scope's, each an argument of DuckDB's text."""

    def __init__(self, outer: Scope) -> None:
        self._outer = outer
        self.arguments: list[Typed] = []

    @property
    def place(self) -> str:
        return self._outer.place

    def function_names(self) -> Sequence[str]:
        return self._outer.function_names()

    def special(self, node: exp.Expr) -> Typed | None:
        found = self._outer.special(node)
        return found and self._argument(found)

    def is_parameter(self, name: str) -> bool:
        return self._outer.is_parameter(name)

    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        return self._argument(self._outer.column(node, name, qualifier))

    def _argument(self, typed: Typed) -> Typed:
        known = next((i for i, a in enumerate(self.arguments) if a.sql == typed.sql), None)
        if known is None:
            known = len(self.arguments)
            self.arguments.append(typed)
        return replace(typed, sql=f"a{known}", constant=(), ref=None)


class _Parameters(Scope):
    """A lambda's parameters, and around them what its surroundings know."""

    def __init__(self, outer: Scope, names: Mapping[str, Typed]) -> None:
        self._outer = outer
        self._names = names
        self.depth: int = getattr(outer, "depth", 0) + 1

    @property
    def place(self) -> str:
        return self._outer.place

    def function_names(self) -> Sequence[str]:
        return self._outer.function_names()

    def special(self, node: exp.Expr) -> Typed | None:
        inner = (c for c in node.find_all(exp.Column) if isinstance(c.this, exp.Identifier))
        if any(
            not c.args.get("table") and resolve_identifier(c.this) in self._names for c in inner
        ):
            return None  # not known before the lambda is called
        return self._outer.special(node)

    def is_parameter(self, name: str) -> bool:
        return name in self._names or self._outer.is_parameter(name)

    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        if qualifier is None and name in self._names:
            return self._names[name]
        return self._outer.column(node, name, qualifier)

    def logical(self, word: str, left: str, right: str) -> str:
        # An error on the right side counts only where the left one does not decide.
        decided = f"{right} ELSE FALSE" if word == "AND" else f"TRUE ELSE {right}"
        return f"CASE WHEN {left} THEN {decided} END"

    def arithmetic(self, sql: str, type_name: str) -> str:
        return _or_fail(sql, type_name)


def lambda_call(translator: Translator, name: str, node: exp.Anonymous) -> Typed:
    """A call of TRANSFORM, FILTER or REDUCE.

    Raises:
        InvalidStatement: the arguments are not a collection and lambdas of so many parameters.
    """
    if translator.engine is not SPARK:
        made = _Call(translator, name, node).typed()
        inside = isinstance(translator.scope, (_Parameters, _Captured))
        return made if inside else Typed(made.type, f"TRY({made.sql})")
    scope = _Captured(translator.scope)
    typed = translator.inside(DUCKDB, scope).translate(node)
    assert typed.type is not None
    return Typed(typed.type, in_duckdb(typed.sql, typed.type, scope.arguments, translator.notes))


class _Call:
    """One call, for DuckDB."""

    def __init__(self, translator: Translator, name: str, node: exp.Anonymous) -> None:
        self._translator = translator
        self._script: Script = translator.script
        self._name = name
        self._node = node
        self._nodes: list[exp.Expr] = list(node.expressions)
        self._one = f"__l{getattr(translator.scope, 'depth', 0)}"
        self._state = f"{self._one}s"

    def typed(self) -> Typed:
        first = self._nodes[0] if self._nodes else None
        if first is None or isinstance(first, exp.Lambda):
            raise self._refused("")
        collection = self._translator.translate(first)
        kind = collection.type.base if collection.type else None
        if kind not in (Base.ARRAY, Base.MAP):
            raise self._refused(describe(collection.type))
        self._check(collection)
        return LAMBDA_FUNCTIONS[self._name](self, collection)

    def _check(self, collection: Typed) -> None:
        """The lambdas have as many parameters as a collection's elements have parts."""
        is_map = collection.type is not None and collection.type.base is Base.MAP
        before = 2 if self._name == "REDUCE" else 1
        lambdas = self._nodes[before:]
        wanted = 2 if is_map and self._name == "TRANSFORM" else 1
        parameters = (2 if is_map else 1) + (self._name == "REDUCE")
        fit = all(isinstance(n, exp.Lambda) and len(n.expressions) == parameters for n in lambdas)
        if len(lambdas) != wanted or not fit or isinstance(self._nodes[before - 1], exp.Lambda):
            given = ["LAMBDA" if isinstance(n, exp.Lambda) else "?" for n in self._nodes[1:]]
            raise self._refused(", ".join([describe(collection.type), *given]))

    def _refused(self, given: str) -> Exception:
        return self._script.invalid(
            self._node.meta.get("start", 0),
            f"Function '{self._name.lower()}' does not accept parameters ({given}). "
            f"Valid alternatives are: {'; '.join(LAMBDA_SIGNATURES[self._name])}",
        )

    def _element(self, collection: Typed) -> list[Typed]:
        """The values of the lambda's parameters: an element, or an entry's key and value."""
        of = collection.type
        assert of is not None
        assert of.element is not None
        if of.base is Base.ARRAY:
            return [Typed(of.element, self._one)]
        key, value = (f"struct_extract({self._one}, '{part}')" for part in ("key", "value"))
        return [Typed(of.map_key, key), Typed(of.element, value)]

    def _body(self, node: exp.Expr, values: Sequence[Typed]) -> Typed:
        names = [resolve_identifier(_identifier(n)) for n in node.expressions]
        self._check_names(node, names)
        scope = _Parameters(self._translator.scope, dict(zip(names, values, strict=True)))
        typed = self._translator.inside(DUCKDB, scope).translate(node.this)
        if typed.type is None:
            raise self._script.invalid(
                start_of(node), "a lambda's result is NULL and has no type", action="use CAST"
            )
        return typed

    def _check_names(self, node: exp.Expr, names: Sequence[str]) -> None:
        """A parameter is named once, and as nothing else is named."""
        scope = self._translator.scope
        at = start_of(node)
        if len(set(names)) < len(names):
            raise self._script.invalid(at, f"Lambda arguments have duplicates: {', '.join(names)}")
        for name in names:
            if scope.is_parameter(name):
                raise self._script.invalid(
                    at, f"Reusing lambda arguments in nested lambda is not allowed: {name}"
                )
            if _is_column(scope, name):
                raise self._script.invalid(
                    at, f"Lambda function argument can't be a column name: {name}"
                )

    def _entries(self, collection: Typed) -> str:
        is_map = collection.type is not None and collection.type.base is Base.MAP
        return f"map_entries({collection.sql})" if is_map else collection.sql

    def _map(self, entries: str, key: str, value: str, of: SqlType) -> Typed:
        """A map of what the lambda's element `_one` has for key and value; no value is NULL."""
        value = _or_fail(value, DUCKDB.type_name(of.element or BOOLEAN))
        pair = f"struct_pack(key := {key}, value := {value})"
        return Typed(of, f"map_from_entries(list_transform({entries}, lambda {self._one}: {pair}))")

    def transform(self, collection: Typed) -> Typed:
        values = self._element(collection)
        bodies = [self._body(n, values) for n in self._nodes[1:]]
        entries = self._small(self._entries(collection), bodies)
        if len(bodies) == 2:
            made = SqlType(Base.MAP, element=bodies[1].type, key=bodies[0].type)
            return self._map(entries, bodies[0].sql, bodies[1].sql, made)
        text = f"list_transform({entries}, lambda {self._one}: {bodies[0].sql})"
        return Typed(SqlType(Base.ARRAY, element=bodies[0].type), text)

    def _small(self, entries: str, bodies: Sequence[Typed]) -> str:
        """The entries; an error, which makes the whole call NULL, if their results are too large.

        Before they are made their sizes are added up, one after the other: the lambda may give the
        same large text for each.
        """
        grown = [b for b in bodies if b.type is not None and _grows(b.type)]
        self._translator.notes.changed |= bool(grown)
        if self._translator.released or not grown:
            return entries
        state, all_, size = self._state, f"{self._one}a", f"{self._one}n"
        step = " + ".join([self._checked(state), *(f"coalesce({_bytes(b)}, 0)" for b in grown)])
        total = f"list_reduce({all_}, lambda {state}, {self._one}: {step}, CAST(0 AS BIGINT))"
        kept = f"CASE WHEN coalesce({self._checked(size)}, 0) >= 0 THEN {all_} END"
        return _bound(all_, entries, _bound(size, total, kept))

    def _checked(self, size: str) -> str:
        """A number of bytes that one value may have, or an error."""
        call = Call(DUCKDB, (), BIGINT, self._name, self._translator.notes)
        refused = _or_fail(too_large(call, size, VALUE_MAX), DUCKDB.type_name(BIGINT))
        return f"CASE WHEN {size} > {VALUE_MAX} THEN {refused} ELSE {size} END"

    def filter(self, collection: Typed) -> Typed:
        values = self._element(collection)
        body = self._body(self._nodes[1], values)
        if body.type != BOOLEAN:
            raise self._script.invalid(
                start_of(self._nodes[1]), f"FILTER's lambda gives BOOLEAN, not {body.type}"
            )
        condition = _or_fail(body.sql, "BOOLEAN")
        kept = f"list_filter({self._entries(collection)}, lambda {self._one}: {condition})"
        if len(values) == 1:
            return Typed(collection.type, kept)
        assert collection.type is not None
        return self._map(kept, values[0].sql, values[1].sql, collection.type)

    def reduce(self, collection: Typed) -> Typed:
        first, body = self._nodes[1], self._nodes[2]
        state = self._translator.translate(first)
        if state.type is None:
            raise self._script.invalid(
                start_of(first), "REDUCE's first state is NULL and has no type", action="use CAST"
            )
        values = self._element(collection)
        made = self._body(body, [Typed(state.type, self._state), *values])
        wanted = common_type([state.type, made.type])
        if wanted is None:
            raise self._script.invalid(
                start_of(body),
                f"REDUCE's lambda gives {made.type}, but its state is {state.type}",
                action="use CAST, so that both are of one type",
            )
        state = self._translator.coerce(state, wanted, first)
        made = self._body(body, [Typed(wanted, self._state), *values])
        start = f"CAST({state.sql} AS {DUCKDB.type_name(wanted)})"
        step = self._bounded(wanted, f"CAST({made.sql} AS {DUCKDB.type_name(wanted)})")
        entries = self._in_order(collection)
        folded = f"list_reduce({entries}, lambda {self._state}, {self._one}: {step}, {start})"
        return Typed(
            wanted,
            f"CASE WHEN {start} IS NULL THEN NULL WHEN {entries} IS NULL THEN {start} "
            f"ELSE {folded} END",
        )

    def _bounded(self, of: SqlType, step: str) -> str:
        """A step of REDUCE from a state that is not too large: it may double it each time."""
        sizes = _sizes(self._state, of)
        self._translator.notes.changed |= bool(sizes)
        if self._translator.released or not sizes:
            return step
        call = Call(DUCKDB, (), of, "REDUCE", self._translator.notes)
        name = DUCKDB.type_name(of)
        cases = "".join(
            f"WHEN {size} > {most} THEN {_or_fail(too_large(call, size, most), name)} "
            for size, most in sizes
        )
        return f"CASE {cases}ELSE {step} END"

    def _in_order(self, collection: Typed) -> str:
        """The items to fold, in order; a map's entries as Java iterates over them."""
        assert collection.type is not None
        if collection.type.base is Base.ARRAY:
            return collection.sql
        if collection.type.map_key != STRING:
            return self._entries(collection)
        return self._java_entries(collection)

    def _java_entries(self, collection: Typed) -> str:
        of = collection.type
        assert of is not None
        assert of.element is not None
        fields = (Column("key", of.map_key), Column("value", of.element))
        result = SqlType(Base.ARRAY, element=SqlType(Base.STRUCT, fields=fields))
        call = Call(DUCKDB, (collection,), result, self._name, self._translator.notes)
        return py("JAVA_ENTRIES")(call)


def _bound(name: str, sql: str, inside: str) -> str:
    """`inside`, in which a name stands for a value that is evaluated once."""
    return f"list_transform([{sql}], lambda {name}: {inside})[1]"


def _grows(of: SqlType) -> bool:
    """Whether values of a type may be large."""
    return of.base in (Base.STRING, Base.BYTES, Base.ARRAY, Base.MAP) or any(
        _grows(field.type) for field in of.fields
    )


def _bytes(value: Typed) -> str:
    """How large a value is, in DuckDB; what has parts counts as its text."""
    if value.type is not None and value.type.base is Base.BYTES:
        return f"octet_length({value.sql})"
    text = value.sql if value.type == STRING else f"CAST({value.sql} AS VARCHAR)"
    return f"strlen({text})"


def _sizes(state: str, of: SqlType) -> list[tuple[str, int]]:
    """How large a value is, in DuckDB, and how large it may be; nothing if it cannot grow."""
    if of.base is Base.BYTES:
        return [(f"octet_length({state})", VALUE_MAX)]
    if of.base is Base.ARRAY:
        sizes = [(f"len({state})", ITEMS_MAX)]
    elif of.base is Base.MAP:
        sizes = [(f"cardinality({state})", ITEMS_MAX)]
    else:
        sizes = []
    parts = [t for t in (of.element, *(f.type for f in of.fields)) if t is not None]
    if of.base in (Base.STRING, Base.MAP) or any(_sizes("", part) for part in parts):
        sizes.append((f"strlen(CAST({state} AS VARCHAR))", VALUE_MAX))
    return sizes


def _is_column(scope: Scope, name: str) -> bool:
    identifier = exp.Identifier(this=name, quoted=True)
    try:
        scope.column(exp.Column(this=identifier), name, None)
    except InvalidStatement:
        return False
    return True


def _identifier(node: exp.Expr) -> exp.Identifier:
    found = node.this if isinstance(node, exp.Column) else node
    return found if isinstance(found, exp.Identifier) else exp.to_identifier(str(node.name))


LAMBDA_FUNCTIONS: dict[str, Callable[[_Call, Typed], Typed]] = {
    "TRANSFORM": _Call.transform,
    "FILTER": _Call.filter,
    "REDUCE": _Call.reduce,
}
LAMBDA_SIGNATURES = {
    "TRANSFORM": ("TRANSFORM(ARRAY<T>, x => U)", "TRANSFORM(MAP<K, V>, (k, v) => R, (k, v) => U)"),
    "FILTER": ("FILTER(ARRAY<T>, x => BOOLEAN)", "FILTER(MAP<K, V>, (k, v) => BOOLEAN)"),
    "REDUCE": ("REDUCE(ARRAY<T>, S, (s, x) => S)", "REDUCE(MAP<K, V>, S, (s, k, v) => S)"),
}
