"""Joins: what joins what, by which key, and what the result's columns are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.sql.context import Context
from holdfast.sql.later import CLAUSES
from holdfast.sql.plan_sink import Target
from holdfast.sql.relation import Relation
from holdfast.sql.statements import Select
from holdfast.types.topology import Query, Source

__all__ = ["LastJoin", "join_sources"]


class LastJoin:
    def finish(self, sink: Callable[..., object]) -> Query | None:
        raise NotImplementedError

    def materialized(self) -> tuple[Query, Relation]:
        raise NotImplementedError


def join_sources(
    context: Context, target: Target, select: Select, sources: Sequence[Source]
) -> tuple[tuple[Query, ...], LastJoin]:
    later = CLAUSES["JOIN"]
    raise context.script.unsupported(select.joins[0].at, later.fact, action=later.action)
