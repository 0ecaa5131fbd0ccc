"""WINDOW …: lengths and their defaults."""

from __future__ import annotations

from holdfast.sql.script import Script
from holdfast.sql.statements import WindowClause
from holdfast.types.topology import Window, WindowKind

__all__ = ["plan_window"]

_DAY_MS = 86_400_000
_GRACE_MS = _DAY_MS  # ksqlDB's default
_RETENTION_MS = _DAY_MS  # ksqlDB's default, where size and grace fit into it


def plan_window(script: Script, clause: WindowClause) -> Window:
    """A window with ksqlDB's defaults: grace 24 h, retention 1 day or what size + grace need.

    Raises:
        InvalidStatement: its lengths contradict each other.
    """
    grace = _GRACE_MS if clause.grace_ms is None else clause.grace_ms
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
            cause="without GRACE PERIOD it is 24 hours" if clause.grace_ms is None else "",
            action=f"set RETENTION to at least {least} MILLISECONDS, or shorten GRACE PERIOD",
        )
    kept = max(least, _RETENTION_MS) if retention is None else retention
    return Window(clause.kind, clause.size_ms, clause.advance_ms, grace, kept)
