"""A registry by way of another one, for those that change how ids are found."""

from __future__ import annotations

from holdfast.types.columns.schemas import Registered, Schema, Schemas

__all__ = ["WrappedSchemas"]


class WrappedSchemas:
    """Implements `Schemas` by another."""

    def __init__(self, schemas: Schemas) -> None:
        """Asks nothing."""
        self._schemas = schemas

    def by_id(self, schema_id: int) -> Schema:
        return self._schemas.by_id(schema_id)

    def latest(self, subject: str) -> Registered | None:
        return self._schemas.latest(subject)

    def register(self, subject: str, schema: Schema) -> int:
        return self._schemas.register(subject, schema)

    def registered(self, subject: str, schema: Schema) -> int | None:
        return self._schemas.registered(subject, schema)
