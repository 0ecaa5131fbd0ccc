"""WINDOW …: lengths and their defaults."""

from __future__ import annotations

from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import WindowClause
from holdfast.types.statements.topology import Window, WindowKind

__all__ = ["plan_window"]

_OPEN_MS = 86_400_000  # how long a window without GRACE PERIOD takes records, size included


def plan_window(script: Script, clause: WindowClause, *, final: bool = False) -> Window:
    """A window with ksqlDB's defaults.

    Grace is what is left of 24 hours after the size, and none at all where only final results
    are wanted; retention is size and grace.

    Raises:
        InvalidStatement: its lengths contradict each other.
    """
    grace = clause.grace_ms
    if grace is None:
        grace = 0 if final else max(_OPEN_MS - clause.size_ms, 0)
    least = clause.size_ms + grace
    retention = clause.retention_ms
    session = clause.kind is WindowKind.SESSION
    if clause.size_ms <= 0 or (not session and not 0 < clause.advance_ms <= clause.size_ms):
        raise script.invalid(
            clause.at,
            f"ADVANCE BY ({clause.advance_ms} ms) must be more than 0 and no more than "
            f"SIZE ({clause.size_ms} ms)",
        )
    if retention is not None and retention < least:
        raise script.invalid(
            clause.at,
            f"RETENTION ({retention} ms) is less than SIZE + GRACE PERIOD "
            f"({clause.size_ms} + {grace} ms)",
            cause="" if clause.grace_ms is not None else "without GRACE PERIOD both are 24 hours",
            action=f"set RETENTION to at least {least} MILLISECONDS, or shorten GRACE PERIOD",
        )
    kept = least if retention is None else retention
    return Window(clause.kind, clause.size_ms, clause.advance_ms, grace, kept)
