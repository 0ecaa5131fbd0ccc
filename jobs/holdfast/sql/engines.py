"""How the two engines spell the same operations.

Spark SQL evaluates before the shuffle, DuckDB after the merge.  Both must give what ksqlDB
gives, so every difference between them (integer division, division by zero, out-of-range
indexes, rounding of casts, backslashes in strings) is settled here, by the text.
A failing operation gives NULL, as in ksqlDB: Spark by `spark.sql.ansi.enabled=false`, DuckDB
by `TRY(...)` around each output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from holdfast.sql.typed import Typed, describe
from holdfast.types.schema import STRING, Base, SqlType

__all__ = ["DUCKDB", "ISO_TIMESTAMP", "SPARK", "Engine", "castable", "explain_cast"]

ISO_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSS"
_TEXT_TIMES = (Base.DATE, Base.TIME, Base.TIMESTAMP)
_WHOLE = (Base.INTEGER, Base.BIGINT)
_NESTED = (Base.ARRAY, Base.MAP, Base.STRUCT)


class Engine(ABC):
    """One SQL dialect.  Every method takes and gives text that is safe as an operand."""

    name: str

    @abstractmethod
    def quote(self, name: str) -> str:
        """An identifier."""

    @abstractmethod
    def string(self, value: str) -> str:
        """A string literal."""

    @abstractmethod
    def type_name(self, sql_type: SqlType) -> str:
        """A type in DDL."""

    @abstractmethod
    def divide(self, left: str, right: str, *, whole: bool) -> str:
        """Division; `whole` truncates towards zero.  By zero it is NULL."""

    @abstractmethod
    def modulo(self, left: str, right: str) -> str:
        """The remainder, with the sign of `left`.  By zero it is NULL."""

    @abstractmethod
    def element(self, array: str, index: str) -> str:
        """The element of an array at a 1-based index, negative from the end, NULL outside."""

    @abstractmethod
    def map_value(self, map_: str, key: str) -> str:
        """A map's value, NULL without the key."""

    @abstractmethod
    def field(self, struct: str, name: str) -> str:
        """A struct's field."""

    @abstractmethod
    def like(self, value: str, pattern: str, escape: str | None) -> str:
        """LIKE; without `escape` no character escapes, as in ksqlDB."""

    @abstractmethod
    def array(self, items: Sequence[str]) -> str:
        """An array of the items."""

    @abstractmethod
    def map(self, keys: Sequence[str], values: Sequence[str]) -> str:
        """A map of the keys to the values."""

    @abstractmethod
    def struct(self, names: Sequence[str], values: Sequence[str]) -> str:
        """A struct."""

    @abstractmethod
    def convert(self, sql: str, given: SqlType, wanted: SqlType) -> str | None:
        """A conversion that needs more than a CAST, if this is one."""

    def concat(self, left: str, right: str) -> str:
        """Text joined; NULL when either is NULL."""
        return f"({left} || {right})"

    def double(self, text: str) -> str:
        """A DOUBLE literal, from a number in scientific notation."""
        return text

    def cast(self, value: Typed, wanted: SqlType) -> str | None:
        """CAST as ksqlDB does it, or None when ksqlDB has no such cast."""
        given = value.type
        if given == wanted:
            return value.sql
        if given is None:
            return f"CAST(NULL AS {self.type_name(wanted)})"
        if not castable(given, wanted):
            return None
        if given.base is Base.STRING and wanted.base is Base.BOOLEAN:
            return f"(lower({value.sql}) = 'true')"
        special = self.convert(value.sql, given, wanted)
        return special or f"CAST({value.sql} AS {self.type_name(wanted)})"


def castable(given: SqlType, wanted: SqlType) -> bool:
    """Whether ksqlDB's CAST goes from one type to the other."""
    a, b = given.base, wanted.base
    if given.numeric and wanted.numeric:
        return True
    if b is Base.STRING:
        return a not in (Base.BYTES, *_NESTED)
    if a is Base.STRING:
        return wanted.numeric or b is Base.BOOLEAN or b in _TEXT_TIMES
    if a is b and given.element is not None and wanted.element is not None:
        return given.element == wanted.element or castable(given.element, wanted.element)
    pairs = ((Base.TIMESTAMP, Base.DATE), (Base.TIMESTAMP, Base.TIME), (Base.DATE, Base.TIMESTAMP))
    return (a, b) in pairs


