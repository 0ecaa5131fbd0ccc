"""Which joins there are: what ksqlDB joins with what, and on which keys."""

from __future__ import annotations

from sqlglot import exp

from holdfast.sql.context import Context
from holdfast.sql.join_condition import Condition, field_of
from holdfast.sql.relation import Relation
from holdfast.sql.statements import JoinClause
from holdfast.sql.typed import Typed
from holdfast.types.topology import JoinForm, JoinKind, Source

__all__ = ["form_of"]

_WORDS = {
    JoinKind.INNER: "[INNER] JOIN",
    JoinKind.LEFT: "LEFT [OUTER] JOIN",
    JoinKind.RIGHT: "RIGHT [OUTER] JOIN",
    JoinKind.FULL: "[FULL] OUTER JOIN",
}


def form_of(
    context: Context,
    clause: JoinClause,
    condition: Condition,
    left: tuple[Relation, Source, Typed],
    right: tuple[Relation, Source, Typed],
) -> JoinForm:
    """What kind of join this is.

    Args:
        context: the statement's surroundings.
        clause: the join, for its kind and WITHIN.
        condition: the sides of ON.
        left: what is joined so far, the source that the condition names of it, its expression.
        right: the new source, as often as that.

    Raises:
        InvalidStatement: ksqlDB has no such join.
    """
    kinds = (left[0].source.kind, right[0].source.kind)
    if kinds == ("TABLE", "STREAM"):
        raise _invalid(
            context, clause,
            "Invalid join order: table-stream joins are not supported; only stream-table joins. "
            f"Got {_between(clause, left[1], right[1])}.",
        )  # fmt: skip
    _check_within(context, clause, kinds)
    _check_windowed_key(context, clause, condition, left, right)
    if kinds == ("STREAM", "STREAM"):
        return JoinForm.STREAM_STREAM
    if kinds == ("STREAM", "TABLE"):
        _check_stream_table(context, clause, condition, left, right)
        return JoinForm.STREAM_TABLE
    return _tables(context, clause, condition, left, right)


def _invalid(context: Context, clause: JoinClause, fact: str, action: str = "") -> Exception:
    return context.script.invalid(clause.at, fact, action=action)


def _between(clause: JoinClause, left: Source, right: Source) -> str:
    return f"{left.name} {_WORDS[clause.kind]} {right.name}"


def _check_within(context: Context, clause: JoinClause, kinds: tuple[str, str]) -> None:
    if kinds == ("STREAM", "STREAM"):
        if clause.within is None:
            raise _invalid(
                context, clause,
                "Stream-Stream joins must have a WITHIN clause specified. None was provided.",
                "write JOIN ... WITHIN 1 HOUR ON ..., for example",
            )  # fmt: skip
        return
    if clause.within is not None:
        form = "-".join(k.capitalize() for k in kinds)
        raise _invalid(
            context, clause,
            f"A window definition was provided for a {form} join. These joins are not windowed. "
            "Please drop the window definition (ie. the WITHIN clause).",
        )  # fmt: skip


def _check_windowed_key(
    context: Context,
    clause: JoinClause,
    condition: Condition,
    left: tuple[Relation, Source, Typed],
    right: tuple[Relation, Source, Typed],
) -> None:
    for side, node in ((left, condition.left), (right, condition.right)):
        relation, source, _ = side
        if source.window is not None and not _is_key(relation, source, node):
            raise _invalid(
                context, clause,
                "Implicit repartitioning of windowed sources is not supported. See "
                "https://github.com/confluentinc/ksql/issues/4385.",
                f"{source.name} is {source.window} windowed: join it on its key",
            )  # fmt: skip


def _is_key(relation: Relation, source: Source, node: exp.Expr) -> bool:
    """Whether an expression is the one key column of the source it is over."""
    field = field_of(relation, node)
    names = [c.name for c in source.key_columns]
    return field is not None and names == [field.name]


def _check_stream_table(
    context: Context,
    clause: JoinClause,
    condition: Condition,
    left: tuple[Relation, Source, Typed],
    right: tuple[Relation, Source, Typed],
) -> None:
    if clause.kind in (JoinKind.FULL, JoinKind.RIGHT):
        name = "full-outer" if clause.kind is JoinKind.FULL else "right-outer"
        raise _invalid(
            context, clause,
            f"Invalid join type: {name} join not supported for stream-table join. "
            f"Got {_between(clause, left[1], right[1])}.",
        )  # fmt: skip
    if not _is_key(right[0], right[1], condition.right):
        raise _invalid(
            context, clause,
            "Invalid join condition: stream-table joins require to join on the table's primary "
            f"key. Got {condition.text}.",
        )  # fmt: skip


def _tables(
    context: Context,
    clause: JoinClause,
    condition: Condition,
    left: tuple[Relation, Source, Typed],
    right: tuple[Relation, Source, Typed],
) -> JoinForm:
    if not _is_key(right[0], right[1], condition.right):
        raise _invalid(
            context, clause,
            "Invalid join condition: table-table joins require to join on the primary key of the "
            f"right input table. Got {condition.text}.",
        )  # fmt: skip
    foreign = not _is_key(left[0], left[1], condition.left)
    if foreign:
        _check_foreign(context, clause, condition, left, right)
    if left[2].type != right[2].type:
        sides = [
            f"{condition.left_text}{{{left[2].type}}}",
            f"{condition.right_text}{{{right[2].type}}}",
        ]
        got = " = ".join(reversed(sides) if condition.flipped else sides)
        raise _invalid(
            context, clause, f"Invalid join condition: types don't match. Got {got}.",
            "use CAST in the statement that makes one of the tables",
        )  # fmt: skip
    return JoinForm.FOREIGN_KEY if foreign else JoinForm.TABLE_TABLE


def _check_foreign(
    context: Context,
    clause: JoinClause,
    condition: Condition,
    left: tuple[Relation, Source, Typed],
    right: tuple[Relation, Source, Typed],
) -> None:
    if clause.kind is JoinKind.FULL:
        raise _invalid(
            context, clause,
            "Invalid join type: full-outer join not supported for foreign-key table-table join. "
            f"Got {_between(clause, left[1], right[1])}.",
        )  # fmt: skip
    if len(left[0].owners) > 1:
        raise _invalid(
            context, clause,
            "Invalid join condition: foreign-key table-table joins are not supported as part of "
            f"n-way joins. Got {condition.text}.",
        )  # fmt: skip
    if clause.kind is JoinKind.RIGHT:
        raise _invalid(context, clause, "RIGHT OUTER JOIN on a foreign key is not supported")
