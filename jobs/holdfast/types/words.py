"""Formats numbers for people, in tables and sentences."""

from __future__ import annotations

__all__ = ["human_bytes", "human_seconds"]


def human_bytes(count: float) -> str:
    """4096 as "4.0 KiB"."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def human_seconds(seconds: float) -> str:
    """90 as "1.5 min"; below a minute with one digit after the point."""
    for limit, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= limit:
            return f"{seconds / limit:.1f} {unit}"
    return f"{seconds:.1f} s"
