"""A schema registry in memory that counts the ids that it is asked for."""

from __future__ import annotations

from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schemas import Schema

__all__ = ["CountingRegistry"]


class CountingRegistry(MemoryRegistry):
    """Tells in `asked` how often `by_id` was called."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def by_id(self, schema_id: int) -> Schema:
        self.asked += 1
        return super().by_id(schema_id)
