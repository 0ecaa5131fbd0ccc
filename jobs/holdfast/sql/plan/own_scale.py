"""GREATEST and LEAST of DECIMALs: as in ksqlDB, the chosen value keeps its own scale in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from holdfast.sql.expressions.scope import call_name
from holdfast.sql.expressions.translator import Translator
from holdfast.sql.expressions.typed import Typed
from holdfast.types.columns.schema import STRING, Base
from holdfast.types.statements.expressions import Expression, NamedExpression
from holdfast.types.statements.topology import Format, Sink

__all__ = ["in_json", "with_digits"]


def with_digits(translator: Translator, node: exp.Expr, made: Expression) -> Expression:
    """The expression of a node; with `digits` where the node is a choice among several scales."""
    while isinstance(node, exp.Paren):
        node = node.this
    if call_name(node) not in ("GREATEST", "LEAST") or made.type.base is not Base.DECIMAL:
        return made
    types = [translator.translate(each).type for each in node.expressions]
    if all(t is None or (t.base, t.scale) == (Base.DECIMAL, made.type.scale) for t in types):
        return made
    chosen = translator.made(lambda each: Typed(STRING, _digits(each, node)))
    return made if chosen is None else replace(made, digits=chosen.sql)


def _digits(translator: Translator, node: exp.Expr) -> str:
    """Those of the first argument with the chosen value; Java keeps the first of equal ones."""
    chosen = translator.translate(node).sql
    arguments = [translator.translate(each) for each in node.expressions]
    cases = (
        f"WHEN {each.sql} = {chosen} THEN CAST({each.sql} AS VARCHAR)"
        for each in arguments
        if each.type is not None
    )
    return f"CASE {' '.join(cases)} END"


def in_json(outputs: Sequence[NamedExpression], sink: Sink) -> tuple[NamedExpression, ...]:
    """The outputs as the sink writes them: in JSON, digits as they are."""
    if sink.value_format is not Format.JSON:
        return tuple(outputs)
    return tuple(map(_written, outputs))


def _written(output: NamedExpression) -> NamedExpression:
    made = output.expression
    if not made.digits:
        return output
    return NamedExpression(output.name, replace(made.mapped(lambda _: made.digits), type=STRING))
