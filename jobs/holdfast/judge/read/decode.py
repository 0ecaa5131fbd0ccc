"""Bytes of Kafka records as plain values, by ksqlDB's documented rules.

Input records become Arrow columns for DuckDB; sink records become a key tuple and a dict in
JSON form (what `json.loads` gives: DATE as days, TIMESTAMP as ms, BYTES as base64).
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from holdfast.judge.read.registered import plain_format
from holdfast.judge.values import Key, Row, Untranslatable, no_number, readable
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.statements.topology import Format, Source, WindowKind

__all__ = ["InputDecoder", "SinkDecoder", "json_form", "key_part"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)
_LONG = struct.Struct(">q")
_KAFKA_NUMBERS = {
    Base.INTEGER: struct.Struct(">i"),
    Base.BIGINT: _LONG,
    Base.DOUBLE: struct.Struct(">d"),
}
_DEEPEST = 200  # the deepest nesting of objects and arrays that a record may have
_HOURS = re.compile(r"[+-]\d\d$")  # a time zone with hours only
# Java's date pattern letters as Python's; patterns with other letters are not supported.
_PATTERN = {
    "yyyy": "%Y", "uuuu": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S",
    "SSS": "%f", "SSSSSS": "%f", "X": "%z", "XXX": "%z", "Z": "%z",
}  # fmt: skip


class InputDecoder:
    """Decodes the records of one source; owns the counts of values it could not take literally.

    Args:
        source: gives names, types, formats and event time.
        needed: columns to decode; other columns are ignored.
    """

    def __init__(self, source: Source, needed: Sequence[str]) -> None:
        _check_values(source.value_format)
        self.key_columns = source.key_columns
        self._key_format = plain_format(source.key_format)
        self._values = [c for c in source.value_columns if c.name in needed]
        self._read = [_reader(c.type) for c in self._values]
        self._window = source.window
        self._window_size_ms = source.window_size_ms
        self._fields = [c.name for c in self._values]  # the spelling last seen in a record
        self._event_time = _event_time(source)
        self.columns: tuple[Column, ...] = (*source.key_columns, *self._values)
        self._time_at = -1  # index of the event time among the columns
        if source.timestamp is not None:
            self._time_at = [c.name for c in self.columns].index(source.timestamp.column)
        self.undecodable = 0
        self.doubtful = 0

    def row(self, key: bytes | None, value: bytes, timestamp_ms: int) -> tuple[Any, ...] | None:
        """(event time in ms, key columns …, value columns …); None when it cannot be decoded."""
        try:
            record = _object(value)
            keys = self._keys(key)
            values = [self._value(record, i) for i in range(len(self._values))]
            event_ms = timestamp_ms
            if self._event_time is not None:
                event_ms = self._event_time([*keys, *values][self._time_at])
        except (ValueError, TypeError, struct.error, InvalidOperation):
            self.undecodable += 1
            return None
        return (event_ms, *keys, *values)

    def tombstone(self, key: bytes | None, timestamp_ms: int) -> tuple[Any, ...] | None:
        """The row of a record without a value: its time is the record's own."""
        try:
            keys = self._keys(key)
        except (ValueError, TypeError, struct.error, InvalidOperation):
            self.undecodable += 1
            return None
        return (timestamp_ms, *keys, *[None] * len(self._values))

    def bounds(self, key: bytes | None) -> tuple[int, ...]:
        """Start and end of the window in a windowed source's key, ms; empty of any other."""
        if self._window is None or key is None:
            return ()
        (last,) = _LONG.unpack(key[-_LONG.size :])
        if self._window is not WindowKind.SESSION:
            return last, last + self._window_size_ms
        (end,) = _LONG.unpack(key[-2 * _LONG.size : -_LONG.size])
        return last, end

    def _keys(self, key: bytes | None) -> list[Any]:
        if self._window is not None and key is not None:
            width = 2 if self._window is WindowKind.SESSION else 1
            key = key[: -width * _LONG.size]
        return _key_values(key, self.key_columns, self._key_format)

    def _value(self, record: Mapping[str, Any], index: int) -> Any:
        """A field by its exact name, or else by its name in any case."""
        name = self._fields[index]
        if name not in record:
            wanted = self._values[index].name
            name = wanted if wanted in record else _any_case(record, wanted)
            self._fields[index] = name
        raw = readable(record.get(name))
        if raw is None:
            return None
        value, literal = self._read[index](raw)
        self.doubtful += not literal
        return value


