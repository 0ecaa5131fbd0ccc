"""Times in ms since the epoch that no record has."""

from __future__ import annotations

__all__ = ["FOREVER", "NO_TIME"]

NO_TIME = -(1 << 62)  # before the first record
FOREVER = 1 << 62  # after the last
