"""Expressions → typed text for one engine.

The translator walks sqlglot's tree, types every node by ksqlDB's rules and renders it through an
`Engine`.  What names mean is the `Scope`'s business: source columns before the shuffle, keys and
aggregates after it.  Rendering is deterministic: the text is part of a query's fingerprint.

Comparisons with NULL are false in ksqlDB, not NULL.  Where only truth counts (WHERE, HAVING,
CASE WHEN: `condition`) that makes no difference and the plain operator is used; elsewhere, under
NOT for example, it is wrapped in `coalesce(..., false)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from sqlglot import exp

from holdfast.sql.comparisons import Comparisons
from holdfast.sql.dialect import SQL_TYPE
from holdfast.sql.engines import Engine, explain_cast
from holdfast.sql.function_catalog import function_names, lookup_function
from holdfast.sql.functions import UNITS, Call, NoOverloadError, Overload, choose, render
from holdfast.sql.later import CLAUSES
from holdfast.sql.literals import literal
from holdfast.sql.script import Script, resolve_identifier, start_of
from holdfast.sql.type_rules import arithmetic_type, common_type
from holdfast.sql.typed import Typed, describe
from holdfast.types.schema import BOOLEAN, STRING, Base, Column, SqlType

__all__ = ["Scope", "Translator", "call_name"]

_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
}  # fmt: skip


def call_name(node: exp.Expr) -> str | None:
    """The upper-case name of a function call, else None."""
    if not isinstance(node, exp.Anonymous):
        return None
    name = node.this
    return (name if isinstance(name, str) else str(name.this)).upper()


class Scope(ABC):
    """What names mean where an expression stands."""

    @abstractmethod
    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        """The column, or an error that names the nearest one."""

    @abstractmethod
    def special(self, node: exp.Expr) -> Typed | None:
        """A whole subexpression the scope knows (a grouping expression, an aggregate), or None."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where this is, for messages: "after aggregation" and the like."""

    @abstractmethod
    def function_names(self) -> Sequence[str]:
        """Further function names for "did you mean"."""


