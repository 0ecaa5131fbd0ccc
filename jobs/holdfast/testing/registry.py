"""The schema registry of one case: in memory, as in ksqlDB's test runner."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any

from holdfast.errors import HoldfastError, InvalidTestCase, SchemaRefused
from holdfast.ingest.formats.as_json import columns_of_any
from holdfast.ingest.formats.json.decoder import JsonDecoder
from holdfast.sql import compile_text
from holdfast.sql.parse.text import Place, statement_places
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.testing.cases import Case
from holdfast.testing.json_text import dumps
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schemas import DataSchema, Schemas, subject_of
from holdfast.types.statements.sources import Sink, Source

__all__ = ["encoded_input", "registry_of"]


def registry_of(case: Case) -> MemoryRegistry:
    """A registry with the schemas that the case gives its topics.

    As in ksqlDB's test runner, declared columns of other topics get the first ids.
    """
    registry = MemoryRegistry()
    if case.schemas:
        topics = {each.topic for each in case.schemas}
        _register_declared(case.statements, topics, registry)
    for given in case.schemas:
        subject = subject_of(given.topic, key=given.key)
        if given.id is None:
            registry.register(subject, given.schema)
        else:
            registry.put(subject, given.schema, given.id)
    return registry


def _register_declared(text: str, given: Container[str], registry: MemoryRegistry) -> None:
    for start, end in statement_places(text):
        try:
            sources = compile_text(text[start:end], place=Place.TEST).sources
        except HoldfastError:
            continue  # it needs others; compiling all of them will say what is wrong
        for source in sources:
            for data in (source.key_schema, source.value_schema):
                if data is not None and source.topic not in given:
                    registry.register(data.subject, data.schema)


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
        columns, unwrapped = columns_of_any(language, data, key=key, exact=False)
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
