"""Decodes JSON one record at a time: exact, and with a reason for every undecodable record.

`orjson` parses first.  If it refuses, or returns a float where a type needs the digits as written
(text, decimals, large integers), the standard library parses again with `Decimal`s and decides
whether the record is JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import NoReturn

import orjson
import pyarrow as pa

from holdfast.ingest.formats.base import Decoded, Undecodable
from holdfast.ingest.formats.json.fast import DEPTH_MAX, openers
from holdfast.ingest.formats.text import fit_decimal, fit_integer, fit_time, fit_timestamp, parser
from holdfast.types.columns.schema import Base, Column, SqlType

__all__ = [
    "Converter",
    "Fields",
    "SlowJson",
    "by_name",
    "converter",
    "mismatch",
    "named",
    "slow_json",
    "unwrapped_value",
]

Converter = Callable[[object], object]
"""A parsed JSON value, not null -> one that Arrow takes."""

_SHAPES = 1_000  # field lists remembered per object type; records mostly share a few
_DIGITS = 4_300  # Python's own limit for integers, because conversion takes quadratic time
_DIGITS_BEFORE_POINT = 40  # more than any integer type has
_TOO_DEEP = f"JSON nested too deeply, more than {DEPTH_MAX} objects and arrays in one another"
_KINDS = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    Decimal: "a number",
    str: "text",
    list: "an array",
    dict: "an object",
}


class _Inexact(Exception):
    """A float was parsed where its written digits matter."""


def slow_json(wanted: Sequence[Column], *, unwrapped: bool) -> SlowJson:
    """The decoder of these columns; `unwrapped`: of a single column's value, not of an object."""
    if unwrapped:
        return SlowJson(wanted, unwrapped_value([converter(c.type) for c in wanted]))
    return SlowJson(wanted, by_name(wanted))


class SlowJson:
    """Decodes payloads of one source into the wanted columns."""

    def __init__(self, wanted: Sequence[Column], convert: Callable[[object], list[object]]) -> None:
        """`convert`: makes the wanted columns of a parsed record that is not null."""
        self._types = [c.type.arrow() for c in wanted]
        self._convert = convert

    def decode(self, payloads: Sequence[bytes]) -> Decoded:
        bad: dict[int, str] = {}
        nulls: list[int] = []
        nothing: list[object] = [None] * len(self._types)
        rows = []
        for i, payload in enumerate(payloads):
            row = None
            try:
                row = self._row(payload)
                if row is None:
                    nulls.append(i)
            except Undecodable as error:
                bad[i] = str(error)
            rows.append(nothing if row is None else row)
        columns = zip(*rows, strict=True) if rows else ([] for _ in self._types)
        arrays = [pa.array(v, t) for v, t in zip(columns, self._types, strict=False)]
        return Decoded(tuple(arrays), bad, frozenset(nulls))

    def _row(self, payload: bytes) -> list[object] | None:
        """The columns of one record, None for JSON's null."""
        try:
            document = orjson.loads(payload)
        except orjson.JSONDecodeError:
            document = _exact(payload)
        if document is None:
            return None
        if openers(payload) > DEPTH_MAX and _too_deep(document):
            raise Undecodable(_TOO_DEEP)
        try:
            return self._convert(document)
        except _Inexact:
            return self._convert(_exact(payload))


def unwrapped_value(converters: Sequence[Converter]) -> Callable[[object], list[object]]:
    """Converts a record that is the value of the only column; `converters`: one, or none."""
    return lambda document: [named("", convert, document) for convert in converters]


def by_name(columns: Sequence[Column]) -> Fields:
    """Converts a record that is an object with a field for each column."""
    return Fields([(c.name, converter(c.type)) for c in columns])


class Fields:
    """The wanted fields of an object, by ksqlDB's matching of names."""

    def __init__(
        self, columns: Sequence[tuple[str, Converter]], defaults: Mapping[str, object] | None = None
    ) -> None:
        """See the class.

        Args:
            columns: (name, converter) of each.
            defaults: converted values of columns that are missing or null; of others: None.
        """
        self._columns = columns
        self._defaults = defaults or {}
        self._shapes: dict[tuple[str, ...], list[tuple[str, str | None, Converter]]] = {}

    def __call__(self, value: object) -> list[object]:
        if type(value) is not dict:
            raise mismatch(value, "an object")
        found = [
            None if field is None else named(name, convert, value[field])
            for name, field, convert in self._shape(tuple(value))
        ]
        if self._defaults:
            names = (name for name, _ in self._columns)
            return [
                self._defaults.get(n) if v is None else v for n, v in zip(names, found, strict=True)
            ]
        return found

    def _shape(self, fields: tuple[str, ...]) -> list[tuple[str, str | None, Converter]]:
        found = self._shapes.get(fields)
        if found is None:
            folded = {f.upper(): f for f in fields if f.isascii()}
            known = set(fields)
            found = [(n, n if n in known else folded.get(n), c) for n, c in self._columns]
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            self._shapes[fields] = found
        return found


def named(name: str, convert: Converter, value: object) -> object:
    """The converted value, None of None; messages begin with the name."""
    if value is None:
        return None
    try:
        return convert(value)
    except UnicodeEncodeError as error:
        raise Undecodable(f"{name}: text with half a surrogate pair") from error
    except Undecodable as error:
        raise Undecodable(f"{name}: {error}" if name else str(error)) from error


def converter(type_: SqlType) -> Converter:
    """The function that converts a parsed JSON value, not null, for Arrow."""
    base = type_.base
    if base is Base.STRUCT:
        return _struct(type_)
    if base is Base.ARRAY and type_.element is not None:
        return _array(converter(type_.element))
    if base is Base.MAP and type_.element is not None:
        return _map(converter(type_.element))
    if base is Base.DECIMAL:
        return _decimal(type_)
    return _SIMPLE[base]


