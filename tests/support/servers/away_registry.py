"""A schema registry that does not answer, with one schema that is known already."""

from __future__ import annotations

from holdfast.errors import RegistryUnavailable
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schemas import Schema

__all__ = ["AwayRegistry"]


class AwayRegistry(MemoryRegistry):
    """It has the schema of id 1 alone."""

    def by_id(self, schema_id: int) -> Schema:
        if schema_id == 1:
            return super().by_id(1)
        raise RegistryUnavailable("away")
