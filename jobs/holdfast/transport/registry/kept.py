"""Schemas that an executor's Python workers have found, for those that come after them.

A worker that fails a task ends, and what it knew with it.  Without this, one unknown id would stop
the records of all known ids on its executor while the registry is away.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.transport.registry.wrapped import WrappedSchemas
from holdfast.types.columns.schemas import Schema, SchemaKind, Schemas

__all__ = ["KeptSchemas", "folder_of_executor"]

_LOCAL_DIRS = "SPARK_LOCAL_DIRS"  # Spark sets it for workers
_OF_EXECUTOR = "blockmgr-"  # such a folder begins and ends with its executor


def folder_of_executor(url: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of a registry's schemas; None outside of an executor's worker."""
    for folder in environment.get(_LOCAL_DIRS, "").split(","):
        if Path(folder).name.startswith(_OF_EXECUTOR):
            return Path(folder, f"schemas-{hashlib.sha256(url.encode()).hexdigest()[:16]}")
    return None


class KeptSchemas(WrappedSchemas):
    """Another registry, with what any worker of the executor has found in it."""

    def __init__(self, schemas: Schemas, folder: Path) -> None:
        """The folder is made when there is something to keep."""
        super().__init__(schemas)
        self._folder = folder
        self._known: dict[int, Schema] = {}

    def by_id(self, schema_id: int) -> Schema:
        known = self._known.get(schema_id) or self._kept(schema_id)
        if known is None:
            known = self._schemas.by_id(schema_id)
            self._keep(schema_id, known)
        self._known[schema_id] = known
        return known

    def _file(self, schema_id: int) -> Path:
        return self._folder / f"{schema_id}.json"

    def _kept(self, schema_id: int) -> Schema | None:
        try:
            kind, text, references = json.loads(self._file(schema_id).read_bytes())
            return Schema(SchemaKind(kind), text, tuple((n, t) for n, t in references))
        except (OSError, ValueError, TypeError):
            return None  # not there, or damaged: the registry has it

    def _keep(self, schema_id: int, schema: Schema) -> None:
        file = self._file(schema_id)
        written = file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # a full disk costs a request later
            self._folder.mkdir(exist_ok=True)
            written.write_text(json.dumps([schema.kind, schema.text, schema.references]))
            written.replace(file)
