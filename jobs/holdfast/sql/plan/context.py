"""The context of planning one statement."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.sql.expressions.names import Functions
from holdfast.sql.parse.script import Script
from holdfast.types.statements.topology import Emit

__all__ = ["Context"]


@dataclass(frozen=True)
class Context:
    """One statement's surroundings.

    Attributes:
        sink: the name of the stream or table it makes, for messages.
        emit: when changes are written, as the properties say.
        new_planner: ksql.new.query.planner.enabled: a stream's key columns are those that are
            selected, in the SELECT's order.
        final_within_retention: of EMIT FINAL, see `types.statements.topology.Window`.
        as_ksqldb: ksqldb.differences is none.
    """

    script: Script
    functions: Functions
    sink: str
    emit: Emit = Emit.BATCH
    new_planner: bool = False
    final_within_retention: bool = False
    as_ksqldb: bool = False
