"""Records for a declared source, made from its columns and formats; the same for the same seed."""

from __future__ import annotations

import base64
import bisect
import datetime as dt
import itertools
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.chaos.load.registered import Encode, cut_off, encoder, message_encoder
from holdfast.errors import Refused
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema, Schemas
from holdfast.types.statements.sources import Nullable
from holdfast.types.statements.topology import Format, Source

__all__ = ["InputRecord", "Keys", "LoadShape", "RecordMaker"]

_HOUR_MS = 3_600_000
_KAFKA = {Base.INTEGER: ">i", Base.BIGINT: ">q", Base.DOUBLE: ">d"}
_NESTED = frozenset({Base.ARRAY, Base.MAP, Base.STRUCT})


@dataclass(frozen=True)
class InputRecord:
    """One record to send; `timestamp_ms` is the record's own."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True)
class LoadShape:
    """The shape of the records; shares are 0 to 1 of all records.

    Attributes:
        keys: how many different keys.
        distribution: uniform, or zipf: few keys get most.
        out_of_order: event time up to `disorder_ms` older than the moment of sending.
        late: event time older than any window's grace period (`late_ms`).
    """

    keys: int = 200
    distribution: str = "uniform"
    out_of_order: float = 0.2
    late: float = 0.0
    tombstones: float = 0.0
    garbage: float = 0.0
    disorder_ms: int = 5_000
    late_ms: int = 48 * _HOUR_MS


class Keys:
    """Draws key numbers, 0 to `count` - 1."""

    def __init__(self, count: int, distribution: str) -> None:
        self._count = count
        weights = (1 / rank for rank in range(1, count + 1))
        self._sums = list(itertools.accumulate(weights)) if distribution == "zipf" else []

    def draw(self, chance: random.Random) -> int:
        if not self._sums:
            return chance.randrange(self._count)
        return bisect.bisect_left(self._sums, chance.random() * self._sums[-1])


class RecordMaker:
    """Makes the records of one source.

    Texts and keys derive from the drawn key; other columns are small random values, whatever the
    column's name: so every GROUP BY has as many groups as there are keys.
    """

    def __init__(self, source: Source, shape: LoadShape, schemas: Schemas | None = None) -> None:
        """`schemas`: the registry; the first record registers schemas that are new there.

        Raises:
            Refused: this source is of a kind that no records can be made for.
        """
        self._source, self._shape = source, shape
        self._keys = Keys(shape.keys, shape.distribution)
        self._time = source.timestamp.column if source.timestamp is not None else None
        self._refuse()
        key, value = source.key_columns, source.value_columns
        self._write_key = self._writer(
            key, source.key_format, source.key_schema, schemas, source.key_nullable
        )
        self._write = self._writer(
            value, source.value_format, source.value_schema, schemas, source.nullable
        )

    def make(self, number: int, seed: int, now_ms: int) -> InputRecord:
        """Record `number` of a run; everything but its time follows from `seed` and `number`.

        Raises:
            SchemaRefused: the registry does not take the source's schema.
            RegistryUnavailable: it does not answer.
        """
        chance = random.Random(seed * 1_000_003 + number)
        key = self._keys.draw(chance)
        kind = chance.random()
        event_ms = self._event_ms(chance, now_ms)
        key_bytes = self._key(key, event_ms)
        if self._shape.garbage <= kind < self._shape.garbage + self._shape.tombstones:
            return InputRecord(key_bytes, None, now_ms)
        values = [self._value(c, key, chance, event_ms) for c in self._source.value_columns]
        value = self._write(values)
        if kind < self._shape.garbage:
            return InputRecord(key_bytes, _garbage(self._source.value_format, value), now_ms)
        return InputRecord(key_bytes, value, event_ms if self._time is None else now_ms)

    def _writer(
        self, columns: Sequence[Column], form: Format, data: DataSchema | None,
        schemas: Schemas | None, nullable: Nullable,
    ) -> Encode:  # fmt: skip
        if form is Format.PROTOBUF_NOSR and columns:
            return message_encoder(columns, nullable)
        if form.schema_kind is None:
            return lambda values: _encoded(columns, values, form)
        chance = random.Random(0)
        example = [self._value(c, 0, chance, 0) for c in columns]
        return encoder(form, columns, data, schemas, example)

    def _event_ms(self, chance: random.Random, now_ms: int) -> int:
        kind = chance.random()
        if kind < self._shape.late:
            return now_ms - self._shape.late_ms
        if kind < self._shape.late + self._shape.out_of_order:
            return now_ms - chance.randrange(self._shape.disorder_ms)
        return now_ms

    def _key(self, key: int, event_ms: int) -> bytes | None:
        columns = self._source.key_columns
        if not columns:
            return b"k%d" % key
        if self._source.key_format is Format.NONE:
            return None
        chance = random.Random(key)  # the same bytes for the same key
        values = [key if c.type.numeric else self._value(c, key, chance, event_ms)
                  for c in columns]  # fmt: skip
        form = self._source.key_format
        if form is Format.JSON and len(columns) == 1:
            return orjson.dumps(values[0])
        return self._write_key(values)

    def _value(self, column: Column, key: int, chance: random.Random, event_ms: int) -> Any:
        if column.name == self._time:
            return self._time_text(event_ms) if column.type.base is Base.STRING else event_ms
        return _made(column.type, key, chance)

    def _time_text(self, event_ms: int) -> str:
        at = dt.datetime.fromtimestamp(event_ms / 1000, dt.UTC)
        return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{event_ms % 1000:03d}Z"

    def _refuse(self) -> None:
        source = self._source
        if source.timestamp is not None and source.timestamp.format is not None:
            raise _cannot(source, f"times like {source.timestamp.format}")
        if not 0 <= self._shape.garbage + self._shape.tombstones <= 1:
            raise Refused("More than every record would be garbage or a tombstone.")
        if self._shape.garbage and source.value_format is Format.KAFKA:
            raise _cannot(source, "values that the format KAFKA cannot hold")
        parts = (
            (source.key_columns, source.key_format),
            (source.value_columns, source.value_format),
        )
        for columns, form in parts:
            nested = [c for c in columns if c.type.base in _NESTED]
            if form is Format.DELIMITED and nested:
                raise _cannot(source, f"{nested[0]} in the format DELIMITED")
            if form is Format.KAFKA and any(c.type.base not in _KAFKA_BASES for c in columns):
                raise _cannot(source, "a column of this type in the format KAFKA")


_KAFKA_BASES = frozenset({*_KAFKA, Base.STRING, Base.BYTES})
_GARBAGE = {
    Format.JSON: b'{"half": ',
    Format.DELIMITED: b"\xff\xfe",
    Format.KAFKA: b"\xff",
    Format.NONE: b"\xff",
    Format.PROTOBUF_NOSR: b"\xff",
}


def _garbage(form: Format, written: bytes) -> bytes:
    return cut_off(form, written) if form.schema_kind is not None else _GARBAGE[form]


def _cannot(source: Source, what: str) -> Refused:
    return Refused(
        f"The workload cannot make records for {source.name}: it does not know {what}.",
        action="feed the topic yourself and judge the job with `holdfast verify`",
    )


def _made(kind: SqlType, key: int, chance: random.Random) -> Any:
    """A value in its JSON form."""
    if kind.base is Base.ARRAY and kind.element is not None:
        return [_made(kind.element, key, chance) for _ in range(2)]
    if kind.base is Base.MAP and kind.element is not None:
        return {f"f{key % 3}": _made(kind.element, key, chance)}
    if kind.base is Base.STRUCT:
        return {f.name: _made(f.type, key, chance) for f in kind.fields}
    return _SIMPLE[kind.base](key, chance)


_SIMPLE: Mapping[Base, Callable[[int, random.Random], Any]] = {
    Base.STRING: lambda key, _: f"k{key}",
    Base.BYTES: lambda key, _: base64.b64encode(b"k%d" % key).decode(),
    Base.BOOLEAN: lambda _, chance: chance.random() < 0.5,
    Base.INTEGER: lambda _, chance: chance.randrange(100),
    Base.BIGINT: lambda _, chance: chance.randrange(100),
    # Quarters add up without rounding, in any order.
    Base.DOUBLE: lambda _, chance: chance.randrange(400) / 4,
    Base.DECIMAL: lambda _, chance: chance.randrange(10),
    Base.DATE: lambda _, chance: 19_000 + chance.randrange(100),
    Base.TIME: lambda _, chance: chance.randrange(24 * _HOUR_MS),
    Base.TIMESTAMP: lambda _, chance: 1_700_000_000_000 + chance.randrange(_HOUR_MS),
}


def _encoded(columns: Sequence[Column], values: Sequence[Any], form: Format) -> bytes:
    if form is Format.JSON:
        return orjson.dumps(dict(zip((c.name for c in columns), values, strict=True)))
    if form is Format.DELIMITED:
        return ",".join(map(_field, columns, values)).encode()
    base, value = columns[0].type.base, values[0]
    if base in _KAFKA:
        return struct.pack(_KAFKA[base], value)
    return base64.b64decode(value) if base is Base.BYTES else str(value).encode()


def _field(column: Column, value: Any) -> str:
    return str(value).lower() if column.type.base is Base.BOOLEAN else str(value)
