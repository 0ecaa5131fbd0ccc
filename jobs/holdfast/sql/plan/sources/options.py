"""WITH clauses: which properties there are, and what they may be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.sql.expressions.typed import describe
from holdfast.sql.parse.script import Script, did_you_mean
from holdfast.sql.parse.statements import Property
from holdfast.sql.parse.units import UNITS_MS
from holdfast.tasks.registered.proto.columns import file_of
from holdfast.tasks.registered.proto.files import ProtoError
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.statements.differences import as_ksqldb
from holdfast.types.statements.sources import Format, Nullable, TimestampSpec, WindowKind

__all__ = [
    "DEDUPLICATE",
    "Options",
    "broadcast_of",
    "check_format",
    "check_topic",
    "delimiter_of",
    "history_of",
    "nullable_of",
    "read_options",
    "timestamp_of",
]

DEDUPLICATE = "DEDUPLICATE_WITHIN"
_SINK_KEYS: tuple[str, ...] = (
    "KAFKA_TOPIC", "VALUE_FORMAT", "FORMAT", "KEY_FORMAT", "PARTITIONS", "REPLICAS", "TIMESTAMP",
    "TIMESTAMP_FORMAT", "RETENTION_MS", "WRAP_SINGLE_VALUE", "KEY_DELIMITER", "VALUE_DELIMITER",
    "HISTORY_RETENTION", "BROADCAST", "KEY_PROTOBUF_NULLABLE_REPRESENTATION",
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION", "KEY_SCHEMA_ID", "VALUE_SCHEMA_ID",
    "KEY_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME",
)  # fmt: skip
_SOURCE_KEYS = (*(k for k in _SINK_KEYS if k != "RETENTION_MS"), "WINDOW_TYPE", "WINDOW_SIZE")
_SINK_KEYS = (*_SINK_KEYS, DEDUPLICATE)
_LATER = {
    "WINDOW_TYPE": "WINDOW in the SELECT says what windows a table has",
    "WINDOW_SIZE": "WINDOW in the SELECT says what windows a table has",
    "RETENTION_MS": "set retention.ms on the source's topic itself",
    "VALUE_AVRO_SCHEMA_FULL_NAME": "write VALUE_SCHEMA_FULL_NAME, its newer name",
    "SOURCED_BY_CONNECTOR": "connectors are not managed",
    "CLEANUP_POLICY": "set cleanup.policy on the topic itself",
}
_MESSAGES = (Format.PROTOBUF, Format.PROTOBUF_NOSR)  # a single column is never without its message
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
    window: WindowKind | None = None
    window_size_ms: int | None = None
    wrap_single: Property | None = None
    key_delimiter: Property | None = None
    value_delimiter: Property | None = None
    key_nullable: Property | None = None
    nullable: Property | None = None
    history_ms: int | None = None
    broadcast: bool = False  # our own: see `JoinStep`
    deduplicate_ms: int | None = None  # our own: see `DeduplicateStep`
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    key_schema_name: str = ""
    value_schema_name: str = ""

    def wraps(
        self,
        script: Script,
        value_format: Format,
        columns: Sequence[Column],
        properties: Mapping[str, str],
    ) -> bool:
        """Whether one value column stands inside an object: WRAP_SINGLE_VALUE, or the property.

        Raises:
            InvalidStatement: it is set where it has no meaning.
        """
        item = self.wrap_single
        if value_format in _MESSAGES:
            if item is not None and str(item.value).lower() == "false":
                raise script.invalid(
                    item.at,
                    f"Format '{value_format}' does not support 'WRAP_SINGLE_VALUE' set to 'false'.",
                )
            return True
        if item is None:
            default = properties.get("ksql.persistence.wrap.single.values", "true")
            return default.lower() != "false" or len(columns) != 1
        wrap = item.value if isinstance(item.value, bool) else str(item.value).lower() == "true"
        if wrap and value_format in (Format.DELIMITED, Format.KAFKA):
            raise script.invalid(
                item.at,
                f"Format '{value_format}' does not support 'WRAP_SINGLE_VALUE' set to 'true'.",
            )
        if len(columns) != 1:
            raise script.invalid(
                item.at, "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas"
            )
        return wrap


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

    def flag(self, key: str) -> bool:
        item = self._found.get(key)
        if item is None:
            return False
        text = str(item.value).lower()
        if text not in ("true", "false"):
            raise self._script.invalid(item.at, f"{key} must be TRUE or FALSE, not {item.value}")
        return text == "true"

    def format(self, key: str) -> Format | None:
        text = self.text(key)
        if text is None:
            return None
        item = self._found[key]
        name = text.strip().upper()
        if name not in Format.__members__:
            hint = did_you_mean(name, Format.__members__)
            raise self._script.invalid(
                item.at, f"Unknown format: {name}",
                action=hint or f"known are: {', '.join(Format.__members__)}",
            )  # fmt: skip
        return Format(name)

    def window(self) -> WindowKind | None:
        text = self.text("WINDOW_TYPE")
        if text is None:
            return None
        if text.upper() not in WindowKind.__members__:
            raise self._script.unknown(
                self._found["WINDOW_TYPE"].at, "window type", text.upper(), WindowKind.__members__
            )
        return WindowKind(text.upper())

    def duration_ms(self, key: str) -> int | None:
        text = self.text(key)
        if text is None:
            return None
        number, _, unit = text.strip().partition(" ")
        unit_ms = UNITS_MS.get(unit.strip().upper().removesuffix("S"))
        if unit_ms is None or not number.isdigit():
            wrong = f"Unknown time unit: '{unit.strip().upper()}'" if number.isdigit() else ""
            raise self._script.invalid(
                self._found[key].at,
                f"Configuration {key} is invalid: Invalid duration: '{text}'. {wrong}",
                action=f"a whole number and one of {', '.join(UNITS_MS)}",
            )
        return int(number) * unit_ms


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
            raise script.invalid(
                item.at,
                f"Cannot supply both '{key}' and 'FORMAT' properties, as 'FORMAT' sets both key "
                "and value formats. Either use just 'FORMAT', or use 'KEY_FORMAT' and "
                "'VALUE_FORMAT'.",
            )
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
        window=reader.window(),
        window_size_ms=reader.duration_ms("WINDOW_SIZE"),
        wrap_single=reader.get("WRAP_SINGLE_VALUE"),
        key_delimiter=reader.get("KEY_DELIMITER"),
        value_delimiter=reader.get("VALUE_DELIMITER"),
        key_nullable=reader.get("KEY_PROTOBUF_NULLABLE_REPRESENTATION"),
        nullable=reader.get("VALUE_PROTOBUF_NULLABLE_REPRESENTATION"),
        history_ms=reader.duration_ms("HISTORY_RETENTION"),
        broadcast=reader.flag("BROADCAST"),
        deduplicate_ms=reader.duration_ms(DEDUPLICATE),
        key_schema_id=reader.whole("KEY_SCHEMA_ID", 0),
        value_schema_id=reader.whole("VALUE_SCHEMA_ID", 0),
        key_schema_name=reader.text("KEY_SCHEMA_FULL_NAME") or "",
        value_schema_name=reader.text("VALUE_SCHEMA_FULL_NAME") or "",
    )


def broadcast_of(script: Script, at: int, kind: str, options: Options) -> bool:
    """Whether a table is small enough for every state partition to have all of it.

    Raises:
        InvalidStatement: it is no table.
    """
    if options.broadcast and kind != "TABLE":
        raise script.invalid(
            at, f"BROADCAST is of a TABLE that streams join, but this is a {kind}",
            action="say it in the table's WITH clause",
        )  # fmt: skip
    return options.broadcast


def history_of(script: Script, at: int, kind: str, options: Options) -> int | None:
    """How far back a versioned table may be asked, in ms.

    Raises:
        InvalidStatement: it is no table.
    """
    if options.history_ms is not None and kind != "TABLE":
        raise script.invalid(
            at, f"HISTORY_RETENTION makes a TABLE versioned, but this is a {kind}",
            action="remove it",
        )  # fmt: skip
    return options.history_ms


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
        hint = did_you_mean(name, known) or f"known are: {', '.join(known)}"
        raise script.invalid(
            item.at,
            f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{name}'",
            action=hint,
        )
    pattern = options.timestamp_format
    if (column.type.base is Base.STRING) != (pattern is not None):
        raise script.invalid(
            item.at,
            "A String timestamp field has been specified without also specifying the "
            "timestamp_format"
            if pattern is None
            else "'timestamp_format' set in the WITH clause can only be used when the timestamp "
            f"column is of type STRING. {column.name} is {column.type}",
        )
    if column.type.base not in (Base.STRING, Base.BIGINT, Base.TIMESTAMP):
        raise script.invalid(
            item.at,
            f"Timestamp column, `{column.name}`, should be LONG(INT64), TIMESTAMP, or a String "
            f"with a timestamp_format specified: it is {column.type}",
        )
    return TimestampSpec(name, None if pattern is None else str(pattern.value))


def delimiter_of(script: Script, item: Property | None, chosen: Format, inherited: str) -> str:
    """The delimiter of a DELIMITED key or value: one character, or SPACE or TAB by name.

    Raises:
        InvalidStatement: it is longer, or the format has none.
    """
    if item is None:
        return inherited
    if chosen is not Format.DELIMITED:
        raise script.invalid(
            item.at, f"{chosen} does not support the following configs: [delimiter]"
        )
    text = str(item.value)
    named = {"TAB": "\t", "SPACE": " "}.get(text.upper())
    if named is None and (len(text) != 1 or not text.strip()):
        problem = (
            f"Invalid delimiter value: '{text}'. Delimiter must be a single character or TAB,SPACE"
            if text.strip()
            else "Delimiter cannot be empty, if you meant to have a tab or space for delimiter, "
            "please use the special values 'TAB' or 'SPACE'"
        )
        raise script.invalid(
            item.at,
            f"Failed to prepare statement: Configuration {item.key} is invalid: {problem}\n"
            "Example valid value: ';'",
        )
    return named or text


def nullable_of(
    script: Script, item: Property | None, chosen: Format, properties: Mapping[str, str]
) -> Nullable:
    """How a Protobuf key or value tells NULL: OPTIONAL, WRAPPER, or not at all.

    With the properties of ksqlDB's own answers, bytes that are not there are NULL.

    Raises:
        InvalidStatement: it is another word, or the format is not Protobuf.
    """
    if item is None:  # never the source's, as in ksqlDB
        bytes_alone = chosen in _MESSAGES and as_ksqldb(properties)
        return Nullable.BYTES if bytes_alone else Nullable.NONE
    if chosen not in _MESSAGES:
        raise script.invalid(
            item.at, f"{chosen} does not support the following configs: [nullableRepresentation]"
        )
    text = str(item.value).upper()
    if text not in (Nullable.OPTIONAL, Nullable.WRAPPER):
        raise script.invalid(
            item.at,
            f"Configuration {item.key} is invalid: Invalid value {item.value}: String must be one "
            f"of: {Nullable.OPTIONAL}, {Nullable.WRAPPER}, null",
        )
    return Nullable(text)


def check_format(
    script: Script, at: int, part: str, columns: tuple[Column, ...], chosen: Format
) -> None:
    """Refuse columns that the format of a record's `part` ("key" or "value") cannot hold."""
    fact = _misfit(part, columns, chosen)
    if fact:
        raise script.invalid(
            at,
            f"{part.capitalize()} format does not support schema.\nformat: {chosen}\n"
            f"schema: Persistence{{columns=[{_listed(part, columns)}], features=[]}}\n"
            f"reason: {fact}",
            action=f"use {part.upper()}_FORMAT='JSON'",
        )


