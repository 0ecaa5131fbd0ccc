"""Expressions → typed text for DuckDB, and as the first release rendered it.

The translator walks sqlglot's tree, types every node by ksqlDB's rules and renders it through an
`Engine`.  What names mean is the `Scope`'s business: source columns before the shuffle, keys and
aggregates after it.  DuckDB evaluates every text.  The text of the first release, which evaluated
source columns in Spark SQL, is part of a query's fingerprint; so rendering is deterministic.

Comparisons with NULL are false in ksqlDB, not NULL.  Where only truth counts (WHERE, HAVING,
CASE WHEN: `condition`) that makes no difference and the plain operator is used; elsewhere, under
NOT for example, it is wrapped in `coalesce(..., false)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from holdfast.errors import InvalidStatement, Unsupported
from holdfast.sql.expressions.arithmetic import Arithmetic
from holdfast.sql.expressions.calls import Calls
from holdfast.sql.expressions.casts import cast_sql, explain_cast
from holdfast.sql.expressions.coercions import Coercions
from holdfast.sql.expressions.comparisons import Comparisons
from holdfast.sql.expressions.constructors import CONSTRUCTORS, Constructors
from holdfast.sql.expressions.engines import DUCKDB, Engine
from holdfast.sql.expressions.literals import literal
from holdfast.sql.expressions.notes import Notes
from holdfast.sql.expressions.scope import Scope, call_name
from holdfast.sql.expressions.type_rules import converts_to
from holdfast.sql.expressions.typed import Typed, describe
from holdfast.sql.parse.dialect import SQL_TYPE
from holdfast.sql.parse.script import Script, resolve_identifier, start_of
from holdfast.types.columns.schema import BIGINT, BOOLEAN, INTEGER, Base, SqlType
from holdfast.types.statements.expressions import Expression

__all__ = ["Scope", "Translator", "call_name"]


class Translator:
    """Expressions of one scope.

    `expression`, `coerced` and `condition` make what a plan holds; `translate` makes parts of it.

    Args:
        notes: is told what the text reads and calls.
        engine: the dialect of the text.
        released: renders as first released; see `sql.released`.
    """

    def __init__(
        self,
        script: Script,
        scope: Scope,
        notes: Notes | None = None,
        *,
        engine: Engine = DUCKDB,
        released: bool = False,
    ) -> None:
        self.script = script
        self.engine = engine
        self.scope = scope
        self.notes = notes or Notes()
        self.released = released
        self.comparisons = Comparisons(self)
        self.calls = Calls(self)
        self.coercions = Coercions(self)
        self.constructors = Constructors(self)
        self._handlers: dict[type[exp.Expr], Callable[..., Typed]] = {
            exp.Paren: lambda node: self.translate(node.this),
            exp.Column: self._column,
            exp.Dot: self._field,
            exp.Bracket: self._subscript,
            exp.Case: self._case,
            exp.Cast: self._cast,
            exp.Anonymous: self._function,
            exp.Array: self.constructors.array,
            exp.Lambda: self.calls.lambda_alone,
            exp.Not: self._not,
            **Arithmetic(self).handlers,
            **dict.fromkeys((exp.And, exp.Or), self._logical),
            **dict.fromkeys((exp.Literal, exp.Boolean, exp.Null), self._literal),
            **self.comparisons.handlers,
        }

    def inside(self, engine: Engine, scope: Scope) -> Translator:
        """A translator of a part of the same expression."""
        return Translator(self.script, scope, self.notes, engine=engine, released=self.released)

    def expression(self, node: exp.Expr) -> Expression | None:
        """The expression for a plan; None: it is NULL and has no type.

        Raises:
            InvalidStatement, Unsupported: see `translate`.
        """
        return self.made(lambda translator: translator.translate(node))

    def coerced(self, node: exp.Expr, wanted: SqlType) -> Expression:
        """The expression as a value of a type.

        Raises:
            InvalidStatement: it does not convert; and see `translate`.
            Unsupported: see `translate`.
        """
        found = self.made(lambda each: each.coerce(each.translate(node), wanted, node))
        assert found is not None
        return found

    def condition(self, node: exp.Expr) -> Expression:
        """The condition, where NULL counts as false.

        Raises:
            InvalidStatement, Unsupported: see `translate`.
        """
        found = self.made(lambda each: Typed(BOOLEAN, each.truth(node)))
        assert found is not None
        return found

    def made(self, render: Callable[[Translator], Typed]) -> Expression | None:
        """The expression that `render` makes, with the columns and functions that were noted."""
        notes = Notes()
        typed = render(Translator(self.script, self.scope, notes))
        if typed.type is None:
            return None
        moved = self.scope.first_engine is not DUCKDB
        return Expression(
            typed.sql,
            typed.type,
            columns=tuple(notes.columns),
            ref=typed.ref,
            functions=tuple(notes.functions),
            deterministic=notes.deterministic,
            released=self._released(render, typed.sql) if notes.changed or moved else "",
        )

    def _released(self, render: Callable[[Translator], Typed], now: str) -> str:
        engine = self.scope.first_engine
        scope = self.scope.in_engine(engine)
        try:
            before = render(Translator(self.script, scope, engine=engine, released=True)).sql
        except (InvalidStatement, Unsupported):
            return ""  # it was refused then
        return "" if before == now else before

    def was_unsupported(self, node: exp.Expr) -> bool:
        """Whether the first release could not evaluate the expression here."""
        engine = self.scope.first_engine
        scope = self.scope.in_engine(engine)
        try:
            Translator(self.script, scope, engine=engine, released=True).translate(node)
        except Unsupported:
            return True
        return False

    def translate(self, node: exp.Expr) -> Typed:
        """The expression, typed and rendered.

        Raises:
            InvalidStatement: it names something unknown or mixes types that do not mix.
            Unsupported: the engine or Holdfast cannot do it yet.
        """
        known = self.scope.special(node)
        if known is not None:
            return self.notes.named(known)
        handler = self._handlers.get(type(node))
        if handler is None:
            raise self.script.unsupported(
                start_of(node),
                f"{node.key.upper()} is not an expression of ksqlDB that Holdfast knows",
            )
        return handler(node)

    def truth(self, node: exp.Expr) -> str:
        """The text of a condition where NULL counts as false."""
        if isinstance(node, exp.Paren):
            return self.truth(node.this)
        if self.scope.special(node) is not None:
            return self.boolean(node).sql
        if isinstance(node, (exp.And, exp.Or)):
            left, right = self.truth(node.this), self.truth(node.expression)
            if isinstance(node, exp.And):
                return f"({left} AND {right})"
            return f"({left} OR {self._if_left_is_known(node, left, right)})"
        if type(node) in self.comparisons.handlers:
            return self.comparisons.plain(node).sql
        return self.boolean(node).sql

    def boolean(self, node: exp.Expr) -> Typed:
        """A BOOLEAN expression, or an error."""
        typed = self.translate(node)
        if typed.type not in (BOOLEAN, None):
            raise self.script.invalid(
                start_of(node),
                f"a condition should evaluate to boolean but is {self.script.excerpt(node)} "
                f"({describe(typed.type)}) instead",
            )
        return typed if typed.type else self.coerce(typed, BOOLEAN, node)

    def coerce(self, typed: Typed, wanted: SqlType | None, node: exp.Expr) -> Typed:
        """`typed` as `wanted` (None leaves it as it is)."""
        if wanted is None or typed.type == wanted:
            return typed
        text = cast_sql(self.engine, typed, wanted, self.notes, released=self.released)
        if text is None:
            raise self.script.invalid(start_of(node), explain_cast(typed.type, wanted))
        return Typed(wanted, text, constant=typed.constant)

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
        return self.notes.named(self.scope.column(node, resolve_identifier(node.this), qualifier))

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
        return Typed(found.type, self.engine.field(struct.sql, struct.type, name))

    def _subscript(self, node: exp.Bracket) -> Typed:
        base = self.translate(node.this)
        index = self.translate(node.expressions[0])
        if base.type is not None and base.type.element is not None:
            element, key = base.type.element, base.type.map_key
            if base.type.base is Base.MAP and converts_to(index.type, key):
                index = self.coerce(index, key, node.expressions[0])
                return Typed(element, self.engine.map_value(base.sql, index.sql))
            if base.type.base is Base.ARRAY and index.type in (INTEGER, BIGINT):
                return Typed(element, self.engine.element(base.sql, index.sql))
        raise self.script.invalid(
            start_of(node),
            f"Subscript expression ({self.script.excerpt(node)}) do not apply to "
            f"{describe(base.type)}, by a {describe(index.type)}",
            action="an ARRAY takes a whole number (the first element is 1), a MAP a key; "
            "the fields of a STRUCT follow ->",
        )

    def _logical(self, node: exp.Binary) -> Typed:
        word = "AND" if isinstance(node, exp.And) else "OR"
        left, right = self.boolean(node.this).sql, self.boolean(node.expression).sql
        right = self._if_left_is_known(node, left, right)
        return Typed(BOOLEAN, self.scope.logical(word, left, right))

    def _if_left_is_known(self, node: exp.Binary, left: str, right: str) -> str:
        """The right side; where the left one is NULL, so is the whole, whatever the right is."""
        if self._never_null(node.this):
            return right
        if isinstance(node, exp.And):
            return f"({left} IS NULL OR {right})"
        return f"({left} IS NOT NULL AND {right})"

    def _never_null(self, node: exp.Expr) -> bool:
        if isinstance(node, (exp.And, exp.Or)):
            return self._never_null(node.this) and self._never_null(node.expression)
        if isinstance(node, (exp.Not, exp.Paren)):
            return self._never_null(node.this)
        return isinstance(node, exp.Boolean) or type(node) in self.comparisons.handlers

    def _not(self, node: exp.Not) -> Typed:
        if isinstance(node.this, exp.Is):
            return self.comparisons.is_null(node.this, negated=True)
        return Typed(BOOLEAN, f"(NOT {self.boolean(node.this).sql})")

    def _case(self, node: exp.Case) -> Typed:
        branches: list[exp.If] = node.args["ifs"]
        default = node.args.get("default")
        results = [b.args["true"] for b in branches] + ([default] if default is not None else [])
        typed = [self.translate(r) for r in results]
        wanted = self._case_type(results, typed)
        typed = [self.coerce(t, wanted, r) for t, r in zip(typed, results, strict=True)]
        operand = node.args.get("this")
        whens = (
            self.truth(b.this if operand is None else exp.EQ(this=operand, expression=b.this))
            for b in branches
        )
        arms = " ".join(f"WHEN {w} THEN {t.sql}" for w, t in zip(whens, typed, strict=False))
        end = f" ELSE {typed[-1].sql}" if default is not None else ""
        return Typed(wanted, f"CASE {arms}{end} END")

    def _case_type(self, nodes: Sequence[exp.Expr], typed: Sequence[Typed]) -> SqlType:
        """The type of all results, which do not convert to each other."""
        found = [(n, t.type) for n, t in zip(nodes, typed, strict=True) if t.type is not None]
        if not found:
            raise self.script.invalid(
                start_of(nodes[0]),
                "Invalid Case expression. All case branches have NULL type",
                action="use CAST(NULL AS ...)",
            )
        wanted = found[0][1]
        for node, given in found[1:]:
            if given != wanted:
                raise self.script.invalid(
                    start_of(node),
                    "Invalid Case expression. The type of all THEN clauses, and of the default "
                    f"clause, should be the same: {self.script.excerpt(node)} is "
                    f"{describe(given)}, those before it are {describe(wanted)}",
                    action="use CAST",
                )
        return wanted

    def _cast(self, node: exp.Cast) -> Typed:
        if SQL_TYPE not in node.meta:
            raise self.script.unsupported(start_of(node), "typed literals are not supported yet",
                                          action="use CAST('...' AS TYPE)")  # fmt: skip
        return self.coerce(self.translate(node.this), node.meta[SQL_TYPE], node)

    def _function(self, node: exp.Anonymous) -> Typed:
        name = call_name(node) or ""
        return (
            self.constructors.pairs(name, node) if name in CONSTRUCTORS else self.calls.call(node)
        )