class _Spark(Engine):
    name = "Spark SQL"

    def quote(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def string(self, value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return "'" + escaped.replace("\n", "\\n").replace("\r", "\\r") + "'"

    def type_name(self, sql_type: SqlType) -> str:
        return sql_type.spark()

    def double(self, text: str) -> str:
        return f"{text}D"

    def divide(self, left: str, right: str, *, whole: bool) -> str:
        return f"({left} {'div' if whole else '/'} {right})"

    def modulo(self, left: str, right: str) -> str:
        return f"({left} % {right})"

    def element(self, array: str, index: str) -> str:
        # Spark fails at index 0, whatever the session's settings.
        never_zero = index.strip("(-)").isdigit() and int(index.strip("(-)")) != 0
        return f"try_element_at({array}, {index if never_zero else f'nullif({index}, 0)'})"

    def map_value(self, map_: str, key: str) -> str:
        return f"try_element_at({map_}, {key})"

    def field(self, struct: str, name: str) -> str:
        return f"{struct}.{self.quote(name)}"

    def like(self, value: str, pattern: str, escape: str | None) -> str:
        if escape is not None:
            return f"({value} LIKE {pattern} ESCAPE {self.string(escape)})"
        # Spark escapes with a backslash unless told otherwise; doubling makes it plain text.
        return f"({value} LIKE replace({pattern}, '\\\\', '\\\\\\\\'))"

    def array(self, items: Sequence[str]) -> str:
        return f"array({', '.join(items)})"

    def map(self, keys: Sequence[str], values: Sequence[str]) -> str:
        made = f"map({', '.join(f'{k}, {v}' for k, v in zip(keys, values, strict=True))})"
        # A NULL key would fail Spark's job.
        unsure = [f"{k} IS NOT NULL" for k in keys if not k.startswith("'")]
        return f"CASE WHEN {' AND '.join(unsure)} THEN {made} END" if unsure else made

    def struct(self, names: Sequence[str], values: Sequence[str]) -> str:
        pairs = (f"{self.string(n)}, {v}" for n, v in zip(names, values, strict=True))
        return f"named_struct({', '.join(pairs)})"

    def convert(self, sql: str, given: SqlType, wanted: SqlType) -> str | None:
        if given.base is Base.TIMESTAMP and wanted == STRING:
            return f"date_format({sql}, {self.string(ISO_TIMESTAMP)})"
        if given.base is Base.TIMESTAMP and wanted.base is Base.TIME:
            return f"CAST(pmod(unix_millis({sql}), 86400000) AS INT)"
        if given.base is Base.TIME and wanted == STRING:
            return f"date_format(timestamp_millis({sql}), 'HH:mm:ss.SSS')"
        if given.base is Base.STRING and wanted.base is Base.TIME:
            return f"CAST(unix_millis(try_to_timestamp({sql}, 'HH:mm[:ss[.SSS]]')) AS INT)"
        return None


class _DuckDb(Engine):
    name = "DuckDB"

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def string(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def type_name(self, sql_type: SqlType) -> str:
        element = sql_type.element
        if sql_type.base is Base.ARRAY and element is not None:
            return f"{self.type_name(element)}[]"
        if sql_type.base is Base.MAP and element is not None:
            return f"MAP(VARCHAR, {self.type_name(element)})"
        if sql_type.base is Base.STRUCT:
            fields = (f"{self.quote(f.name)} {self.type_name(f.type)}" for f in sql_type.fields)
            return f"STRUCT({', '.join(fields)})"
        names = {Base.STRING: "VARCHAR", Base.BYTES: "BLOB", Base.TIME: "INTEGER"}
        return names.get(sql_type.base, str(sql_type))

    def divide(self, left: str, right: str, *, whole: bool) -> str:
        return f"({left} {'//' if whole else '/'} nullif({right}, 0))"

    def modulo(self, left: str, right: str) -> str:
        return f"({left} % nullif({right}, 0))"

    def element(self, array: str, index: str) -> str:
        return f"list_extract({array}, {index})"

    def map_value(self, map_: str, key: str) -> str:
        return f"map_extract_value({map_}, {key})"

    def field(self, struct: str, name: str) -> str:
        return f"struct_extract({struct}, {self.string(name)})"

    def like(self, value: str, pattern: str, escape: str | None) -> str:
        end = "" if escape is None else f" ESCAPE {self.string(escape)}"
        return f"({value} LIKE {pattern}{end})"

    def array(self, items: Sequence[str]) -> str:
        return f"[{', '.join(items)}]"

    def map(self, keys: Sequence[str], values: Sequence[str]) -> str:
        return f"map({self.array(keys)}, {self.array(values)})"

    def struct(self, names: Sequence[str], values: Sequence[str]) -> str:
        pairs = (f"{self.quote(n)} := {v}" for n, v in zip(names, values, strict=True))
        return f"struct_pack({', '.join(pairs)})"

    def convert(self, sql: str, given: SqlType, wanted: SqlType) -> str | None:
        if wanted.base in (Base.INTEGER, Base.BIGINT):
            return self._truncate(sql, given, wanted)
        templates = {
            (Base.TIMESTAMP, Base.STRING): "strftime({x}, '%Y-%m-%dT%H:%M:%S.%g')",
            (Base.TIMESTAMP, Base.TIME): "CAST(epoch_ms({x}) % 86400000 AS INTEGER)",
            (Base.TIME, Base.STRING): "strftime(make_timestamp_ms({x}), '%H:%M:%S.%g')",
            (Base.STRING, Base.TIME): (
                "CAST(epoch_ms(DATE '1970-01-01' + CAST({x} AS TIME)) AS INTEGER)"
            ),
        }
        template = templates.get((given.base, wanted.base))
        return template.replace("{x}", sql) if template else None

    def _truncate(self, sql: str, given: SqlType, wanted: SqlType) -> str | None:
        # DuckDB's own CAST to a whole number rounds.
        name = self.type_name(wanted)
        if given.base is Base.STRING:
            return f"CAST(trunc(CAST({sql} AS DECIMAL(38, 10))) AS {name})"
        return None if given.base in _WHOLE else f"CAST(trunc({sql}) AS {name})"


SPARK: Engine = _Spark()
DUCKDB: Engine = _DuckDb()


def explain_cast(given: SqlType | None, wanted: SqlType) -> str:
    """Why a CAST is refused."""
    hint = ""
    if given is not None and given.base in _NESTED and wanted == STRING:
        hint = "; TO_JSON_STRING makes text of it"
    return f"cannot cast {describe(given)} to {wanted}{hint}"
