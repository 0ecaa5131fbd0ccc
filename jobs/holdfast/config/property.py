"""What is known of one property."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.config.values import Kind

__all__ = ["Property"]


@dataclass(frozen=True)
class Property:
    """One property.

    Attributes:
        name: dotted name.
        path: field names from `Settings` down; empty for one that `Settings` does not hold.
        kind: what values it takes.
        doc: its meaning in one line.
        default: default of a property without a path, or words for a derived default.
        only_set: it is about the statements that follow it, and SET alone may give it.
    """

    name: str
    path: tuple[str, ...]
    kind: Kind
    doc: str
    default: str = ""
    only_set: bool = False
