"""How DuckDB spells operations, and how the engines of the first release did.

DuckDB evaluates every expression.  In the first release Spark SQL did before the shuffle, and
DuckDB had other texts after it: both are part of fingerprints.  All give what ksqlDB gives, so
every difference between them (integer division, division by zero, out-of-range indexes, rounding
of casts, backslashes in strings) is settled here, by the text.  A failing operation gives NULL, as
in ksqlDB: `TRY(...)` is around each expression.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from holdfast.tasks.functions.names import sql_name
from holdfast.types.columns.schema import DOUBLE, STRING, Base, Column, SqlType
from holdfast.types.statements.expressions import (
    Expression,
    NamedExpression,
    struct_names,
    type_name,
)

__all__ = ["DUCKDB", "ISO_TIMESTAMP", "SPARK", "Engine"]

ISO_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSS"
_WHOLE = (Base.INTEGER, Base.BIGINT)
_SPACES = "^[ \t\r\n]*"
_SPACES_TO_END = "[ \t\r\n]*$"
_DATE, _TIME = "'0000-01-01'", "'00:00:00.000'"
_ALWAYS = (Base.DOUBLE, Base.DATE, Base.TIMESTAMP)  # casts to these cannot fail
_BLANK = " \t\r\n"
_DOUBLE_TEXT = sql_name("DOUBLE_TEXT", STRING, [DOUBLE])
_UNBASE64 = sql_name("UNBASE64", SqlType(Base.BYTES), [STRING])
_DAY_US = 86_400_000_000
_PLAIN_SCALE = 6  # decimals of a larger one are printed with an exponent by Spark


class Engine(ABC):
    """One SQL dialect.  Every method takes and gives text that is safe as an operand."""

    name: str

    @property
    def before(self) -> Engine:
        """The engine with the texts of the first release, for fingerprints."""
        return self

    @abstractmethod
    def quote(self, name: str) -> str:
        """An identifier."""

    def column(self, column: Column) -> Expression:
        """A column of the rows, as it is."""
        name = column.name
        return Expression(self.quote(name), column.type, columns=(name,), ref=name)

    def named(self, column: Column) -> NamedExpression:
        """A column of the rows under its own name."""
        return NamedExpression(column.name, self.column(column))

    def zoneless(self, sql: str, sql_type: SqlType) -> str:
        """A column's value; DuckDB's timestamps lose their zone, and mean UTC."""
        return sql

    @abstractmethod
    def string(self, value: str) -> str:
        """A string literal."""

    @abstractmethod
    def type_name(self, sql_type: SqlType) -> str:
        """A type in DDL."""

    @abstractmethod
    def divide(self, left: str, right: str, *, whole: bool) -> str:
        """Division; `whole` truncates towards zero, and by zero it is NULL, as for a DECIMAL."""

    @abstractmethod
    def modulo(self, left: str, right: str) -> str:
        """The remainder, with the sign of `left`.  By zero it is NULL."""

    def wrapped(self, operator: str, left: str, right: str, result: SqlType) -> str:
        """+ - * / % of whole numbers; what is too large wraps around, as in Java."""
        if operator in "/%":
            made = self.divide(left, right, whole=True) if operator == "/" else None
            return made or self.modulo(left, right)
        return f"({left} {operator} {right})"

    def negated(self, number: str, sql_type: SqlType) -> str:
        """A number with the other sign."""
        return f"(- {number})"

    @abstractmethod
    def divide_doubles(self, left: str, right: str) -> str:
        """As floating-point numbers are divided: by zero it is infinite, or no number."""

    @abstractmethod
    def modulo_doubles(self, left: str, right: str) -> str:
        """The remainder of floating-point numbers; by zero it is no number."""

    @abstractmethod
    def element(self, array: str, index: str) -> str:
        """The element of an array at a 1-based index, negative from the end, NULL outside."""

    @abstractmethod
    def map_value(self, map_: str, key: str) -> str:
        """A map's value, NULL without the key."""

    @abstractmethod
    def field(self, struct: str, of: SqlType, name: str) -> str:
        """A field of a struct of type `of`."""

    @abstractmethod
    def header(self, headers: str, key: str) -> str:
        """The value of the last record header with that key; NULL without one."""

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
    def each(self, array: str, name: str, body: str) -> str:
        """An array of `body` for every element, which it knows as `name`."""

    @abstractmethod
    def each_entry(self, map_: str, name: str, key: str, value: str) -> str:
        """A map of `key` to `value` for every entry, whose parts are `name`.key and .value."""

    @abstractmethod
    def join(self, array: str, separator: str) -> str:
        """The texts of an array as one; what is NULL is left out."""

    def join_present(self, texts: Sequence[str], separator: str) -> str:
        """Texts as one; what is NULL is left out, and it is empty if all are."""
        return self.join(self.array(texts), separator)

    @abstractmethod
    def convert(self, sql: str, given: SqlType, wanted: SqlType) -> str:
        """A cast between numbers or between times."""

    @abstractmethod
    def text(self, sql: str, given: SqlType) -> str:
        """A value without parts as text, the way Java prints it."""

    def calls(self, given: SqlType, wanted: SqlType) -> tuple[str, ...]:
        """The Python functions that a cast between two types calls."""
        return ()

    @abstractmethod
    def read(self, text: str, wanted: SqlType) -> str:
        """Text that has the shape of a number, a date or a time as that; empty text is NULL."""

    @abstractmethod
    def to_timestamp(self, date: str, time: str, zone: str) -> str:
        """A TIMESTAMP of the beginnings of a date and a time, and an offset; NULL without date."""

    @abstractmethod
    def from_base64(self, text: str) -> str:
        """BYTES; NULL of text that is no base64."""

    @abstractmethod
    def trim(self, text: str) -> str:
        """Text without the spaces around it."""

    def starts(self, text: str, beginning: str) -> str:
        """Whether text begins so."""
        return f"(left({text}, length({beginning})) = {beginning})"

    def extract(self, text: str, shape: str, group: int) -> str:
        """A group of a regular expression that is the whole text but for spaces; else empty."""
        return f"regexp_extract({text}, {self.string(_SPACES + shape + _SPACES_TO_END)}, {group})"

    def entries(self, map_: str) -> str:
        """A map's entries as an array."""
        return f"map_entries({map_})"

    def sorted_entries(self, map_: str) -> str:
        """A map's entries in the order of their keys."""
        return f"array_sort({self.entries(map_)})"

    def concat(self, left: str, right: str) -> str:
        """Text joined; NULL when either is NULL."""
        return f"({left} || {right})"

    def double(self, text: str) -> str:
        """A DOUBLE literal, from a number in scientific notation."""
        return text

    def decimal(self, text: str, sql_type: SqlType) -> str:
        """A DECIMAL literal; without a whole part other than 0 engines count its digits anew."""
        plain = sql_type.scale and sql_type.precision > sql_type.scale + 1
        return text if plain else f"CAST({text} AS {self.type_name(sql_type)})"

    def _infinite_is_null(self, double: str) -> str:
        return f"nullif(nullif({double}, {self.endless('')}), {self.endless('-')})"

    def endless(self, sign: str) -> str:
        """An infinite DOUBLE."""
        return f"CAST('{sign}Infinity' AS DOUBLE)"


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

    def divide_doubles(self, left: str, right: str) -> str:
        by_zero = f"CASE WHEN {right} = 0 THEN {left} * {self.endless('')} END"
        return f"coalesce({left} / {right}, {by_zero})"

    def modulo_doubles(self, left: str, right: str) -> str:
        by_zero = f"CASE WHEN {right} = 0 AND {left} IS NOT NULL THEN CAST('NaN' AS DOUBLE) END"
        return f"coalesce({left} % {right}, {by_zero})"

    def element(self, array: str, index: str) -> str:
        # Spark fails at index 0, whatever the session's settings.
        never_zero = index.strip("(-)").isdigit() and int(index.strip("(-)")) != 0
        return f"try_element_at({array}, {index if never_zero else f'nullif({index}, 0)'})"

    def map_value(self, map_: str, key: str) -> str:
        return f"try_element_at({map_}, {key})"

    def field(self, struct: str, of: SqlType, name: str) -> str:
        return f"{struct}.{self.quote(name)}"

    def header(self, headers: str, key: str) -> str:
        found = f"filter({headers}, h -> h.`KEY` = {self.string(key)})"
        return f"try_element_at({found}, -1).`VALUE`"

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

    def each(self, array: str, name: str, body: str) -> str:
        return f"transform({array}, {name} -> {body})"

    def each_entry(self, map_: str, name: str, key: str, value: str) -> str:
        pair = f"struct({key} AS key, {value} AS value)"
        return f"map_from_entries({self.each(self.entries(map_), name, pair)})"

    def join(self, array: str, separator: str) -> str:
        return f"array_join({array}, {self.string(separator)})"

    def trim(self, text: str) -> str:
        return f"btrim({text}, {self.string(_BLANK)})"

    def from_base64(self, text: str) -> str:
        return f"try_to_binary({self.trim(text)}, 'base64')"

    def convert(self, sql: str, given: SqlType, wanted: SqlType) -> str:
        if given.base is Base.TIMESTAMP and wanted.base is Base.TIME:
            return f"CAST(pmod(unix_millis({sql}), 86400000) AS INT)"
        return f"CAST({sql} AS {self.type_name(wanted)})"

    def text(self, sql: str, given: SqlType) -> str:
        if given.base is Base.TIMESTAMP:
            return f"date_format({sql}, {self.string(ISO_TIMESTAMP)})"
        if given.base is Base.TIME:
            shown = f"date_format(timestamp_millis({sql}), 'HH:mm:ss')"
            return f"regexp_replace({shown}, '(?<=:..):00$', '')"
        if given.base is Base.DECIMAL and given.scale > _PLAIN_SCALE:
            return f"replace(format_number({sql}, {given.scale}), ',', '')"
        return f"CAST({sql} AS STRING)"

    def read(self, text: str, wanted: SqlType) -> str:
        if wanted.base is Base.TIME:
            moment = f"CAST(concat('1970-01-01T', nullif({text}, '')) AS TIMESTAMP)"
            return f"CAST(unix_millis({moment}) AS INT)"
        found = f"CAST({text} AS {self.type_name(wanted)})"
        return self._infinite_is_null(found) if wanted == DOUBLE else found

    def to_timestamp(self, date: str, time: str, zone: str) -> str:
        parts = [f"nullif({date}, '')", _rest(_DATE, date), "'T'", time, _rest(_TIME, time), zone]
        return f"CAST(concat({', '.join(parts)}) AS TIMESTAMP)"


