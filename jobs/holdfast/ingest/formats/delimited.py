"""DELIMITED: separated text, quoted as in RFC 4180, one field per declared column."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import pyarrow as pa

from holdfast.errors import Unsupported
from holdfast.ingest.formats.base import Decoded, Decoder, Payloads, Undecodable
from holdfast.ingest.formats.text import Parser, parser
from holdfast.types.columns.schema import Base, Column

__all__ = ["DelimitedDecoder"]

# Kafka limits the size of records; the module's default limit of 128 KiB per field is too low.
csv.field_size_limit(1 << 30)
_NESTED = frozenset({Base.ARRAY, Base.MAP, Base.STRUCT})


class DelimitedDecoder(Decoder):
    """Matches fields to declared columns by position; an empty field is NULL."""

    def __init__(
        self, declared: Sequence[Column], wanted: Sequence[Column], delimiter: str = ","
    ) -> None:
        """Raises `Unsupported` for a column of a nested type."""
        for column in declared:
            if column.type.base in _NESTED:
                raise Unsupported(
                    f"The 'DELIMITED' format does not support type '{column.type.base}', "
                    f"column {column.name}.",
                    action="use another format, JSON for example.",
                )
        self._count = len(declared)
        self._delimiter = delimiter
        self._wanted = tuple(wanted)
        names = [c.name for c in declared]
        self._fields: list[tuple[int, str, Parser]] = [
            (names.index(c.name), c.name, parser(c.type)) for c in wanted
        ]

    def decode(self, payloads: Payloads) -> Decoded:
        bad: dict[int, str] = {}
        nothing: list[object] = [None] * len(self._wanted)
        rows = []
        for i, payload in enumerate(payloads):
            try:
                rows.append(nothing if payload is None else self._row(payload))
            except Undecodable as error:
                rows.append(nothing)
                bad[i] = str(error)
        columns = zip(*rows, strict=True) if rows else ([] for _ in self._wanted)
        arrays = [pa.array(v, c.type.arrow()) for v, c in zip(columns, self._wanted, strict=True)]
        return Decoded(tuple(arrays), bad)

    def _row(self, payload: bytes) -> list[object]:
        fields = _split(payload, self._delimiter)
        if len(fields) != self._count:
            raise Undecodable(f"{len(fields)} fields, but {self._count} columns are declared")
        return [_value(fields[at], name, parse) for at, name, parse in self._fields]


def _split(payload: bytes, delimiter: str) -> list[str]:
    try:
        text = payload.decode()
        rows = csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True)
        # As in ksqlDB the first line that is not empty is the record.
        return next((fields for fields in rows if fields), [])
    except UnicodeDecodeError as error:
        raise Undecodable(f"not valid UTF-8 at byte {error.start}") from error
    except csv.Error as error:
        raise Undecodable(f"not valid delimited text: {error}") from error


def _value(field: str, name: str, parse: Parser) -> object:
    if not field:
        return None
    try:
        return parse(field)
    except Undecodable as error:
        raise Undecodable(f"{name}: {error}") from error
