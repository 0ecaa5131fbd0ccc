"""The order of a commit: the one place where its steps are numbered.

| step        | what                                              | a crash right after it means |
|-------------|---------------------------------------------------|------------------------------|
| 0 OPENED    | `init_transactions` fences any zombie; replay the | the same again               |
|             | changelog's tail; know the last commit marker     |                              |
| 1 CHECKED   | offsets at or below the marker's: done, skip      | nothing has happened         |
| 2 PRODUCED  | begin; read, merge; produce changelog and sink    | the transaction aborts, the  |
|             | records                                           | batch is sent again          |
| 3 MARKED    | produce the commit marker                         | the same                     |
| 4 COMMITTED | commit; timed out = unknown: drop the handle,     | 0 replays the tail, 1 skips  |
|             | go to 0                                           |                              |
| 5 WRITTEN   | values and position into the store, one batch     | nothing is missing           |

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
    """Calls `observer(step, query id, partition)` after every step; None ends it."""
    global _observer  # noqa: PLW0603 - a test hook has to be reachable from inside the task
    _observer = observer


def reached(step: Step, query_id: str, partition: int) -> None:
    """Says that a step is done."""
    if _observer is not None:
        _observer(step, query_id, partition)