def _boolean(value: object) -> bool:
    if type(value) is not bool:
        raise mismatch(value, "BOOLEAN")
    return value


def _string(value: object) -> str:
    text = _as_text(value)
    if not text.isascii():
        text.encode()
    return text


def _double(value: object) -> float:
    if type(value) is float:
        return value
    if type(value) is str:
        parsed = parser(_DOUBLE)(value)
        assert isinstance(parsed, float)
        return parsed
    if type(value) is not int and type(value) is not Decimal:
        raise mismatch(value, "DOUBLE")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if math.isinf(found):
        raise Undecodable("a number out of DOUBLE's range")
    return found


def _integral(base: Base, fit: Callable[[int], int]) -> Converter:
    """Converts whole numbers; as in ksqlDB a fraction is cut off."""
    parse = parser(SqlType(base))

    def convert(value: object) -> object:
        if type(value) is int:
            return fit(value)
        if type(value) is str:
            return parse(value)
        if type(value) is float:
            raise _Inexact
        if type(value) is not Decimal:
            raise mismatch(value, base)
        if not value.is_finite() or value.adjusted() >= _DIGITS_BEFORE_POINT:
            raise Undecodable(f"a number out of {base}'s range")
        return fit(int(value))

    return convert


def _decimal(type_: SqlType) -> Converter:
    parse = parser(type_)

    def convert(value: object) -> object:
        if type(value) is str:
            return parse(value)
        if type(value) is float:
            raise _Inexact
        if type(value) is not int and type(value) is not Decimal:
            raise mismatch(value, str(type_))
        return fit_decimal(Decimal(value), type_)

    return convert


def _bytes(value: object) -> object:
    if type(value) is not str:
        raise mismatch(value, "BYTES, base64 text")
    return parser(_BYTES)(value)


def _array(element: Converter) -> Converter:
    def convert(value: object) -> object:
        if type(value) is not list:
            raise mismatch(value, "ARRAY")
        return [named(f"[{i}]", element, v) for i, v in enumerate(value)]

    return convert


def _map(element: Converter) -> Converter:
    def convert(value: object) -> object:
        if type(value) is not dict:
            raise mismatch(value, "MAP")
        return [(_string(k), named(k, element, v)) for k, v in value.items()]

    return convert


def _struct(type_: SqlType) -> Converter:
    fields = by_name(type_.fields)
    names = [f.name for f in type_.fields]
    return lambda value: dict(zip(names, fields(value), strict=True))


_DOUBLE = SqlType(Base.DOUBLE)
_BYTES = SqlType(Base.BYTES)
_SIMPLE: dict[Base, Converter] = {
    Base.BOOLEAN: _boolean,
    Base.STRING: _string,
    Base.DOUBLE: _double,
    Base.BYTES: _bytes,
    Base.INTEGER: _integral(Base.INTEGER, lambda v: fit_integer(v, Base.INTEGER)),
    Base.BIGINT: _integral(Base.BIGINT, lambda v: fit_integer(v, Base.BIGINT)),
    Base.DATE: _integral(Base.DATE, lambda v: fit_integer(v, Base.DATE)),
    Base.TIME: _integral(Base.TIME, fit_time),
    Base.TIMESTAMP: _integral(Base.TIMESTAMP, fit_timestamp),
}


def _too_deep(document: object) -> bool:
    level = [document]
    for _ in range(DEPTH_MAX + 1):
        parts = [v.values() if type(v) is dict else v for v in level if type(v) in (dict, list)]
        level = [v for part in parts for v in part]  # type: ignore[attr-defined]
    return bool(level)


def _as_text(value: object) -> str:
    """A JSON value as ksqlDB converts it to a STRING.

    Python's stack has room for one call per level up to `DEPTH_MAX`, here and in `_compact`.
    """
    if value is None:
        return "null"
    if type(value) is str:
        return value
    if type(value) is list:
        return "[" + ", ".join(map(_as_text, value)) + "]"
    return _compact(value)


def _compact(value: object) -> str:
    """JSON without spaces, numbers as they were written."""
    if type(value) is float:
        raise _Inexact
    if type(value) is Decimal:
        return str(value)
    if type(value) is dict:
        fields = map("{}:{}".format, map(_quoted, value), map(_compact, value.values()))
        return "{" + ",".join(fields) + "}"
    if type(value) is list:
        return "[" + ",".join(map(_compact, value)) + "]"
    return _quoted(value)


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _exact(payload: bytes) -> object:
    """Parses with every number as written: int or Decimal.

    Raises:
        Undecodable: it is not JSON; the message says where.
    """
    try:
        return json.loads(
            payload.decode(),
            parse_float=_decimal_number,
            parse_int=_integer,
            parse_constant=_refuse,
        )
    except UnicodeDecodeError as error:
        raise Undecodable(f"not valid UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise Undecodable(f"not valid JSON at character {error.pos}: {error.msg}") from error
    except RecursionError as error:
        raise Undecodable(_TOO_DEEP) from error


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < _DIGITS else Decimal(text)


def _decimal_number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise Undecodable("not valid JSON: a number with an impossible exponent") from error


def _refuse(name: str) -> NoReturn:
    raise Undecodable(f"not valid JSON: {name} is not a JSON number")


def mismatch(value: object, wanted: str) -> Undecodable:
    """The error for a value of the wrong type."""
    return Undecodable(f"{_KINDS.get(type(value), 'null')} where {wanted} is declared")
