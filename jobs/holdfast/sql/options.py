"""WITH clauses: which properties there are, and what they may be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.sql.script import Script
from holdfast.sql.statements import Property
from holdfast.types.schema import Base, Column
from holdfast.types.topology import Format, TimestampSpec

__all__ = ["Options", "check_format", "check_topic", "fits_kafka", "read_options", "timestamp_of"]

_SINK_KEYS = (
    "KAFKA_TOPIC", "VALUE_FORMAT", "FORMAT", "KEY_FORMAT", "PARTITIONS", "REPLICAS", "TIMESTAMP",
    "TIMESTAMP_FORMAT", "RETENTION_MS",
)  # fmt: skip
_SOURCE_KEYS = tuple(k for k in _SINK_KEYS if k != "RETENTION_MS")
_LATER = {
    "WINDOW_TYPE": "windowed sources come later, in holdfast.ingest",
    "WINDOW_SIZE": "windowed sources come later, in holdfast.ingest",
    "WRAP_SINGLE_VALUE": "values are always JSON objects; unwrapped ones come later",
    "RETENTION_MS": "set retention.ms on the source's topic itself",
    "KEY_DELIMITER": "the comma is the only delimiter for now",
    "VALUE_DELIMITER": "the comma is the only delimiter for now",
    "KEY_SCHEMA_ID": "Schema Registry comes later, in holdfast.ingest",
    "VALUE_SCHEMA_ID": "Schema Registry comes later, in holdfast.ingest",
    "KEY_SCHEMA_FULL_NAME": "Schema Registry comes later, in holdfast.ingest",
    "VALUE_SCHEMA_FULL_NAME": "Schema Registry comes later, in holdfast.ingest",
    "VALUE_AVRO_SCHEMA_FULL_NAME": "Schema Registry comes later, in holdfast.ingest",
    "SOURCED_BY_CONNECTOR": "connectors are not managed",
    "CLEANUP_POLICY": "set cleanup.policy on the topic itself",
}
_LATER_FORMATS = ("AVRO", "PROTOBUF", "PROTOBUF_NOSR", "JSON_SR")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_KAFKA_TYPES = (Base.STRING, Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.BYTES)
_NESTED = (Base.ARRAY, Base.MAP, Base.STRUCT)


@dataclass(frozen=True)
class Options:
    """A WITH clause, read; None where it says nothing."""

    topic: str | None
    key_format: Format | None
    value_format: Format | None
    partitions: int | None
    replicas: int | None
    retention_ms: int | None
    timestamp: Property | None
    timestamp_format: Property | None


class _Reader:
    def __init__(self, script: Script, properties: Iterable[Property], sink: bool) -> None:
        self._script = script
        self._known = _SINK_KEYS if sink else _SOURCE_KEYS
        self._found: dict[str, Property] = {}
        for item in properties:
            self._check_key(item)
            self._found[item.key] = item

    def _check_key(self, item: Property) -> None:
        if item.key in self._found:
            raise self._script.invalid(item.at, f"{item.key} appears twice in WITH")
        if item.key in self._known:
            return
        if item.key in _LATER:
            raise self._script.unsupported(
                item.at, f"{item.key} is not supported here yet", action=_LATER[item.key]
            )
        raise self._script.unknown(item.at, "property", item.key, self._known)

    def get(self, key: str) -> Property | None:
        return self._found.get(key)

    def text(self, key: str) -> str | None:
        item = self._found.get(key)
        if item is None:
            return None
        if not isinstance(item.value, str) or not item.value:
            raise self._script.invalid(item.at, f"{key} must be a quoted string")
        return item.value

    def whole(self, key: str, least: int) -> int | None:
        item = self._found.get(key)
        if item is None:
            return None
        value = item.value
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._script.invalid(
                item.at, f"{key} must be a whole number of at least {least}, not {item.value}"
            )
        return value

    def format(self, key: str) -> Format | None:
        text = self.text(key)
        if text is None:
            return None
        item = self._found[key]
        name = text.upper()
        if name in _LATER_FORMATS:
            raise self._script.unsupported(
                item.at,
                f"the format {name} is not supported yet",
                action="formats with a Schema Registry come later, in holdfast.ingest; use JSON",
            )
        if name not in Format.__members__:
            raise self._script.unknown(item.at, "format", name, Format.__members__)
        if name == "NONE" and key != "KEY_FORMAT":
            raise self._script.invalid(item.at, "only KEY_FORMAT can be NONE")
        return Format(name)


def read_options(script: Script, properties: Iterable[Property], *, sink: bool) -> Options:
    """A WITH clause.

    Raises:
        InvalidStatement: an unknown property (the nearest is named) or a value out of range.
        Unsupported: a property or format of ksqlDB that comes later.
    """
    reader = _Reader(script, properties, sink)
    both = reader.format("FORMAT")
    for key in ("KEY_FORMAT", "VALUE_FORMAT"):
        item = reader.get(key)
        if both is not None and item is not None:
            raise script.invalid(item.at, f"FORMAT sets both formats: leave {key} or FORMAT out")
    topic = reader.text("KAFKA_TOPIC")
    topic_item = reader.get("KAFKA_TOPIC")
    if topic is not None and topic_item is not None:
        check_topic(script, topic_item.at, topic)
    timestamp, pattern = reader.get("TIMESTAMP"), reader.get("TIMESTAMP_FORMAT")
    if timestamp is not None:
        reader.text("TIMESTAMP")
    if pattern is not None:
        reader.text("TIMESTAMP_FORMAT")
        if timestamp is None:
            raise script.invalid(pattern.at, "TIMESTAMP_FORMAT needs TIMESTAMP beside it")
    return Options(
        topic=topic,
        key_format=both or reader.format("KEY_FORMAT"),
        value_format=both or reader.format("VALUE_FORMAT"),
        partitions=reader.whole("PARTITIONS", 1),
        replicas=reader.whole("REPLICAS", 1),
        retention_ms=reader.whole("RETENTION_MS", 1),
        timestamp=timestamp,
        timestamp_format=pattern,
    )


def check_topic(script: Script, at: int, topic: str) -> None:
    """Refuse a name that Kafka would refuse."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise script.invalid(
            at,
            f"'{topic}' cannot be the name of a Kafka topic",
            action="letters, digits, '.', '_' and '-', at most 249; KAFKA_TOPIC sets another name",
        )


