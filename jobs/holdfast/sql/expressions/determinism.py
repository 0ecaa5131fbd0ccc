"""Refuses what would be another value when its record is read again, where that decides a result.

After a crash the records of a batch that only some state partitions have committed are read and
evaluated once more, for the others.  Where the value of an expression puts a record into a state
partition, another value means a record that counts twice or not at all.  Where a table's last
result is evaluated again to see whether its row was there, another value leaves a row behind.
"""

from __future__ import annotations

from sqlglot import exp

from holdfast.sql.expressions.scope import call_name
from holdfast.sql.functions.catalog import lookup_function
from holdfast.sql.parse.script import Script, start_of
from holdfast.tasks.functions.user import user_functions
from holdfast.types.statements.expressions import Expression

__all__ = ["check_determined"]

_KEY = "a record that is read again after a crash would get another key, and count twice or never"
_ROW = "a row that was there could not be told from one that was not"


def check_determined(
    script: Script, made: Expression, node: exp.Expr, clause: str, *, key: bool = True
) -> None:
    """Refuse an expression that may have another value each time it is evaluated.

    Args:
        made: the expression.
        node: what the user wrote, for the message.
        clause: where it stands, for the message.
        key: the expression makes a key; else it decides whether a table has a row.

    Raises:
        InvalidStatement: it may, or it calls a user's function that is not declared otherwise.
    """
    if made.deterministic:
        return
    call = next(n for n in node.walk() if _may_change(n))
    name = call_name(call) or ""
    shown = script.excerpt(call)
    declare = f"; or declare it: @function({name!r}, …, deterministic=True)"
    raise script.invalid(
        call.meta.get("start", start_of(node)),
        f"{shown} in {clause} may be another value each time it is evaluated",
        cause=_KEY if key else _ROW,
        action=f"write the value down first, CREATE STREAM … AS SELECT …, {shown} AS X FROM …, "
        f"and use the column X{declare if name in user_functions() else ''}",
    )


def _may_change(node: exp.Expr) -> bool:
    name = call_name(node)
    if name is None:
        return False
    given = len(node.expressions)
    return any(o.accepts(given) and not o.deterministic for o in lookup_function(name))
