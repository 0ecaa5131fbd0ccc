"""CAST: which there are, and how each is written for an engine.

Text is read as ksqlDB reads it: spaces around it do not count, and what is not wholly a value of
the type is NULL.  Parts of arrays, maps and structs are cast one by one.
"""

from __future__ import annotations

from holdfast.sql.expressions.engines import Engine
from holdfast.sql.expressions.notes import Notes
from holdfast.sql.expressions.typed import Typed, describe
from holdfast.types.columns.schema import STRING, Base, SqlType

__all__ = ["cast_sql", "castable", "explain_cast"]

_TEXT_TIMES = (Base.DATE, Base.TIME, Base.TIMESTAMP)
_NESTED = (Base.ARRAY, Base.MAP, Base.STRUCT)
_BETWEEN_TIMES = {
    (Base.TIMESTAMP, Base.DATE), (Base.TIMESTAMP, Base.TIME), (Base.DATE, Base.TIMESTAMP),
}  # fmt: skip
_NUMBER = "[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?"
# What text must be wholly, without the spaces around it; the group is what is cast.
_SHAPES = {
    Base.INTEGER: "([+-]?[0-9]+)",
    Base.BIGINT: "([+-]?[0-9]+)",
    Base.DECIMAL: f"({_NUMBER})",
    Base.DOUBLE: f"({_NUMBER})[fFdD]?",
    Base.DATE: "([0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?)",
    Base.TIME: "([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,9})?)?)",
    Base.TIMESTAMP: (
        "([0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?)(?:T([0-9:.]{0,12})(?:Z|([+-][0-9]{2}:?[0-9]{2}))?)?"
    ),
}


def castable(given: SqlType, wanted: SqlType) -> bool:
    """Whether ksqlDB's CAST goes from one type to the other."""
    a, b = given.base, wanted.base
    if given == wanted or (given.numeric and wanted.numeric):
        return True
    if b is Base.STRING:
        return a is not Base.BYTES
    if a is Base.STRING:
        return wanted.numeric or b in (Base.BOOLEAN, Base.BYTES, *_TEXT_TIMES)
    if a is b and a in _NESTED:
        return all(castable(x, y) for x, y in _parts(given, wanted))
    return (a, b) in _BETWEEN_TIMES


def _parts(given: SqlType, wanted: SqlType) -> list[tuple[SqlType, SqlType]]:
    """The types of what two nested types of one kind have in common, side by side."""
    pairs = []
    if given.element is not None and wanted.element is not None:
        pairs += [(given.map_key, wanted.map_key), (given.element, wanted.element)]
    fields = {f.name: f.type for f in given.fields}
    return pairs + [(fields[f.name], f.type) for f in wanted.fields if f.name in fields]


def explain_cast(given: SqlType | None, wanted: SqlType) -> str:
    """Why a CAST is refused."""
    return f"Cast of {describe(given)} to {describe(wanted)} is not supported"


def cast_sql(
    engine: Engine, value: Typed, wanted: SqlType, notes: Notes, *, released: bool = False
) -> str | None:
    """The value as the wanted type, or None when ksqlDB has no such cast.

    `released`: as in the first release; see `sql.released`.
    """
    if value.type is None:
        return f"CAST(NULL AS {engine.type_name(wanted)})"
    if not castable(value.type, wanted):
        return None
    before = _Cast(engine.before, Notes()).cast(value.sql, value.type, wanted)
    text = _Cast(engine, notes).cast(value.sql, value.type, wanted)
    notes.changed |= before != text
    return before if released else text


