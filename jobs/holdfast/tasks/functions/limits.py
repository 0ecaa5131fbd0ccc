"""Limits on the size of a value that a function makes.

A short call can need more memory than there is: REPLACE in REPLACE, a REDUCE that doubles its
state.  In a job the result is then NULL, as for any expression that fails; a pull query gets an
error from `noted`.  The limit is a constant: replaying a record must give the same rows.
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

VALUE_MAX = 16 << 20  # characters or bytes of one value; records rarely exceed a megabyte
ITEMS_MAX = 1 << 20  # of one array or map
_NOTES = threading.local()
V = TypeVar("V")


class TooLargeError(ValueError):
    """A function's value is, or would be, too large; `by`: the function's name, if known."""

    def __init__(self, message: str, by: str = "") -> None:
        super().__init__(message)
        self.by = by


def room(size: int) -> None:
    """Checks that one value may have so many characters or bytes.

    Raises:
        TooLargeError: there is not.
    """
    if size > VALUE_MAX:
        raise TooLargeError(f"a value of {size} bytes, {VALUE_MAX} are allowed")


def room_for(items: int) -> None:
    """Checks that one array or map may have so many items.

    Raises:
        TooLargeError: there is not.
    """
    if items > ITEMS_MAX:
        raise TooLargeError(f"{items} items in one value, {ITEMS_MAX} are allowed")


def checked(value: V) -> V:
    """Returns a function's value if it is not too large.

    Raises:
        TooLargeError: it is too large.
    """
    if isinstance(value, (str, bytes)):
        room(len(value))
    elif isinstance(value, (list, dict)):
        room_for(len(value))
        parts = value.values() if isinstance(value, dict) else value
        room(sum(len(part) for part in parts if isinstance(part, Sized)))
    return value


def note(function: str, error: TooLargeError) -> None:
    """Notes the failure of a call in this thread."""
    _NOTES.last = f"{error.by or function} makes {error}"


def noted() -> str | None:
    """Returns and clears this thread's last note; None if there is none."""
    last: str | None = getattr(_NOTES, "last", None)
    _NOTES.last = None
    return last
