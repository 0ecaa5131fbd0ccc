"""The properties that a request's statements are planned with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.sql.parse.statements import SetProperty, UnsetProperty
from holdfast.types.statements.topology import Topology

__all__ = ["Session"]


class Session:
    """The properties of one request, with its SETs and UNSETs so far."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._set: dict[str, str | None] = {
            name: json.dumps(value) if isinstance(value, bool) else str(value)
            for name, value in given.items()
        }

    def take(self, statement: SetProperty | UnsetProperty) -> None:
        """Carries it out for the statements behind it."""
        self._set[statement.key] = statement.value if isinstance(statement, SetProperty) else None

    def over(self, topology: Topology) -> Topology:
        """The topology, with these properties in place of its own."""
        found = {**dict(topology.properties), **self._set}
        left = tuple((name, value) for name, value in found.items() if value is not None)
        return replace(topology, properties=left)