class Translator:
    """Expressions of one scope, rendered for one engine."""

    def __init__(self, script: Script, engine: Engine, scope: Scope) -> None:
        self.script = script
        self.engine = engine
        self.scope = scope
        self.comparisons = Comparisons(self)
        self._handlers: dict[type[exp.Expr], Callable[..., Typed]] = {
            exp.Paren: lambda node: self.translate(node.this),
            exp.Column: self._column,
            exp.Dot: self._field,
            exp.Bracket: self._subscript,
            exp.Neg: self._negative,
            exp.DPipe: self._joined,
            exp.Case: self._case,
            exp.Cast: self._cast,
            exp.Anonymous: self._function,
            exp.Array: self._array,
            exp.Lambda: self._lambda,
            exp.Not: self._not,
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
            **dict.fromkeys((exp.And, exp.Or), self._logical),
            **dict.fromkeys((exp.Literal, exp.Boolean, exp.Null), self._literal),
            **self.comparisons.handlers,
        }

    def translate(self, node: exp.Expr) -> Typed:
        """The expression, typed and rendered.

        Raises:
            InvalidStatement: it names something unknown or mixes types that do not mix.
            Unsupported: the engine or Holdfast cannot do it yet.
        """
        known = self.scope.special(node)
        if known is not None:
            return known
        handler = self._handlers.get(type(node))
        if handler is None:
            raise self.script.unsupported(
                start_of(node),
                f"{node.key.upper()} is not an expression of ksqlDB that Holdfast knows",
            )
        return handler(node)

    def condition(self, node: exp.Expr) -> str:
        """The text of a condition where NULL counts as false."""
        if isinstance(node, exp.Paren):
            return self.condition(node.this)
        if self.scope.special(node) is not None:
            return self.boolean(node).sql
        if isinstance(node, (exp.And, exp.Or)):
            word = "AND" if isinstance(node, exp.And) else "OR"
            return f"({self.condition(node.this)} {word} {self.condition(node.expression)})"
        if type(node) in self.comparisons.handlers:
            return self.comparisons.plain(node).sql
        return self.boolean(node).sql

    def boolean(self, node: exp.Expr) -> Typed:
        """A BOOLEAN expression, or an error."""
        typed = self.translate(node)
        if typed.type not in (BOOLEAN, None):
            raise self.script.invalid(
                start_of(node), f"a condition must be BOOLEAN, but this is {typed.type}"
            )
        return typed if typed.type else self.coerce(typed, BOOLEAN, node)

    def coerce(self, typed: Typed, wanted: SqlType | None, node: exp.Expr) -> Typed:
        """`typed` as `wanted` (None leaves it as it is)."""
        if wanted is None or typed.type == wanted:
            return typed
        text = self.engine.cast(typed, wanted)
        if text is None:
            raise self.script.invalid(start_of(node), explain_cast(typed.type, wanted))
        return Typed(wanted, text, constant=typed.constant)

    def common(self, nodes: Sequence[exp.Expr], what: str) -> tuple[list[Typed], SqlType]:
        """Several expressions converted to their one type."""
        given = [self.translate(n) for n in nodes]
        wanted = common_type(t.type for t in given)
        if wanted is None and any(t.type is not None for t in given):
            types = ", ".join(dict.fromkeys(describe(t.type) for t in given))
            raise self.script.invalid(
                start_of(nodes[0]), f"{what} must be of one type, not {types}", action="use CAST"
            )
        if wanted is None:
            raise self.script.invalid(
                start_of(nodes[0]), f"{what} are all NULL, so they have no type", action="use CAST"
            )
        pairs = zip(given, nodes, strict=True)
        return [self.coerce(t, wanted, n) for t, n in pairs], wanted

    def _literal(self, node: exp.Expr) -> Typed:
        return literal(self.engine, self.script, node)

    def _column(self, node: exp.Column) -> Typed:
        if isinstance(node.this, exp.Star):
            raise self.script.invalid(start_of(node), "a star stands alone in a SELECT")
        if node.args.get("db"):
            raise self.script.invalid(
                start_of(node), "a column is written name or source.name", action="fields use ->"
            )
        table = node.args.get("table")
        qualifier = resolve_identifier(table) if table else None
        return self.scope.column(node, resolve_identifier(node.this), qualifier)

    def _field(self, node: exp.Dot) -> Typed:
        struct = self.translate(node.this)
        field = node.expression
        identifier = field.this if isinstance(field, exp.Column) else field
        name = resolve_identifier(identifier)
        if struct.type is None or struct.type.base is not Base.STRUCT:
            raise self.script.invalid(
                start_of(node.this), f"-> needs a STRUCT, but this is {describe(struct.type)}"
            )
        found = next((f for f in struct.type.fields if f.name == name), None)
        if found is None:
            names = [f.name for f in struct.type.fields]
            raise self.script.unknown(start_of(identifier), "field", name, names)
        return Typed(found.type, self.engine.field(struct.sql, name))

    def _subscript(self, node: exp.Bracket) -> Typed:
        base = self.translate(node.this)
        if len(node.expressions) != 1:
            raise self.script.invalid(start_of(node), "[ ] takes one index or key")
        index = self.translate(node.expressions[0])
        kind = base.type.base if base.type else None
        if base.type is not None and base.type.element is not None:
            if kind is Base.ARRAY and index.type and index.type.base in (Base.INTEGER, Base.BIGINT):
                return Typed(base.type.element, self.engine.element(base.sql, index.sql))
            if kind is Base.MAP and index.type == STRING:
                return Typed(base.type.element, self.engine.map_value(base.sql, index.sql))
        raise self.script.invalid(
            start_of(node),
            f"{describe(base.type)}[{describe(index.type)}] is not possible: an ARRAY takes a "
            "whole number (the first element is 1), a MAP takes a STRING",
        )

    def _negative(self, node: exp.Neg) -> Typed:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return literal(self.engine, self.script, node.this, negative=True)
        value = self.translate(node.this)
        if value.type is None or not value.type.numeric:
            raise self.script.invalid(
                start_of(node), f"- needs a number, but this is {describe(value.type)}"
            )
        return Typed(value.type, f"(- {value.sql})")

    def _arithmetic(self, node: exp.Binary) -> Typed:
        operator = _ARITHMETIC[type(node)]
        left, right = self.translate(node.this), self.translate(node.expression)
        if operator == "+" and STRING in (left.type, right.type):
            return self._concatenation(node, left, right)
        types = (left.type, right.type)
        if any(t is not None and not t.numeric for t in types) or left.type is right.type is None:
            raise self.script.invalid(
                start_of(node),
                f"{describe(left.type)} {operator} {describe(right.type)} is not possible",
                action="arithmetic needs numbers on both sides; use CAST",
            )
        return self._numbers(operator, left, right, node)

    def _numbers(self, operator: str, left: Typed, right: Typed, node: exp.Expr) -> Typed:
        one = left.type or right.type
        assert one is not None
        result = arithmetic_type(operator, left.type or one, right.type or one)
        if result.base is not Base.DECIMAL:
            left, right = (self.coerce(t, result, node) for t in (left, right))
        if operator == "/":
            whole = result.base in (Base.INTEGER, Base.BIGINT)
            text = self.engine.divide(left.sql, right.sql, whole=whole)
            exact = not whole or result.base is not Base.INTEGER
        elif operator == "%":
            text, exact = self.engine.modulo(left.sql, right.sql), True
        else:
            text, exact = f"({left.sql} {operator} {right.sql})", True
        if result.base is Base.DECIMAL or not exact:
            text = f"CAST({text} AS {self.engine.type_name(result)})"
        return Typed(result, text)

    def _joined(self, node: exp.DPipe) -> Typed:
        return self._concatenation(node, self.translate(node.this), self.translate(node.expression))

    def _concatenation(self, node: exp.Expr, left: Typed, right: Typed) -> Typed:
        if any(t.type not in (STRING, None) for t in (left, right)):
            raise self.script.invalid(
                start_of(node),
                f"{describe(left.type)} + {describe(right.type)} is not possible",
                action="text is joined with text; use CAST(... AS STRING)",
            )
        return Typed(STRING, self.engine.concat(left.sql, right.sql))

    def _logical(self, node: exp.Binary) -> Typed:
        word = "AND" if isinstance(node, exp.And) else "OR"
        left, right = self.boolean(node.this), self.boolean(node.expression)
        return Typed(BOOLEAN, f"({left.sql} {word} {right.sql})")

    def _not(self, node: exp.Not) -> Typed:
        if isinstance(node.this, exp.Is):
            return self.comparisons.is_null(node.this, negated=True)
        return Typed(BOOLEAN, f"(NOT {self.boolean(node.this).sql})")

    def _case(self, node: exp.Case) -> Typed:
        branches: list[exp.If] = node.args["ifs"]
        default = node.args.get("default")
        if not branches:
            raise self.script.invalid(start_of(node), "CASE needs at least one WHEN")
        results = [b.args["true"] for b in branches] + ([default] if default is not None else [])
        typed, wanted = self.common(results, "the results of CASE")
        operand = node.args.get("this")
        whens = (
            self.condition(b.this if operand is None else exp.EQ(this=operand, expression=b.this))
            for b in branches
        )
        arms = " ".join(f"WHEN {w} THEN {t.sql}" for w, t in zip(whens, typed, strict=False))
        end = f" ELSE {typed[-1].sql}" if default is not None else ""
        return Typed(wanted, f"CASE {arms}{end} END")

    def _cast(self, node: exp.Cast) -> Typed:
        if SQL_TYPE not in node.meta:
            raise self.script.unsupported(start_of(node), "typed literals are not supported yet",
                                          action="use CAST('...' AS TYPE)")  # fmt: skip
        return self.coerce(self.translate(node.this), node.meta[SQL_TYPE], node)

    def _array(self, node: exp.Array) -> Typed:
        if not node.expressions:
            raise self.script.invalid(start_of(node), "ARRAY[] has no type: give it an element")
        items, element = self.common(node.expressions, "the elements of ARRAY")
        text = self.engine.array([i.sql for i in items])
        return Typed(SqlType(Base.ARRAY, element=element), text)

    def _lambda(self, node: exp.Lambda) -> Typed:
        later = CLAUSES["LAMBDA"]
        raise self.script.unsupported(start_of(node), later.fact, action=later.action)

    def _function(self, node: exp.Anonymous) -> Typed:
        name = call_name(node) or ""
        for argument in node.expressions:
            if isinstance(argument, exp.Lambda):
                self._lambda(argument)
        if name in ("MAP", "STRUCT"):
            return self._constructor(name, node)
        overloads = lookup_function(name)
        if not overloads:
            names = [*function_names(), *self.scope.function_names()]
            error = self.script.unknown(node.meta.get("start", 0), "function", name, names)
            raise error
        return self._call(name, node, overloads)

    def _call(self, name: str, node: exp.Anonymous, overloads: tuple[Overload, ...]) -> Typed:
        at = node.meta.get("start", 0)
        given = [self._argument(a, i, overloads) for i, a in enumerate(node.expressions)]
        types = [t.type for t in given]
        try:
            overload, bound = choose(overloads, types)
        except NoOverloadError as error:
            raise self.script.invalid(at, f"{name} does not take {error}") from None
        args = tuple(
            self.coerce(t, overload.argument_type(i, t.type, bound), node.expressions[i])
            for i, t in enumerate(given)
        )
        result = overload.result_type(bound, types)
        if result is None:
            raise self.script.invalid(at, f"the type of {name} over NULL is not known",
                                      action="use CAST(NULL AS ...)")  # fmt: skip
        text = render(overload, Call(self.engine, args, result))
        if text is None:
            raise self._no_rendering(name, at)
        return Typed(result, text, ref=args[0].ref if name == "AS_VALUE" else None)

    def _argument(self, node: exp.Expr, index: int, overloads: Sequence[Overload]) -> Typed:
        wants_unit = index == 0 and any(o.params and o.params[0].word == "UNIT" for o in overloads)
        if not wants_unit:
            return self.translate(node)
        word = str(node.this.this).upper() if isinstance(node, exp.Column) else ""
        unit = word if word.endswith("S") else f"{word}S"
        if unit not in UNITS:
            raise self.script.unknown(start_of(node), "unit of time", word or "here", UNITS)
        return Typed(None, unit, constant=(unit,))

    def _no_rendering(self, name: str, at: int) -> Exception:
        return self.script.unsupported(
            at,
            f"{name} with these arguments cannot be evaluated {self.scope.place}",
            cause=f"{self.engine.name} has no function that gives what ksqlDB's {name} gives, "
            "or an option that must be a literal is not one that is known",
            action="apply it in an earlier statement (CREATE STREAM ... AS SELECT) or before "
            "the aggregation (in WHERE, GROUP BY or an aggregate's argument)",
        )

    def _constructor(self, name: str, node: exp.Anonymous) -> Typed:
        pairs = [a for a in node.expressions if isinstance(a, exp.PropertyEQ)]
        if len(pairs) != len(node.expressions) or not pairs:
            raise self.script.invalid(
                node.meta.get("start", 0), f"{name} is written {name}(key := value, ...)"
            )
        if name == "MAP":
            keys, key_type = self.common([_map_key(p.this) for p in pairs], "the keys of MAP")
            if key_type != STRING:
                raise self.script.invalid(start_of(pairs[0]), "the keys of a MAP must be STRING")
            values, value_type = self.common([p.expression for p in pairs], "the values of MAP")
            text = self.engine.map([k.sql for k in keys], [v.sql for v in values])
            return Typed(SqlType(Base.MAP, element=value_type), text)
        names = [resolve_identifier(_identifier(p.this)) for p in pairs]
        values = [self.common([p.expression], "the fields of STRUCT")[0][0] for p in pairs]
        fields = tuple(Column(n, v.type) for n, v in zip(names, values, strict=True) if v.type)
        text = self.engine.struct(names, [v.sql for v in values])
        return Typed(SqlType(Base.STRUCT, fields=fields), text)


def _map_key(node: exp.Expr) -> exp.Expr:
    # sqlglot takes a bare name before := for a field's name.
    return exp.Column(this=node) if isinstance(node, exp.Identifier) else node


def _identifier(node: exp.Expr) -> exp.Identifier:
    found = node.this if isinstance(node, exp.Column) else node
    return found if isinstance(found, exp.Identifier) else exp.to_identifier(str(node.name))
