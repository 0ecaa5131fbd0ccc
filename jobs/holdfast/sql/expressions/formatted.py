"""Expressions as messages show them: columns with their source, operators in parentheses."""

from __future__ import annotations

from sqlglot import exp

from holdfast.sql.expressions.translator import call_name
from holdfast.sql.parse.dialect import SQL_TYPE
from holdfast.sql.parse.script import Script, resolve_identifier
from holdfast.sql.plan.relation import Relation

__all__ = ["formatted"]

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.EQ: "=",
    exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.And: "AND",
    exp.Or: "OR",
}  # fmt: skip


def formatted(script: Script, node: exp.Expr, relation: Relation, *, qualified: bool = True) -> str:
    """The expression over a relation's columns, as ksqlDB writes it."""

    def text(inner: exp.Expr) -> str:
        return formatted(script, inner, relation, qualified=qualified)

    while isinstance(node, exp.Paren):
        node = node.this
    if type(node) in _OPERATORS and isinstance(node, exp.Binary):
        return f"({text(node.this)} {_OPERATORS[type(node)]} {text(node.expression)})"
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return _column(node, relation) if qualified else resolve_identifier(node.this)
    if isinstance(node, exp.Anonymous):
        if call_name(node) == "COUNT" and not _arguments(node):
            return "COUNT(ROWTIME)"
        return f"{call_name(node)}({', '.join(text(a) for a in node.expressions)})"
    if isinstance(node, exp.Cast) and SQL_TYPE in node.meta:
        return f"CAST({text(node.this)} AS {node.meta[SQL_TYPE]})"
    return "null" if isinstance(node, exp.Null) else script.excerpt(node)


def _arguments(node: exp.Anonymous) -> list[exp.Expr]:
    return [a for a in node.expressions if not isinstance(a, exp.Star)]


def _column(node: exp.Column, relation: Relation) -> str:
    name, table = resolve_identifier(node.this), node.args.get("table")
    if table is not None:
        return f"{resolve_identifier(table)}.{name}"
    found = relation.find(name, None)
    return f"{found[0].owner}.{name}" if found and found[0].owner else name
