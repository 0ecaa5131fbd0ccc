"""How large a value may be that a function makes.

A short call can ask for more memory than there is: REPLACE in REPLACE, a REDUCE that doubles its
state.  In a job the result is then NULL, as for any expression that fails; a query is told, by what
`noted` keeps.  The limit is a constant: a record that is read again must give the same rows.
"""

from __future__ import annotations

import threading
from collections.abc import Sized
from typing import TypeVar

__all__ = [
    "ITEMS_MAX",
    "VALUE_MAX",
    "TooLargeError",
    "checked",
    "note",
    "noted",
    "room",
    "room_for",
]

VALUE_MAX = 16 << 20  # characters or bytes of one value; a record has a megabyte, seldom more
ITEMS_MAX = 1 << 20  # of one array or map
_NOTES = threading.local()
V = TypeVar("V")


class TooLargeError(ValueError):
    """A function would make, or has made, too large a value; `by`: which one, if it is known."""

    def __init__(self, message: str, by: str = "") -> None:
        super().__init__(message)
        self.by = by


def room(size: int) -> None:
    """There is room for so many characters or bytes in one value.

    Raises:
        TooLargeError: there is not.
    """
    if size > VALUE_MAX:
        raise TooLargeError(f"a value of {size} bytes, {VALUE_MAX} are allowed")


def room_for(items: int) -> None:
    """There is room for so many items in one array or map.

    Raises:
        TooLargeError: there is not.
    """
    if items > ITEMS_MAX:
        raise TooLargeError(f"{items} items in one value, {ITEMS_MAX} are allowed")


def checked(value: V) -> V:
    """The value, which a function has made, if it is not too large.

    Raises:
        TooLargeError: it is.
    """
    if isinstance(value, (str, bytes)):
        room(len(value))
    elif isinstance(value, (list, dict)):
        room_for(len(value))
        parts = value.values() if isinstance(value, dict) else value
        room(sum(len(part) for part in parts if isinstance(part, Sized)))
    return value


def note(function: str, error: TooLargeError) -> None:
    """A call of this thread has failed so."""
    _NOTES.last = f"{error.by or function} makes {error}"


def noted() -> str | None:
    """What was noted last in this thread, which is forgotten; None: nothing."""
    last: str | None = getattr(_NOTES, "last", None)
    _NOTES.last = None
    return last