def timestamp_of(
    script: Script, options: Options, columns: Iterable[Column]
) -> TimestampSpec | None:
    """The column of event time: BIGINT or TIMESTAMP, or STRING with TIMESTAMP_FORMAT."""
    item = options.timestamp
    if item is None:
        return None
    written = str(item.value)
    quoted = written[:1] == written[-1:] == "`" and len(written) > 2
    name = written[1:-1] if quoted else written.upper()
    known = {c.name: c for c in columns}
    column = known.get(name)
    if column is None:
        raise script.unknown(item.at, "TIMESTAMP column", name, known)
    pattern = options.timestamp_format
    if (column.type.base is Base.STRING) != (pattern is not None):
        need = "needs a" if pattern is None else "of this type takes no"
        raise script.invalid(item.at, f"TIMESTAMP column {column} {need} TIMESTAMP_FORMAT")
    if column.type.base not in (Base.STRING, Base.BIGINT, Base.TIMESTAMP):
        raise script.invalid(
            item.at, f"TIMESTAMP column {column} must be BIGINT (ms), TIMESTAMP or STRING"
        )
    return TimestampSpec(name, None if pattern is None else str(pattern.value))


def check_format(
    script: Script, at: int, part: str, columns: tuple[Column, ...], chosen: Format
) -> None:
    """Refuse columns that the format of a record's `part` ("key" or "value") cannot hold."""
    names = ", ".join(str(c) for c in columns)
    fact = ""
    if chosen is Format.NONE and columns:
        fact = f"KEY_FORMAT NONE has no place for {names}"
    elif chosen is Format.KAFKA and len(columns) > 1:
        fact = f"the format KAFKA holds one column, but the {part} has {len(columns)}: {names}"
    elif chosen is Format.KAFKA and columns and columns[0].type.base not in _KAFKA_TYPES:
        fact = f"the format KAFKA cannot hold {names}"
    elif chosen is Format.DELIMITED and any(c.type.base in _NESTED for c in columns):
        fact = f"the format DELIMITED cannot hold nested columns: {names}"
    if fact:
        raise script.invalid(at, fact, action=f"use {part.upper()}_FORMAT='JSON'")


def fits_kafka(columns: tuple[Column, ...]) -> bool:
    """Whether Kafka's own serializers can hold the columns."""
    return len(columns) <= 1 and all(c.type.base in _KAFKA_TYPES for c in columns)
