"""The description of one property."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.config.values import Kind

__all__ = ["Property"]


@dataclass(frozen=True)
class Property:
    """One property.

    Attributes:
        name: dotted name.
        path: field names from `Settings` down; empty for a property outside `Settings`.
        kind: the values it takes.
        doc: its meaning in one line.
        default: default of a property without a path, or words for a derived default.
        only_set: only SET may give it; it applies to the statements that follow.
    """

    name: str
    path: tuple[str, ...]
    kind: Kind
    doc: str
    default: str = ""
    only_set: bool = False
