"""NULLs that a sink's format cannot tell from values: Protobuf's fields without presence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.judge.values import Key, Match, Row, Untranslatable
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.statements.sources import Format, Nullable, Sink

__all__ = ["Blanks"]

# The other types are messages, which can be absent, or lists.
_ZERO: Mapping[Base, Any] = {
    Base.BOOLEAN: False, Base.INTEGER: 0, Base.BIGINT: 0, Base.DOUBLE: 0.0,
    Base.STRING: "", Base.BYTES: "",
}  # fmt: skip
_MESSAGES = (Format.PROTOBUF, Format.PROTOBUF_NOSR)
_LISTS: Mapping[Base, Any] = {Base.ARRAY: [], Base.MAP: {}}


class Blanks:
    """NULLs in the keys and rows of one sink, as its formats have them."""

    def __init__(self, sink: Sink) -> None:
        """Raises `Untranslatable`: a schema that is given by its id says what can be NULL."""
        parts = (
            (sink.key_columns, sink.key_format, sink.key_nullable, sink.key_schema),
            (sink.value_columns, sink.value_format, sink.nullable, sink.value_schema),
        )
        for _, form, _, schema in parts:
            if form is Format.PROTOBUF and schema is not None and schema.fixed:
                raise Untranslatable("results in a Protobuf schema that is given by its id")
        self._keys, self._values = (
            _Defaults(columns, nullable) if form in _MESSAGES else None
            for columns, form, nullable, _ in parts
        )
        self._width = len(sink.key_columns)

    def rows(self, rows: Mapping[Key, Row], matches: Mapping[str, Match]) -> Mapping[Key, Row]:
        """A table's rows by their keys, with default values in place of NULLs.

        Raises:
            Untranslatable: a key has a NULL that its format cannot tell from a value.
        """
        if self._keys is not None:
            for key in rows:
                if self._keys.filled(key[: self._width]) != key[: self._width]:
                    raise Untranslatable("NULL in a Protobuf key, which is another key's as well")
        return {key: self.row(row, matches) for key, row in rows.items()}

    def row(self, row: Row, matches: Mapping[str, Match]) -> Row:
        """A row with default values in place of NULLs."""
        return row if self._values is None else self._values.row(row, matches)

    def record(self, record: Key) -> Key:
        """A stream's record, key columns first; default values are NULL.

        So a record without a value is like one whose columns are all NULL.
        """
        key, value = record[: self._width], record[self._width :]
        key = key if self._keys is None else self._keys.emptied(key)
        return (*key, *(value if self._values is None else self._values.emptied(value)))

    def records(self, records: Mapping[Key, int]) -> Counter[Key]:
        """How often each of a stream's records is there; see `record`."""
        found: Counter[Key] = Counter()
        for record, times in records.items():
            found[self.record(record)] += times
        return found


class _Defaults:
    """The default values of columns without presence."""

    def __init__(self, columns: Sequence[Column], nullable: Nullable) -> None:
        self._empty_is_null = nullable is Nullable.BYTES
        default = nullable in (Nullable.NONE, Nullable.BYTES)
        self._zero = {
            base: zero
            for base, zero in _ZERO.items()
            if default and not (self._empty_is_null and base is Base.BYTES)
        }
        self._kinds = {c.name: c.type for c in columns}

    def filled(self, values: Key) -> Key:
        return tuple(map(self._filled, values, self._kinds.values()))

    def emptied(self, values: Key) -> Key:
        blank = [self._filled(None, kind) for kind in self._kinds.values()]
        whole = self.filled(values)
        return tuple(None if v == b else v for v, b in zip(whole, blank, strict=True))

    def row(self, row: Row, matches: Mapping[str, Match]) -> Row:
        return {name: self._expected(v, name, matches.get(name)) for name, v in row.items()}

    def _expected(self, value: Any, name: str, match: Match | None) -> Any:
        """A value as `same` wants it: of some comparisons, it is a list of them."""
        kind = self._kinds.get(name)
        if kind is None:
            return value
        if match is Match.ANY_OF:
            return [self._filled(each, kind) for each in value or (None,)]
        if match is Match.BETWEEN and value is None and kind.base is not Base.ARRAY:
            return [self._filled(None, kind)] * 2
        return self._filled(value, kind) if match in _PLAIN or value is None else value

    def _filled(self, value: Any, kind: SqlType) -> Any:
        no_bytes = self._empty_is_null and kind.base is Base.BYTES and value == ""
        if value is None or no_bytes:
            return self._zero.get(kind.base, _LISTS.get(kind.base))
        if kind.element is not None and isinstance(value, list):
            return [self._within(each, kind.element) for each in value]
        if kind.element is not None and isinstance(value, dict):
            return {k: self._within(v, kind.element) for k, v in value.items()}
        if kind.fields and isinstance(value, dict):
            return {f.name: self._filled(value.get(f.name), f.type) for f in kind.fields}
        return value

    def _within(self, value: Any, kind: SqlType) -> Any:
        """An element of a list or map, which is never absent, whatever its type."""
        return _ZERO.get(kind.base) if value is None else self._filled(value, kind)


_PLAIN = (None, Match.EXACT, Match.BAG)
