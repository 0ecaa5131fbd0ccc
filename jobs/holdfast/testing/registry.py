"""The schema registry of one case: in memory, as in ksqlDB's test runner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.errors import InvalidTestCase, SchemaRefused
from holdfast.ingest.formats.json import JsonDecoder
from holdfast.tasks.registered.language import LANGUAGES, Language
from holdfast.testing.cases import Case
from holdfast.testing.json_text import dumps
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.schema import Column
from holdfast.types.schemas import DataSchema, Schemas, subject_of
from holdfast.types.sources import Sink, Source

__all__ = ["encoded_input", "registry_of"]


def registry_of(case: Case) -> MemoryRegistry:
    """A registry with the schemas that the case gives its topics."""
    registry = MemoryRegistry()
    for given in case.schemas:
        subject = subject_of(given.topic, key=given.key)
        if given.id is None:
            registry.register(subject, given.schema)
        else:
            registry.put(subject, given.schema, given.id)
    return registry


def encoded_input(value: Any, of: Source | Sink, schemas: Schemas, *, key: bool) -> bytes | None:
    """The payload of an input record, by its topic's newest schema.

    A topic without one gets that of the stream's or table's columns, as CREATE does in ksqlDB.

    Raises:
        InvalidTestCase: the schema cannot hold the value.
    """
    what = f"{'key' if key else 'value'} {dumps(value)} of {of.topic}"
    data = _schema(of, schemas, key=key)
    try:
        language = LANGUAGES[of.key_format if key else of.value_format]
        columns, unwrapped = _columns(language, data, key=key)
        read = JsonDecoder(columns, unwrapped=unwrapped).decode([dumps(value).encode()])
        if read.bad:
            raise InvalidTestCase(f"The {what} does not fit its schema: {read.bad[0]}")
        return language.encode(columns, read.columns, data, unwrapped=unwrapped)[0]
    except SchemaRefused as error:
        raise InvalidTestCase(f"The {what} cannot be written: {error}") from error


def _schema(of: Source | Sink, schemas: Schemas, *, key: bool) -> DataSchema:
    own = of.key_schema if key else of.value_schema
    if own is None:
        raise InvalidTestCase(f"{of.name} has no {'key' if key else 'value'} columns.")
    if own.fixed:
        return own
    found = schemas.latest(own.subject)
    if found is None:
        return replace(own, id=schemas.register(own.subject, own.schema))
    return replace(own, schema=found.schema, id=found.id)


def _columns(language: Language, data: DataSchema, *, key: bool) -> tuple[tuple[Column, ...], bool]:
    """The columns of a schema, and whether it is that of a single value without a record."""
    try:
        return language.columns_of(data.schema, data.full_name, unwrapped=False, key=key), False
    except SchemaRefused:
        if not language.unwraps:
            raise
        return language.columns_of(data.schema, data.full_name, unwrapped=True, key=key), True
