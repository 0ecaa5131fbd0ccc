"""Table functions in a SELECT: each makes rows out of an array, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from holdfast.sql.expressions.names import relation_translator
from holdfast.sql.expressions.translator import Translator, call_name
from holdfast.sql.functions.table_functions import is_table_function, table_array
from holdfast.sql.parse.statements import Select
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.projection import Item, reference
from holdfast.sql.plan.relation import Field, FieldKind, Relation, read_column
from holdfast.types.columns.schema import Column
from holdfast.types.statements.topology import NamedExpression

__all__ = ["Exploded", "explode", "has_table_functions", "refuse_table_functions"]

_COLUMN = "KSQL_SYNTH_"


@dataclass(frozen=True)
class Exploded:
    """A relation with a column more for each table function, and the arrays they come from."""

    relation: Relation
    arrays: tuple[NamedExpression, ...]
    calls: tuple[tuple[exp.Anonymous, Field], ...]

    def translator(self, context: Context) -> Translator:
        """Over the relation with the new columns."""
        return relation_translator(context.script, self.relation, context.functions, "SELECT")

    def rewritten(self, items: Sequence[Item]) -> list[Item]:
        """The items with a column in place of every table function."""
        return [replace(i, expression=self._rewritten(i.expression)) for i in items]

    def _rewritten(self, node: exp.Expr) -> exp.Expr:
        def column(inner: exp.Expr) -> exp.Expr:
            found = next((f for call, f in self.calls if call == inner), None)
            return reference(found, inner.meta.get("start", 0)) if found else inner

        return node.transform(column) if self.calls else node


def explode(context: Context, select: Select, relation: Relation) -> Exploded:
    """The table functions of a SELECT list.

    Raises:
        InvalidStatement: one is nested in another or in CASE, or its argument is no array.
    """
    before = relation_translator(context.script, relation, context.functions, "SELECT")
    calls: list[tuple[exp.Anonymous, Field]] = []
    arrays: list[NamedExpression] = []
    for item in select.items:
        for call in _calls(item.expression) if item.expression is not None else []:
            _check(context, call)
            array = table_array(before, call)
            assert array.type.element is not None
            column = Column(f"{_COLUMN}{len(arrays)}", array.type.element)
            arrays.append(NamedExpression(column.name, array))
            field = Field("", column.name, column, FieldKind.PSEUDO, read_column(column))
            calls.append((call, field))
    fields = (*relation.fields, *(f for _, f in calls))
    return Exploded(replace(relation, fields=fields), tuple(arrays), tuple(calls))


def has_table_functions(select: Select) -> bool:
    """Whether a SELECT list calls one."""
    return any(i.expression is not None and _calls(i.expression) for i in select.items)


def refuse_table_functions(context: Context, select: Select) -> None:
    """Refuse them beside aggregates."""
    for item in select.items:
        for call in _calls(item.expression) if item.expression is not None else []:
            raise context.script.invalid(
                call.meta.get("start", 0), "Table functions cannot be used with aggregations.",
                action="explode in a statement before this one",
            )  # fmt: skip


def _calls(node: exp.Expr) -> list[exp.Anonymous]:
    return [n for n in node.walk() if isinstance(n, exp.Anonymous) and _is_table(n)]


def _is_table(node: exp.Expr) -> bool:
    return is_table_function(call_name(node) or "")


def _check(context: Context, call: exp.Anonymous) -> None:
    name, at = call_name(call), call.meta.get("start", 0)
    inner = [c for a in call.expressions for c in _calls(a)]
    if inner:
        raise context.script.invalid(
            at, f"Table functions cannot be nested: {name}({call_name(inner[0])}())"
        )
    if call.find_ancestor(exp.Case) is not None:
        raise context.script.invalid(at, f"Table functions cannot be used in CASE: {name}")
