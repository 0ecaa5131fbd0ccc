"""The newest snapshot of a state partition, as its owner, the status and the console tell of it."""

from __future__ import annotations

import time
from dataclasses import dataclass

__all__ = ["SnapshotState"]


@dataclass(frozen=True)
class SnapshotState:
    """The newest snapshot of a state partition that its owner knows of.

    Attributes:
        offset: the changelog offset that it goes up to; -1: there is none.
        taken_ms: when it was taken, in wall-clock ms.
        bytes: the size of its files.
        uploaded_bytes: of those, the ones that earlier snapshots had not.
        seconds: how long copying and uploading took.
        error: why the last attempt to take one failed; empty: it did not.
    """

    offset: int = -1
    taken_ms: int = 0
    bytes: int = 0
    uploaded_bytes: int = 0
    seconds: float = 0.0
    error: str = ""

    def age_seconds(self) -> float:
        """Seconds since it was taken."""
        return max(0.0, time.time() - self.taken_ms / 1000)