class SinkDecoder:
    """Decodes the records of one sink topic."""

    def __init__(
        self,
        keys: Sequence[Column],
        values: Sequence[Column],
        formats: tuple[Format, Format],
        *,
        windowed: bool,
        sessions: bool = False,
    ) -> None:
        key_format, value_format = formats
        _check_values(value_format)
        self._keys, self._values = keys, values
        self._key_format, self._windowed = plain_format(key_format), windowed
        # A session's key ends with its end and its start.
        self._width = 2 * _LONG.size if sessions else _LONG.size
        self._loads = _exact_loads if any(_has_decimal(c.type) for c in values) else orjson.loads

    def key(self, data: bytes | None) -> Key:
        """Key columns, then the window start in ms for a windowed table.

        Raises:
            ValueError: the bytes are not such a key.
        """
        found = self.full_key(data)
        return found[: len(self._keys) + 1] if self._windowed else found

    def full_key(self, data: bytes | None) -> Key:
        """The key, and for a session its end after the start.

        Raises:
            ValueError: the bytes are not such a key.
        """
        try:
            if not self._windowed:
                return tuple(map(key_part, _key_values(data, self._keys, self._key_format)))
            plain, window = (data or b"")[: -self._width], (data or b"")[-self._width :]
            bounds = [at for (at,) in _LONG.iter_unpack(window)]
            parts = map(key_part, _key_values(plain, self._keys, self._key_format))
            return (*parts, *reversed(bounds))
        except (ValueError, struct.error) as error:
            raise ValueError(f"the sink key {data!r} cannot be read: {error}") from error

    def row(self, data: bytes | None) -> Row | None:
        """Value columns by name; None for a tombstone.

        Raises:
            ValueError: the bytes are not such a value.
        """
        if data is None:
            return None
        found = self._loads(data)
        if not isinstance(found, dict):
            raise TypeError(f"the sink value {data!r} is not a JSON object")
        return found


def _check_values(form: Format) -> None:
    if plain_format(form) is not Format.JSON:
        raise Untranslatable(f"values in {form} format")


def json_form(value: Any, kind: SqlType | None = None) -> Any:  # noqa: PLR0911 - one line per type
    """A value from DuckDB in its JSON form; `kind` tells DATE from TIMESTAMP."""
    if isinstance(value, dt.datetime):
        return _since_epoch(value)
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days
    if isinstance(value, list):
        return [json_form(v) for v in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return no_number(value)
    if isinstance(value, Decimal) and (kind is None or kind.base is not Base.DECIMAL):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def key_part(value: Any) -> Any:
    """A part of a key, equal to another only if the keys' bytes are: 0.0 and -0.0 differ."""
    if isinstance(value, float) and value == 0 and math.copysign(1.0, value) < 0:
        return "-0.0"
    return json_form(value)


def _object(data: bytes) -> dict[str, Any]:
    found = orjson.loads(data)
    if not isinstance(found, dict):
        raise TypeError("not an object")
    if data.count(b"{") + data.count(b"[") > _DEEPEST and _is_deeper(found, _DEEPEST):
        raise ValueError("nested too deeply")
    return found


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(part, levels - 1) for part in parts)


def _key_values(data: bytes | None, columns: Sequence[Column], form: Format) -> list[Any]:
    if not columns:
        return []
    if data is None:
        return [None] * len(columns)
    if form is Format.KAFKA and len(columns) == 1:
        return [_kafka_value(data, columns[0].type.base)]
    if form is Format.DELIMITED:
        raise ValueError("keys in DELIMITED format are not known to the judge")
    found = orjson.loads(data)
    if isinstance(found, dict):
        parts = [found.get(c.name, found.get(_any_case(found, c.name))) for c in columns]
    elif len(columns) == 1:
        parts = [found]
    else:
        raise ValueError("not an object")
    return [_exact_part(part, c.type) for part, c in zip(parts, columns, strict=True)]


def _exact_part(value: Any, kind: SqlType) -> Any:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return Decimal(str(value)) if kind.base is Base.DECIMAL and numeric else value


def _kafka_value(data: bytes, base: Base) -> Any:
    if base in _KAFKA_NUMBERS:
        return _KAFKA_NUMBERS[base].unpack(data)[0]
    if base is not Base.STRING:
        raise ValueError(f"a {base} has no primitive form")
    return data.decode()