def _listed(part: str, columns: Iterable[Column]) -> str:
    key = " KEY" if part == "key" else ""
    return ", ".join(f"`{c.name}` {describe(c.type)}{key}" for c in columns)


def _misfit(part: str, columns: tuple[Column, ...], chosen: Format) -> str:
    got = _listed(part, columns)
    if chosen is Format.NONE and columns:
        return f"The 'NONE' format can only be used when no columns are defined. Got: [{got}]"
    if chosen is Format.KAFKA and len(columns) > 1:
        return f"The 'KAFKA' format only supports a single field. Got: [{got}]"
    for column in columns:
        base = column.type.base
        kafka = chosen is Format.KAFKA and base not in _KAFKA_TYPES
        if kafka or (chosen is Format.DELIMITED and base in _NESTED):
            where = "" if kafka else f", column: `{column.name}`"
            return f"The '{chosen}' format does not support type '{base}'{where}"
    for column in columns:
        if chosen in (Format.JSON, Format.JSON_SR) and (found := _odd_map(column.type)):
            return f"JSON only supports MAP types with STRING keys, got {found}: `{column.name}`"
    return _no_message(columns) if chosen in _MESSAGES else ""


def _no_message(columns: tuple[Column, ...]) -> str:
    try:
        file_of(columns)
    except ProtoError as error:
        return str(error)
    return ""


def _odd_map(sql_type: SqlType) -> SqlType | None:
    if sql_type.base is Base.MAP and sql_type.map_key.base is not Base.STRING:
        return sql_type
    inner = [f.type for f in sql_type.fields]
    inner += [sql_type.element] if sql_type.element is not None else []
    return next((found for t in inner if (found := _odd_map(t))), None)