class _Cast:
    """Casts nested in each other, `depth` of them, each with a name for its elements."""

    def __init__(self, engine: Engine, notes: Notes, depth: int = 0) -> None:
        self._engine = engine
        self._notes = notes
        self._depth = depth

    def cast(self, sql: str, given: SqlType, wanted: SqlType) -> str:
        """Text; the cast is one that there is."""
        if given == wanted:
            return sql
        self._notes.functions |= dict.fromkeys(self._engine.calls(given, wanted))
        if wanted == STRING:
            return self._text(sql, given)
        if given.base in _NESTED:
            return self._nested(sql, given, wanted)
        if given == STRING:
            return self._parsed(sql, wanted)
        return self._engine.convert(sql, given, wanted)

    def _each(self) -> tuple[_Cast, str]:
        return _Cast(
            self._engine, self._notes, self._depth + 1
        ), f"{_prefix(self._engine)}e{self._depth}"

    def _nested(self, sql: str, given: SqlType, wanted: SqlType) -> str:
        inner, name = self._each()
        if given.base is Base.STRUCT:
            return self._struct(sql, given, wanted)
        assert given.element is not None
        assert wanted.element is not None
        if given.base is Base.ARRAY:
            body = inner.cast(name, given.element, wanted.element)
            return self._engine.each(sql, name, body)
        key = inner.cast(f"{name}.key", given.map_key, wanted.map_key)
        value = inner.cast(f"{name}.value", given.element, wanted.element)
        return self._engine.each_entry(sql, name, key, value)

    def _struct(self, sql: str, given: SqlType, wanted: SqlType) -> str:
        fields = {f.name: f.type for f in given.fields}
        values = [
            self.cast(self._engine.field(sql, given, f.name), fields[f.name], f.type)
            if f.name in fields
            else f"CAST(NULL AS {self._engine.type_name(f.type)})"
            for f in wanted.fields
        ]
        made = self._engine.struct([f.name for f in wanted.fields], values)
        return f"CASE WHEN {sql} IS NOT NULL THEN {made} END"

    def _parsed(self, sql: str, wanted: SqlType) -> str:
        engine, base = self._engine, wanted.base
        if base is Base.BOOLEAN:
            return self._truth(sql)
        if base is Base.BYTES:
            return engine.from_base64(sql)
        groups = 3 if base is Base.TIMESTAMP else 1
        found = [engine.extract(sql, _SHAPES[base], i + 1) for i in range(groups)]
        if base is Base.TIMESTAMP:
            return engine.to_timestamp(*found)
        return engine.read(found[0], wanted)

    def _truth(self, sql: str) -> str:
        """Any beginning of "true" or "yes"; everything else is false."""
        word = f"lower({self._engine.trim(sql)})"
        starts = [self._engine.starts(f"'{whole}'", word) for whole in ("true", "yes")]
        return f"({word} <> '' AND ({' OR '.join(starts)}))"

    def _text(self, sql: str, given: SqlType) -> str:
        inner, name = self._each()
        engine = self._engine
        if given.base is Base.ARRAY and given.element is not None:
            items = engine.each(sql, name, inner.shown(name, given.element))
            return _around("[", engine.join(items, ", "), "]", engine)
        if given.base is Base.MAP and given.element is not None:
            key = inner.shown(f"{name}.key", given.map_key)
            value = inner.shown(f"{name}.value", given.element)
            entry = engine.concat(engine.concat(key, "'='"), value)
            pairs = engine.each(engine.entries(sql), name, entry)
            return _around("{", engine.join(pairs, ", "), "}", engine)
        if given.base is Base.STRUCT:
            return self._struct_text(sql, given)
        return engine.text(sql, given)

    def shown(self, sql: str, given: SqlType) -> str:
        """A part as text; NULL is written out."""
        return f"coalesce({self.cast(sql, given, STRING)}, 'null')"

    def _struct_text(self, sql: str, given: SqlType) -> str:
        engine = self._engine
        # A field that is NULL is not shown: joining leaves it out.
        fields = [
            engine.concat(
                engine.string(f"{f.name}="),
                self.cast(engine.field(sql, given, f.name), f.type, STRING),
            )
            for f in given.fields
        ]
        text = _around("Struct{", engine.join_present(fields, ","), "}", engine)
        return f"CASE WHEN {sql} IS NOT NULL THEN {text} END"


def _prefix(engine: Engine) -> str:
    """The beginning of a lambda's parameter: DuckDB takes a column of the same name instead."""
    return "" if engine is engine.before else "__"


def _around(before: str, sql: str, after: str, engine: Engine) -> str:
    return engine.concat(engine.concat(engine.string(before), sql), engine.string(after))
