"""Formats numbers and names for people, in tables and sentences."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import UTC, datetime

__all__ = ["counted", "human_bytes", "human_seconds", "iso_time", "listed", "nearest", "shortened"]

_MILLISECONDS_BELOW_S = 0.0995  # one digit after the point would tell too little
_LEAST_S = 0.0005


def counted(number: int, noun: str) -> str:
    """A number of things: 1 as "1 topic", 2000 as "2,000 topics"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def human_bytes(count: float) -> str:
    """4096 as "4.0 KiB"."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def human_seconds(seconds: float) -> str:
    """90 as "1.5 min", 0.012 as "12 ms"; from 0.1 s to a minute with one digit after the point."""
    for limit, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= limit:
            return f"{seconds / limit:.1f} {unit}"
    if 0 < seconds < _MILLISECONDS_BELOW_S:
        return f"{seconds * 1000:.0f} ms" if seconds >= _LEAST_S else "<1 ms"
    return f"{seconds:.1f} s"


def iso_time(time_ms: int, timespec: str = "milliseconds") -> str:
    """Milliseconds since the epoch in ISO 8601, with Z; as they are if their year has not 4 digits.

    Args:
        timespec: see `datetime.isoformat`.
    """
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return at.isoformat(timespec=timespec).replace("+00:00", "Z")


def listed(names: Iterable[str]) -> str:
    """Names separated by commas, the last one by "and"."""
    found = list(names)
    return " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))


def shortened(text: str, longest: int) -> str:
    """The text, or its beginning and an ellipsis: at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that a misspelt one most likely means, whatever its case; None: none is near.

    Args:
        cutoff: how alike they must be, from 0 to 1.
    """
    by_folded = {k.upper(): k for k in sorted(known, reverse=True)}
    near = difflib.get_close_matches(name.upper(), list(by_folded), n=1, cutoff=cutoff)
    return by_folded[near[0]] if near else None
