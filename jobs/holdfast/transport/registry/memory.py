"""A registry in memory, for tests of statements; it knows no rules of compatibility."""

from __future__ import annotations

from collections import defaultdict
from threading import Lock

from holdfast.errors import SchemaMissing
from holdfast.types.columns.schemas import Registered, Schema

__all__ = ["MemoryRegistry"]


class MemoryRegistry:
    """Implements `Schemas`; ids count from 1, and equal schemas have one id in all subjects."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ids: dict[Schema, int] = {}
        self._schemas: dict[int, Schema] = {}
        self._subjects: defaultdict[str, list[Registered]] = defaultdict(list)

    def by_id(self, schema_id: int) -> Schema:
        found = self._schemas.get(schema_id)
        if found is None:
            raise SchemaMissing(f"The schema registry has no schema with id {schema_id}.")
        return found

    def latest(self, subject: str) -> Registered | None:
        versions = self._subjects.get(subject)
        return versions[-1] if versions else None

    def register(self, subject: str, schema: Schema) -> int:
        with self._lock:
            return self._add(subject, schema, self._ids.get(schema, len(self._schemas) + 1))

    def registered(self, subject: str, schema: Schema) -> int | None:
        found = (v for v in self._subjects.get(subject, ()) if v.schema == schema)
        return next((version.id for version in found), None)

    def put(self, subject: str, schema: Schema, schema_id: int) -> None:
        """Registers a schema under an id of the caller's choice."""
        with self._lock:
            self._add(subject, schema, schema_id)

    def _add(self, subject: str, schema: Schema, schema_id: int) -> int:
        while self._schemas.get(schema_id, schema) != schema:
            schema_id += 1
        self._ids.setdefault(schema, schema_id)
        self._schemas[schema_id] = schema
        versions = self._subjects[subject]
        if all(each.id != schema_id for each in versions):
            versions.append(Registered(schema_id, schema, subject, len(versions) + 1))
        return schema_id
