"""Units of time."""

from __future__ import annotations

__all__ = ["UNITS_MS"]

UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}
