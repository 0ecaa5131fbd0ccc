"""Which joins there are: what ksqlDB joins with what, and on which keys."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from holdfast.sql.parse.statements import JoinClause
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.joins.condition import Condition, field_of
from holdfast.sql.plan.relation import Relation
from holdfast.types.statements.differences import DIFFERENCES, not_copartitioned
from holdfast.types.statements.topology import Expression, JoinForm, JoinKind, Source

__all__ = ["Joining", "check_partitions", "form_of"]

_WORDS = {
    JoinKind.INNER: "[INNER] JOIN",
    JoinKind.LEFT: "LEFT [OUTER] JOIN",
    JoinKind.RIGHT: "RIGHT [OUTER] JOIN",
    JoinKind.FULL: "[FULL] OUTER JOIN",
}


@dataclass(frozen=True)
class Joining:
    """One side of a join: what it is part of, the source that ON names of it, its expression."""

    relation: Relation
    source: Source
    key: Expression

    def on_key(self, node: exp.Expr) -> bool:
        """Whether an expression is the one key column of the source."""
        field = field_of(self.relation, node)
        return field is not None and [c.name for c in self.source.key_columns] == [field.name]


def form_of(
    context: Context, clause: JoinClause, condition: Condition, left: Joining, right: Joining
) -> JoinForm:
    """The form of a join.

    Args:
        context: the statement's surroundings.
        clause: the join, for its kind and WITHIN.
        condition: the sides of ON.
        left: what is joined so far.
        right: the new source.

    Raises:
        InvalidStatement: ksqlDB has no such join.
    """
    return _Rules(context, clause, condition, left, right).form()


def check_partitions(
    context: Context, clause: JoinClause, first: Relation, right: Relation
) -> None:
    """Refuse a join by keys that ksqlDB does not repartition, as far as statements tell.

    A start compares the topics themselves.

    Args:
        context: the statement's surroundings.
        clause: the join.
        first: the first source of the statement, with whose topic all others have to agree.
        right: the new source.

    Raises:
        InvalidStatement: PARTITIONS of both are given, and differ.
    """
    counts = (first.source.partitions, right.source.partitions)
    if not context.as_ksqldb or counts[0] is None or counts[1] is None or counts[0] == counts[1]:
        return
    raise context.script.invalid(
        clause.at,
        not_copartitioned((first.owners[0], counts[0]), (right.owners[0], counts[1])),
        cause=f"{DIFFERENCES} is 'none'",
        action=f"SET '{DIFFERENCES}'='kept' joins them as they are",
    )


@dataclass(frozen=True)
class _Rules:
    context: Context
    clause: JoinClause
    condition: Condition
    left: Joining
    right: Joining

    def form(self) -> JoinForm:
        kinds = (self.left.relation.source.kind, self.right.relation.source.kind)
        if kinds == ("TABLE", "STREAM"):
            raise self._invalid(
                "Invalid join order: table-stream joins are not supported; only stream-table "
                f"joins. Got {self._between()}."
            )
        self._check_within(kinds)
        self._check_windowed_key()
        if kinds == ("STREAM", "STREAM"):
            return JoinForm.STREAM_STREAM
        if kinds == ("STREAM", "TABLE"):
            self._check_stream_table()
            return JoinForm.STREAM_TABLE
        return self._tables()

    def _invalid(self, fact: str, action: str = "") -> Exception:
        return self.context.script.invalid(self.clause.at, fact, action=action)

    def _between(self) -> str:
        return f"{self.left.source.name} {_WORDS[self.clause.kind]} {self.right.source.name}"

    def _check_within(self, kinds: tuple[str, str]) -> None:
        if kinds == ("STREAM", "STREAM"):
            if self.clause.within is None:
                raise self._invalid(
                    "Stream-Stream joins must have a WITHIN clause specified. None was provided.",
                    "write JOIN ... WITHIN 1 HOUR ON ..., for example",
                )
            return
        if self.clause.within is not None:
            form = "-".join(k.capitalize() for k in kinds)
            raise self._invalid(
                f"A window definition was provided for a {form} join. These joins are not "
                "windowed. Please drop the window definition (ie. the WITHIN clause)."
            )

    def _check_windowed_key(self) -> None:
        sides = ((self.left, self.condition.left), (self.right, self.condition.right))
        for side, node in sides:
            source = side.source
            if source.window is not None and not side.on_key(node):
                raise self._invalid(
                    "Implicit repartitioning of windowed sources is not supported. See "
                    "https://github.com/confluentinc/ksql/issues/4385.",
                    f"{source.name} is {source.window} windowed: join it on its key",
                )

    def _check_stream_table(self) -> None:
        kind = self.clause.kind
        if kind in (JoinKind.FULL, JoinKind.RIGHT):
            name = "full-outer" if kind is JoinKind.FULL else "right-outer"
            raise self._invalid(
                f"Invalid join type: {name} join not supported for stream-table join. "
                f"Got {self._between()}."
            )
        if not self.right.on_key(self.condition.right):
            raise self._invalid(
                "Invalid join condition: stream-table joins require to join on the table's "
                f"primary key. Got {self.condition.text}."
            )

    def _tables(self) -> JoinForm:
        condition = self.condition
        if not self.right.on_key(condition.right):
            raise self._invalid(
                "Invalid join condition: table-table joins require to join on the primary key of "
                f"the right input table. Got {condition.text}."
            )
        foreign = not self.left.on_key(condition.left)
        if foreign:
            self._check_foreign()
        given, wanted = self.left.key.type, self.right.key.type
        if given != wanted:
            sides = [f"{condition.left_text}{{{given}}}", f"{condition.right_text}{{{wanted}}}"]
            got = " = ".join(reversed(sides) if condition.flipped else sides)
            raise self._invalid(
                f"Invalid join condition: types don't match. Got {got}.",
                "use CAST in the statement that makes one of the tables",
            )
        return JoinForm.FOREIGN_KEY if foreign else JoinForm.TABLE_TABLE

    def _check_foreign(self) -> None:
        if self.clause.kind is JoinKind.FULL:
            raise self._invalid(
                "Invalid join type: full-outer join not supported for foreign-key table-table "
                f"join. Got {self._between()}."
            )
        if len(self.left.relation.owners) > 1:
            raise self._invalid(
                "Invalid join condition: foreign-key table-table joins are not supported as part "
                f"of n-way joins. Got {self.condition.text}."
            )
        if self.clause.kind is JoinKind.RIGHT:
            raise self._invalid("RIGHT OUTER JOIN on a foreign key is not supported")
