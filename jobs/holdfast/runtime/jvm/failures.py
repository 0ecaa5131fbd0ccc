"""Restores errors that Spark's processes return as text."""

from __future__ import annotations

import re

from holdfast import errors
from holdfast.errors import HoldfastError

__all__ = ["from_spark"]

_LINES_MAX = 40
_CAUSE, _ACTION = "Likely cause: ", "What to do: "
# A Python traceback ends with the error; Java's frames or Spark's own remarks follow.
_RAISED = re.compile(
    r"holdfast\.errors\.(?P<kind>[A-Za-z]+): (?P<text>.*?)(?=\n\s*at |\n\s*\n|\n\S*SQLSTATE|\Z)",
    re.DOTALL,
)


def from_spark(query_id: str, error: BaseException) -> BaseException:
    """The Holdfast error that `error` is or contains; wraps other failures in a HoldfastError."""
    if isinstance(error, HoldfastError):
        return error
    text = str(error)
    found = _RAISED.search(text)
    kind = getattr(errors, found["kind"], None) if found else None
    if found and isinstance(kind, type) and issubclass(kind, HoldfastError):
        return _rebuilt(kind, found["text"])
    return HoldfastError(
        f"{query_id} stopped: {_first_lines(text)}",
        cause="the text above comes from Spark, or from the process that reads the source",
        action="see the job's log; a restart continues from the commit markers",
    )


def _rebuilt(kind: type[HoldfastError], text: str) -> HoldfastError:
    parts = {"": [], _CAUSE: [], _ACTION: []}  # type: dict[str, list[str]]
    current = ""
    for line in text.splitlines():
        for start in (_CAUSE, _ACTION):
            if line.startswith(start):
                current, line = start, line.removeprefix(start)  # noqa: PLW2901 - the rest of it
        parts[current].append(line)
    fact, cause, action = ("\n".join(parts[p]).strip() for p in ("", _CAUSE, _ACTION))
    return kind(fact, cause=cause, action=action)


def _first_lines(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    return "\n".join(lines[:_LINES_MAX])