def _any_case(record: Mapping[str, Any], wanted: str) -> str:
    folded = wanted.upper()
    return next((name for name in record if name.upper() == folded), wanted)


def _exact_loads(data: bytes) -> Any:
    return json.loads(data, parse_float=Decimal)


def _has_decimal(kind: SqlType) -> bool:
    inner = [kind.element] if kind.element else [f.type for f in kind.fields]
    return kind.base is Base.DECIMAL or any(_has_decimal(i) for i in inner)


# A reader returns (value, whether it was written literally as this type).
_Reader = Callable[[Any], tuple[Any, bool]]


def _reader(kind: SqlType) -> _Reader:
    if kind.base is Base.ARRAY and kind.element is not None:
        return _array(_reader(kind.element))
    try:
        return _READERS[kind.base]
    except KeyError:
        raise Untranslatable(f"columns of type {kind}") from None


def _array(element: _Reader) -> _Reader:
    def read(raw: Any) -> tuple[Any, bool]:
        if not isinstance(raw, list):
            raise TypeError("not an array")
        found = [(None, True) if v is None else element(v) for v in raw]
        return [value for value, _ in found], all(literal for _, literal in found)

    return read


def _boolean(raw: Any) -> tuple[Any, bool]:
    if not isinstance(raw, bool):
        raise TypeError("not a boolean")
    return raw, True


def _whole(raw: Any) -> tuple[Any, bool]:
    if isinstance(raw, bool):
        raise TypeError("not a number")
    return (raw, True) if isinstance(raw, int) else (int(raw), False)


def _real(raw: Any) -> tuple[Any, bool]:
    if isinstance(raw, bool):
        raise TypeError("not a number")
    return float(raw), isinstance(raw, int | float) or raw in _NO_NUMBERS


_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")  # what Jackson writes where JSON has no number


def _decimal(raw: Any) -> tuple[Any, bool]:
    if isinstance(raw, bool):
        raise TypeError("not a number")
    return Decimal(str(raw)), isinstance(raw, int | str)


def _text(raw: Any) -> tuple[Any, bool]:
    return (raw, True) if isinstance(raw, str) else (orjson.dumps(raw).decode(), False)


def _date(raw: Any) -> tuple[Any, bool]:
    return _EPOCH.date() + dt.timedelta(days=int(raw)), isinstance(raw, int)


def _timestamp(raw: Any) -> tuple[Any, bool]:
    return _EPOCH + int(raw) * _MS, isinstance(raw, int)


_READERS: dict[Base, _Reader] = {
    Base.BOOLEAN: _boolean,
    Base.INTEGER: _whole,
    Base.BIGINT: _whole,
    Base.DOUBLE: _real,
    Base.DECIMAL: _decimal,
    Base.STRING: _text,
    Base.DATE: _date,
    Base.TIMESTAMP: _timestamp,
}


def _event_time(source: Source) -> Callable[[Any], int] | None:
    """Turns the timestamp column into event time in ms; None: use the record's timestamp."""
    spec = source.timestamp
    if spec is None:
        return None
    if spec.format is None:
        return _milliseconds
    pattern = _strptime(spec.format)

    def parse(text: Any) -> int:
        if pattern.endswith("%z"):
            text = _HOURS.sub(r"\g<0>00", text)
        found = dt.datetime.strptime(text, pattern)  # noqa: DTZ007 - the next line sets it
        return _since_epoch(found)

    return parse


def _since_epoch(time: dt.datetime) -> int:
    known = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return (known - _EPOCH) // _MS


def _milliseconds(value: Any) -> int:
    if isinstance(value, dt.datetime):
        return _since_epoch(value)
    return int(value)


def _strptime(java: str) -> str:
    """Python's pattern for a Java date pattern.

    Raises:
        Untranslatable: it uses unsupported letters.
    """
    parts = []
    for quoted, letters, other in re.findall(r"'([^']*)'|([A-Za-z]+)|([^A-Za-z']+)", java):
        if letters:
            parts += [_letters(run, java) for run in _runs(letters)]
        else:
            parts.append((quoted or other).replace("%", "%%"))
    return "".join(parts)


def _runs(letters: str) -> list[str]:
    return [found.group(0) for found in re.finditer(r"(.)\1*", letters)]


def _letters(run: str, java: str) -> str:
    if run not in _PATTERN:
        raise Untranslatable(f"the timestamp format {java}")
    return _PATTERN[run]