class _FirstDuckDb(Engine):
    """DuckDB's texts of the first release."""

    name = "DuckDB"

    def zoneless(self, sql: str, sql_type: SqlType) -> str:
        return f"make_timestamp(epoch_us({sql}))" if sql_type.base is Base.TIMESTAMP else sql

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def string(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def type_name(self, sql_type: SqlType) -> str:
        return type_name(sql_type)

    def divide(self, left: str, right: str, *, whole: bool) -> str:
        return f"({left} {'//' if whole else '/'} nullif({right}, 0))"

    def modulo(self, left: str, right: str) -> str:
        return f"({left} % nullif({right}, 0))"

    def divide_doubles(self, left: str, right: str) -> str:
        return f"({left} / {right})"

    def modulo_doubles(self, left: str, right: str) -> str:
        return f"({left} % {right})"

    def element(self, array: str, index: str) -> str:
        return f"list_extract({array}, {index})"

    def map_value(self, map_: str, key: str) -> str:
        return f"map_extract_value({map_}, {key})"

    def field(self, struct: str, of: SqlType, name: str) -> str:
        fields = [f.name for f in of.fields]
        return f"struct_extract({struct}, {self.string(struct_names(fields)[fields.index(name)])})"

    def header(self, headers: str, key: str) -> str:
        found = f'list_filter({headers}, lambda __h: __h."KEY" = {self.string(key)})'
        return f"struct_extract(list_extract({found}, -1), 'VALUE')"

    def like(self, value: str, pattern: str, escape: str | None) -> str:
        end = "" if escape is None else f" ESCAPE {self.string(escape)}"
        return f"({value} LIKE {pattern}{end})"

    def array(self, items: Sequence[str]) -> str:
        return f"[{', '.join(items)}]"

    def map(self, keys: Sequence[str], values: Sequence[str]) -> str:
        return f"map({self.array(keys)}, {self.array(values)})"

    def struct(self, names: Sequence[str], values: Sequence[str]) -> str:
        named = zip(struct_names(names), values or ["CAST(NULL AS BOOLEAN)"], strict=True)
        pairs = (f"{self.quote(n)} := {v}" for n, v in named)
        return f"struct_pack({', '.join(pairs)})"

    def each(self, array: str, name: str, body: str) -> str:
        return f"list_transform({array}, lambda {name}: {body})"

    def each_entry(self, map_: str, name: str, key: str, value: str) -> str:
        pair = f"struct_pack(k := {key}, v := {value})"
        return f"map_from_entries({self.each(self.entries(map_), name, pair)})"

    def join(self, array: str, separator: str) -> str:
        return f"array_to_string({array}, {self.string(separator)})"

    def trim(self, text: str) -> str:
        return f"trim({text}, {self.string(_BLANK)})"

    def from_base64(self, text: str) -> str:
        return f"TRY(from_base64({self.trim(text)}))"

    def convert(self, sql: str, given: SqlType, wanted: SqlType) -> str:
        if given.base is Base.TIMESTAMP and wanted.base is Base.TIME:
            return f"CAST(((epoch_ms({sql}) % 86400000) + 86400000) % 86400000 AS INTEGER)"
        if given.base is Base.BIGINT and wanted.base is Base.INTEGER:  # it wraps around
            low = f"(({sql} & 4294967295) + 2147483648) & 4294967295"
            return f"CAST(({low}) - 2147483648 AS INTEGER)"
        if wanted.base in _WHOLE and given.base not in _WHOLE:
            return f"TRY_CAST(trunc({sql}) AS {self.type_name(wanted)})"  # CAST would round
        always = given.base in _WHOLE if wanted.base is Base.BIGINT else wanted.base in _ALWAYS
        return f"{'CAST' if always else 'TRY_CAST'}({sql} AS {self.type_name(wanted)})"

    def text(self, sql: str, given: SqlType) -> str:
        if given.base is Base.TIMESTAMP:
            return f"strftime({sql}, '%Y-%m-%dT%H:%M:%S.%g')"
        if given.base is Base.TIME:
            shown = f"strftime(make_timestamp_ms({sql}), '%H:%M:%S')"
            return f"regexp_replace({shown}, '(:..):00$', '\\1')"
        if given == DOUBLE:
            return f"{_DOUBLE_TEXT}({sql})"
        return f"CAST({sql} AS VARCHAR)"

    def calls(self, given: SqlType, wanted: SqlType) -> tuple[str, ...]:
        return (_DOUBLE_TEXT,) if given == DOUBLE and wanted == STRING else ()

    def read(self, text: str, wanted: SqlType) -> str:
        if wanted.base is Base.DATE:
            text = f"(nullif({text}, '') || {_rest(_DATE, text)})"
        elif wanted.base is Base.TIME:
            time = f"TRY_CAST((nullif({text}, '') || {_rest(_TIME, text)}) AS TIME)"
            return f"CAST(epoch_ms(DATE '1970-01-01' + {time}) AS INTEGER)"
        found = f"TRY_CAST({text} AS {self.type_name(wanted)})"
        return self._infinite_is_null(found) if wanted == DOUBLE else found

    def to_timestamp(self, date: str, time: str, zone: str) -> str:
        parts = [f"nullif({date}, '')", _rest(_DATE, date), "'T'", time, _rest(_TIME, time), zone]
        return f"make_timestamp(epoch_us(TRY_CAST(({' || '.join(parts)}) AS TIMESTAMPTZ)))"


class _DuckDb(_FirstDuckDb):
    """DuckDB's texts of today: at the bounds of types, too, they give what Spark gives."""

    @property
    def before(self) -> Engine:
        return _FIRST_DUCKDB

    def wrapped(self, operator: str, left: str, right: str, result: SqlType) -> str:
        # Only the least number by -1 is too large, but DuckDB fails for its remainder, too.
        if operator in "/%" and right.strip("(-)").isdigit() and right.strip("()") not in "-10":
            return super().wrapped(operator, left, right, result)
        divisor = f"nullif({right}, 0)" if operator in "/%" else right
        symbol = "//" if operator == "/" else operator
        return _wrapped(f"({_wide(left, result)} {symbol} {divisor})", result)

    def negated(self, number: str, sql_type: SqlType) -> str:
        if sql_type.base not in _WHOLE:
            return super().negated(number, sql_type)
        return _wrapped(f"(- {_wide(number, sql_type)})", sql_type)

    def divide_doubles(self, left: str, right: str) -> str:
        return f"({left} / ({right} + CAST(0 AS DOUBLE)))"  # the sign of a zero does not count

    def map(self, keys: Sequence[str], values: Sequence[str]) -> str:
        certain = [k for k in keys if k.startswith("'") or k.strip("(-)").isdigit()]
        if len(set(certain)) == len(keys):
            return super().map(keys, values)
        # The last value of a repeated key counts.
        entries = (super(_DuckDb, self).map([k], [v]) for k, v in zip(keys, values, strict=True))
        made = next(iter(entries)) if len(keys) == 1 else f"map_concat({', '.join(entries)})"
        present = " AND ".join(f"{k} IS NOT NULL" for k in keys)
        return f"CASE WHEN {present} THEN {made} END"

    def join_present(self, texts: Sequence[str], separator: str) -> str:
        return f"coalesce({super().join_present(texts, separator)}, '')"

    def from_base64(self, text: str) -> str:
        return f"{_UNBASE64}({self.trim(text)})"

    def convert(self, sql: str, given: SqlType, wanted: SqlType) -> str:
        calls = self.calls(given, wanted)
        if calls:
            return f"{calls[0]}({sql})"
        if given.base is Base.DECIMAL and wanted.base in _WHOLE:
            return _wrapped(f"CAST(trunc({sql}) AS HUGEINT)", wanted)
        if given.base is Base.TIMESTAMP and wanted.base is Base.TIME:
            day = f"((epoch_us({sql}) % {_DAY_US}) + {_DAY_US}) % {_DAY_US}"
            return f"CAST({day} // 1000 AS INTEGER)"
        return super().convert(sql, given, wanted)

    def calls(self, given: SqlType, wanted: SqlType) -> tuple[str, ...]:
        if given == DOUBLE and wanted.base in _WHOLE:
            return (sql_name("WHOLE", wanted, [DOUBLE]),)
        if given == DOUBLE and wanted.base is Base.DECIMAL:
            return (sql_name("DECIMAL_OF", wanted, [DOUBLE]),)
        if given == STRING and wanted.base is Base.BYTES:
            return (_UNBASE64,)
        return super().calls(given, wanted)


def _wide(number: str, sql_type: SqlType) -> str:
    """A whole number in a type that holds products."""
    return f"CAST({number} AS {'BIGINT' if sql_type.base is Base.INTEGER else 'HUGEINT'})"


def _wrapped(wide: str, sql_type: SqlType) -> str:
    """The low bits of a number as an INTEGER or a BIGINT."""
    half = 2**31 if sql_type.base is Base.INTEGER else 2**63
    return f"CAST((({wide} + {half}) & {2 * half - 1}) - {half} AS {sql_type.base})"


def _rest(pattern: str, text: str) -> str:
    """The rest of a shortened date or time: the beginning of the year or the day."""
    return f"substring({pattern}, length({text}) + 1)"


SPARK: Engine = _Spark()
_FIRST_DUCKDB: Engine = _FirstDuckDb()
DUCKDB: Engine = _DuckDb()
