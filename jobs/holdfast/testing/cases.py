"""Test cases: statements, the records piped into topics, and the records expected in others."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from holdfast.errors import InvalidTestCase
from holdfast.testing.json_text import dumps
from holdfast.types.columns.schemas import Schema, SchemaKind
from holdfast.types.statements.sources import Format

__all__ = [
    "Case",
    "GivenSchema",
    "Refusal",
    "Rest",
    "RestError",
    "Spec",
    "SpecWindow",
    "WindowType",
    "formats_in",
    "record_of",
    "schemas_of",
]

_FORMAT = re.compile(r"\b(?:KEY_|VALUE_)?FORMAT\s*=\s*'([^']*)'", re.IGNORECASE)


class WindowType(StrEnum):
    """How a record's window is written into its key."""

    TIME = "time"  # start only
    SESSION = "session"  # end and start


@dataclass(frozen=True)
class SpecWindow:
    """The window of a record's key, in ms."""

    start: int
    end: int
    type: WindowType


@dataclass(frozen=True)
class Spec:
    """An input or output record as written in a test file.

    Attributes:
        key: JSON; text for a DELIMITED key.
        value: JSON; text for a DELIMITED value; None is a tombstone.
        timestamp: ms; None: 0 for an input, any for an output.
        headers: (name, bytes); None: none for an input, any for an output.
    """

    topic: str
    key: Any
    value: Any
    timestamp: int | None = None
    window: SpecWindow | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None


@dataclass(frozen=True)
class Refusal:
    """`expectedException`: statements or inputs must be refused, perhaps with these words."""

    type: str = ""
    message: str = ""


@dataclass(frozen=True)
class RestError:
    """`expectedError`: the error that a server must answer; empty fields match any.

    Attributes:
        type: the Java class of ksqlDB's message.
        message: some words of it.
    """

    type: str = ""
    message: str = ""
    status: int | None = None


@dataclass(frozen=True)
class Rest:
    """The requests of a REST case to a server, and the expected answers.

    Attributes:
        statements: one by one, in the order they are sent.
        queries_from: the number of the first query; only queries follow it.
        responses: the expected first answers, each `{kind: content}`.
        in_order: rows come in the order of the case; otherwise in any order.
        in_protobuf: rows are to be answered as Protobuf messages.
        wait_for_query: inputs are written once its push query runs.
    """

    statements: tuple[str, ...]
    queries_from: int
    responses: tuple[Mapping[str, Any], ...]
    error: RestError | None = None
    in_order: bool = False
    in_protobuf: bool = False
    wait_for_query: bool = False


@dataclass(frozen=True)
class GivenSchema:
    """A schema that a topic's keys or values have before the statements; `id` None: any."""

    topic: str
    key: bool
    schema: Schema
    id: int | None = None


@dataclass(frozen=True)
class Case:
    """One test case.

    Attributes:
        name: its name in the file, with the format it was made for.
        origin: the file of the case.
        statements: SQL text; for a REST case, the statements of its job.
        properties: properties that were SET for the session before.
        refusal: the expected refusal, None when it is to run.
        sources: expectations about streams and tables afterwards (`post.sources`).
        rest: requests to a query server afterwards; None: none.
        schemas: what the registry has before.
        formats: every serialization format it names, upper-case.
        disabled: not to be run.
        wrong: why it cannot be run; empty when it can.
    """

    name: str
    origin: str
    statements: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    refusal: Refusal | None = None
    sources: tuple[Mapping[str, Any], ...] = ()
    rest: Rest | None = None
    schemas: tuple[GivenSchema, ...] = ()
    formats: frozenset[str] = frozenset()
    disabled: bool = False
    wrong: str = ""


def formats_in(statements: str) -> frozenset[str]:
    """The serialization formats that WITH clauses name, upper-case."""
    return frozenset(name.upper() for name in _FORMAT.findall(statements))


def record_of(node: Any, where: str) -> Spec:
    """Parses a record from its JSON object.

    Args:
        where: file and place, for the message.

    Raises:
        InvalidTestCase: a field is missing or has the wrong type.
    """
    if not isinstance(node, dict):
        raise InvalidTestCase(f"{where} is not a JSON object.")
    topic = node.get("topic")
    if not isinstance(topic, str) or not topic.strip():
        raise InvalidTestCase(f"{where} has no field 'topic'.", action="name the record's topic")
    if "value" not in node:
        raise InvalidTestCase(
            f"{where} (topic {topic}) has no field 'value'.", action="a tombstone's is null"
        )
    timestamp = node.get("timestamp")
    if timestamp is not None and not isinstance(timestamp, int):
        raise InvalidTestCase(f"{where} has the timestamp {timestamp!r}: give milliseconds.")
    return Spec(
        topic=topic,
        key=node.get("key"),
        value=node["value"],
        timestamp=timestamp,
        window=_window(node.get("window"), where),
        headers=_headers(node.get("headers"), where),
    )


def schemas_of(topic: Any, where: str) -> Iterator[GivenSchema]:
    """The schemas of a topic of a test file: `keySchema`, `valueSchema`, their ids and references.

    Raises:
        InvalidTestCase: a format has no schemas, or a field has the wrong type.
    """
    if not isinstance(topic, dict):
        return
    for part in ("key", "value"):
        text = topic.get(f"{part}Schema")
        if text is None:
            continue
        try:
            kind = _kind(topic.get(f"{part}Format") or Format.AVRO)
            others = topic.get(f"{part}SchemaReferences") or ()
            references = tuple((str(o["name"]), _schema_text(kind, o["schema"])) for o in others)
            schema = Schema(kind, _schema_text(kind, text), references)
            found = topic.get(f"{part}SchemaId")
            number = None if found is None else int(found)
            yield GivenSchema(str(topic["name"]), part == "key", schema, number)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidTestCase(
                f"{where}: the {part} schema of topic {topic.get('name')!r} is malformed: {error}",
                action='write {"name": topic, "valueSchema": schema, "valueFormat": "AVRO"}',
            ) from error


def _kind(form: Any) -> SchemaKind:
    name = str(form.get("format") if isinstance(form, dict) else form).upper()
    kind = Format(name).schema_kind or SchemaKind.__members__.get(name)
    if kind is None:
        raise ValueError(f"the format {name} has no schemas")
    return kind


def _schema_text(kind: SchemaKind, schema: Any) -> str:
    return str(schema) if kind is SchemaKind.PROTOBUF else dumps(schema)


def _window(node: Any, where: str) -> SpecWindow | None:
    if node is None:
        return None
    try:
        kind = WindowType(str(node.get("type", "time")).lower())
        return SpecWindow(int(node["start"]), int(node["end"]), kind)
    except (AttributeError, KeyError, ValueError, TypeError) as error:
        raise InvalidTestCase(
            f"{where} has the window {node!r}.",
            action='write {"start": ms, "end": ms, "type": "time" or "session"}',
        ) from error


def _headers(node: Any, where: str) -> tuple[tuple[str, bytes | None], ...] | None:
    if node is None:
        return None
    try:
        return tuple((h["KEY"], _bytes(h["VALUE"])) for h in node)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidTestCase(
            f"{where} has the headers {node!r}.",
            action='write [{"KEY": name, "VALUE": base64 or null}]',
        ) from error


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
