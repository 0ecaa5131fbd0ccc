"""ON …: which expression of a join condition belongs to which side."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from holdfast.sql.expressions.formatted import formatted
from holdfast.sql.expressions.names import relation_translator
from holdfast.sql.parse.script import resolve_identifier, start_of
from holdfast.sql.parse.statements import JoinClause
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.relation import Field, Relation
from holdfast.types.statements.topology import Source, WindowKind

__all__ = ["Condition", "check_windows", "condition_of", "field_of"]


@dataclass(frozen=True)
class Condition:
    """A join condition, turned so that `right` is over the source that joins.

    `left_owner` is the source that `left` is over; the texts are how messages show the sides,
    `text` all of it.
    """

    left: exp.Expr
    right: exp.Expr
    left_owner: str
    left_text: str
    right_text: str
    flipped: bool

    @property
    def text(self) -> str:
        sides = (self.left_text, self.right_text)
        return " = ".join(reversed(sides) if self.flipped else sides)


def condition_of(
    context: Context, clause: JoinClause, right: Relation, everything: Relation
) -> Condition:
    """The condition between what is joined so far and a new source.

    Raises:
        InvalidStatement: it is not one equality of two expressions over one source each.
    """
    on = clause.on
    while isinstance(on, exp.Paren):
        on = on.this
    _check_form(context, on, everything)
    assert isinstance(on, exp.EQ)
    first = _owner(context, on.this, on, everything)
    second = _owner(context, on.expression, on, everything)
    at = start_of(on)
    if first == second:
        raise context.script.invalid(
            at,
            "Each side of the join must reference exactly one source and not the same source. "
            f"Left side references `{first}` and right references `{second}`",
        )
    new = right.owners[0]
    if new not in (first, second):
        raise context.script.invalid(
            at,
            f"A join criteria is expected to reference the source (`{new}`) in the FROM clause, "
            f"instead the right source references `{second}` and the left source references "
            f"`{first}`",
        )
    flipped = second != new
    sides = (on.expression, on.this) if flipped else (on.this, on.expression)
    left, right_text = (formatted(context.script, side, everything) for side in sides)
    return Condition(*sides, second if flipped else first, left, right_text, flipped)


def _check_form(context: Context, on: exp.Expr, everything: Relation) -> None:
    if isinstance(on, exp.EQ):
        return
    sides = (on.this, on.expression) if isinstance(on, exp.And) else ()
    inner = [s.this if isinstance(s, exp.Paren) else s for s in sides]
    if inner and all(isinstance(s, exp.EQ) for s in inner):
        raise context.script.invalid(
            start_of(on),
            "Invalid join condition: joins on multiple conditions are not yet supported. "
            f"Got {formatted(context.script, on, everything)}.",
            action="join on one expression, for example a STRUCT or a concatenation of both",
        )
    raise context.script.invalid(
        start_of(on),
        f"Only equality join criteria is supported, not {context.script.excerpt(on)}",
    )


def _owner(context: Context, node: exp.Expr, on: exp.Expr, everything: Relation) -> str:
    """The one source that an expression names columns of."""
    scope = relation_translator(context.script, everything, context.functions, "JOIN ON")
    owners: dict[str, None] = {}
    for column in node.find_all(exp.Column):
        if isinstance(column.this, exp.Identifier):
            scope.translate(column)
            found = field_of(everything, column)
            if found is not None:
                owners[found.owner] = None
    if len(owners) != 1:
        raise context.script.invalid(
            start_of(on),
            f"Invalid comparison expression '{formatted(context.script, node, everything)}' in "
            f"join '{formatted(context.script, on, everything)}'. Each side of the join "
            "comparision must contain references from exactly one source.",
        )
    return next(iter(owners))


def field_of(relation: Relation, node: exp.Expr) -> Field | None:
    """The column that an expression is nothing more than, if it is one."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        return None
    table = node.args.get("table")
    qualifier = resolve_identifier(table) if table else None
    found = relation.find(resolve_identifier(node.this), qualifier)
    return found[0] if len(found) == 1 else None


def check_windows(context: Context, clause: JoinClause, left: Source, right: Source) -> None:
    """Refuse windowed keys that cannot meet.

    Raises:
        InvalidStatement: one is windowed and the other is not, or their windows differ.
    """
    if left.window is right.window is None:
        return
    script, at = context.script, clause.at
    if left.window is None or right.window is None:
        raise script.invalid(
            at,
            "Can not join windowed source to non-windowed source.\n"
            f"`{left.name}` is {left.window or 'not'} windowed\n"
            f"`{right.name}` is {right.window or 'not'} windowed",
        )
    if (left.window is WindowKind.SESSION) != (right.window is WindowKind.SESSION):
        raise script.invalid(
            at,
            f"Incompatible windowed sources.\nLeft source: {left.window}\n"
            f"Right source: {right.window}\nSession windowed sources can only be joined to other "
            "session windowed sources, and may still not result in expected behaviour as session "
            "bounds must be an exact match for the join to work\nHopping and tumbling windowed "
            "sources can only be joined to other hopping and tumbling windowed sources",
        )
    same = (left.window, left.window_size_ms) == (right.window, right.window_size_ms)
    if not same and not _by_starts(context, left, right):
        raise script.invalid(
            at,
            "Implicit repartitioning of windowed sources is not supported.",
            cause=f"the windows differ: {left.window} of {left.window_size_ms} ms, "
            f"{right.window} of {right.window_size_ms} ms",
        )


def _by_starts(context: Context, left: Source, right: Source) -> bool:
    """Whether ksqlDB joins unlike windows that start together.

    It writes the keys of two streams again in the left one's format, if a registry has its schema;
    of a window such a key has the start only.
    """
    streams = left.kind == right.kind == "STREAM"
    return context.as_ksqldb and streams and left.key_format.schema_kind is not None
