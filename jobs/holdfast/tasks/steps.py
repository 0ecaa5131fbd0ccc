"""The order of a commit: the one place where its steps are numbered.

| step | what | a crash right after it means |
|---|---|---|
| 0 OPENED | `init_transactions` fences any zombie; replay the changelog tail; know the marker | the same again |
| 1 CHECKED | source offsets at or below the marker's: already done, skip | nothing has happened |
| 2 PRODUCED | begin; read, merge; produce changelog and sink records | transaction aborts, batch replayed |
| 3 MARKED | produce the commit marker | transaction aborts, batch replayed |
| 4 COMMITTED | commit; a time-out is an unknown outcome: drop the handle, go to 0 | 0 replays the tail, 1 skips |
| 5 WRITTEN | values and position into the store, one batch | nothing is missing |

Tests crash a process after each step through `observe`; nothing a user can set reaches it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

__all__ = ["Step", "observe", "reached"]


class Step(IntEnum):
    """Steps of a commit, numbered as in the table above."""

    OPENED = 0
    CHECKED = 1
    PRODUCED = 2
    MARKED = 3
    COMMITTED = 4
    WRITTEN = 5


_observer: Callable[[Step, str, int], None] | None = None


def observe(observer: Callable[[Step, str, int], None] | None) -> None:
    """Calls `observer(step, query id, partition)` after every step in this process; None ends it."""
    global _observer  # noqa: PLW0603 - a test hook has to be reachable from inside the task
    _observer = observer


def reached(step: Step, query_id: str, partition: int) -> None:
    """Says that a step is done."""
    if _observer is not None:
        _observer(step, query_id, partition)
