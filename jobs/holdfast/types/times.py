"""Times in ms since the epoch outside the range of record times."""

from __future__ import annotations

__all__ = ["FOREVER", "NO_TIME"]

NO_TIME = -(1 << 62)  # before the first record
FOREVER = 1 << 62  # after the last
