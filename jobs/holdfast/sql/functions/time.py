"""ksqlDB's date and time functions.

In Spark a TIMESTAMP is Spark's own, in a session whose time zone is UTC; a TIME is an INT of
milliseconds of the day.  In DuckDB a TIMESTAMP is one without time zone that means UTC.
Formats are Java's patterns: Spark reads them, DuckDB gets them translated when they are literals
of the common letters (`strftime_pattern`).
"""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.sql.expressions.engines import DUCKDB
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.functions.signatures import Call, Overload, Rendering, either, fill, fn, py
from holdfast.types.columns.schema import Base

__all__ = ["TIME", "strftime_pattern"]

_DAY_MS = 86_400_000
_MS_MIN, _MS_MAX = -62_135_596_800_000, 253_402_300_799_999
_INT_MAX = 2**31 - 1
_COUNTS_MAX = {  # ten thousand years
    "YEARS": 10_000,
    "MONTHS": 120_000,
    "WEEKS": 520_000,
    "DAYS": 3_650_000,
    "HOURS": 87_600_000,
}
_UNIT_MS = {
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": _DAY_MS,
}
_LETTERS = {
    "yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "M": "%-m", "MMM": "%b", "MMMM": "%B",
    "dd": "%d", "d": "%-d", "DDD": "%j", "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I",
    "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S", "SSS": "%g", "SSSSSS": "%f", "a": "%p",
    "E": "%a", "EEE": "%a", "EEEE": "%A",
}  # fmt: skip
_TRUNCATIONS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_SPARK_LETTERS = re.compile(
    r"y{1,6}|[ML]{1,4}|[Qq]{1,4}|E{1,4}|D{1,3}|[dhHkKms]{1,2}|F|a|S{1,9}|VV|z{1,4}|O|OOOO"
    r"|[Xx]{1,5}|G{1,4}"
)
_RUN = re.compile(r"([A-Za-z])\1*")
_OFFSET = re.compile(r"[+-](0?\d|1[0-8]):?[0-5]\d")
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


_DAYS = ("TIMESTAMP", "DATE")
_CLOCK = ("TIMESTAMP",)
_PARTS = (
    ("YEAR", _DAYS, "year({0})"),
    ("QUARTER", _DAYS, "quarter({0})"),
    ("MONTH", _DAYS, "month({0})"),
    ("DAY", _DAYS, "day({0})"),
    ("DAYOFMONTH", _DAYS, "day({0})"),
    ("DAYOFWEEK", _DAYS, "dayofweek({0}) + 1"),  # Sunday is 1 in Spark, 0 in DuckDB
    ("DAYOFYEAR", _DAYS, "dayofyear({0})"),
    ("WEEKOFYEAR", _DAYS, "weekofyear({0})"),
    ("HOUR", _CLOCK, "hour({0})"),
    ("MINUTE", _CLOCK, "minute({0})"),
    ("SECOND", _CLOCK, "second({0})"),
)


def strftime_pattern(pattern: str) -> str | None:
    """A Java date pattern as strftime's, or None when a letter has no counterpart."""
    parts: list[str] = []
    end = 0
    for token in _TOKEN.finditer(pattern):
        if token.start() != end:
            return None
        end = token.end()
        text = token.group(0)
        if text.startswith("'"):
            parts.append((token.group(1).replace("''", "'") or "'").replace("%", "%%"))
        elif text[0].isalpha():
            if text not in _LETTERS:
                return None
            parts.append(_LETTERS[text])
        else:
            parts.append(text.replace("%", "%%"))
    return "".join(parts) if end == len(pattern) else None


def _known_pattern(pattern: object, allowed: set[str]) -> bool:
    """Whether it is a literal pattern of allowed letters (a bad one fails Spark's job)."""
    if not isinstance(pattern, str):
        return False
    letters = re.sub(r"'(?:[^']|'')*'", "", pattern)
    runs = [run.group(0) for run in _RUN.finditer(letters)]
    known = all(_SPARK_LETTERS.fullmatch(run) for run in runs)
    return known and not re.search(r"['\[\]]", letters) and {r[0] for r in runs} <= allowed


def _known_zone(zone: object) -> bool:
    """Whether it is a literal time zone: a region, UTC or an offset."""
    if not isinstance(zone, str):
        return False
    if _OFFSET.fullmatch(zone):
        return True
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return False
    return True


def _spark_pattern(call: Call, allowed: set[str]) -> str | None:
    """Argument 1 as Spark's pattern; Java's year `u` is Spark's `y`."""
    pattern = call.constant(1)
    if not isinstance(pattern, str):
        return None
    pattern = re.sub(r"u(?=(?:[^']*'[^']*')*[^']*$)", "y", pattern)
    return call.engine.string(pattern) if _known_pattern(pattern, allowed) else None


def _allowed(call: Call) -> set[str]:
    """The letters that a pattern may have for the first argument's type."""
    base = call.args[0].type and call.args[0].type.base
    return {Base.DATE: _DAY_LETTERS, Base.INTEGER: _DAY_LETTERS, Base.TIME: _CLOCK_LETTERS}.get(
        base or Base.TIMESTAMP, _DAY_LETTERS | _CLOCK_LETTERS
    )


def _format(call: Call, value: str) -> str | None:
    """Format a DuckDB TIMESTAMP by the literal pattern of argument 1, in the zone of argument 2."""
    pattern = call.constant(1)
    if not isinstance(pattern, str) or not _known_pattern(pattern, _allowed(call)):
        return None
    translated = strftime_pattern(pattern)
    if translated is None:
        return None
    if len(call.args) > 2:
        if not _known_zone(call.constant(2)):
            return None
        value = f"timezone({call.args[2].sql}, make_timestamptz(epoch_us({value})))"
    return f"strftime({value}, {call.engine.string(translated)})"


def _format_spark(call: Call, value: str) -> str | None:
    pattern = _spark_pattern(call, _allowed(call))
    if len(call.args) > 2:
        if not _known_zone(call.constant(2)):
            return None
        value = f"from_utc_timestamp({value}, {call.args[2].sql})"
    return pattern and f"date_format({value}, {pattern})"


def _format_timestamp(call: Call) -> str | None:
    value = call.args[0].sql
    return _format(call, value) if call.engine is DUCKDB else _format_spark(call, value)


def _format_millis(call: Call) -> str | None:
    value = call.args[0].sql
    if call.engine is DUCKDB:
        return _format(call, f"make_timestamp_ms({value})")
    return _format_spark(call, _millis(value))


def _format_days(call: Call) -> str | None:
    days = call.args[0].sql
    if call.engine is DUCKDB:
        return _format(call, f"(DATE '1970-01-01' + {days})")
    days = _bounded(call.args[0], _COUNTS_MAX["DAYS"])
    return _format_spark(call, f"date_from_unix_date({days})")


def _formats(signature: str, rendering: Rendering, name: str) -> Overload:
    """Formats a time: the engine does for a literal pattern, Python for any other."""
    made = either(rendering, py(name))
    return fn(signature, made, made)


def _parses(signature: str, template: str, letters: set[str], name: str) -> Overload:
    """Parses a time: Spark does for a simple literal pattern, Python in all other cases."""

    def spark(call: Call) -> str | None:
        pattern = _spark_pattern(call, letters)
        if not pattern or re.search(r"M{3}", pattern):
            return None
        if letters != _CLOCK_DIGITS and "y" not in pattern:
            return None
        return template.replace("{x}", f"try_to_timestamp({call.args[0].sql}, {pattern})")

    return fn(signature, either(spark, py(name)), py(name))


def _shifted(call: Call, sign: str) -> str | None:
    """A DATE or TIMESTAMP (argument 2) moved by a number (1) of units (0)."""
    unit = str(call.constant(0))
    count, value = call.args[1].sql, call.args[2].sql
    name = call.engine.type_name(call.result)
    if call.engine is DUCKDB:
        return f"CAST({value} {sign} to_{unit.lower()}(CAST({count} AS BIGINT)) AS {name})"
    count = _bounded(call.args[1], _COUNTS_MAX.get(unit, _INT_MAX))
    moved = f"timestampadd({unit.removesuffix('S')}, {sign}{count}, CAST({value} AS TIMESTAMP))"
    return f"CAST({moved} AS {name})"


def _bounded(arg: Typed, most: int) -> str:
    """A number for Spark's calendar, NULL where it would overflow and fail the job."""
    known = arg.constant[0] if arg.constant else None
    if most == _INT_MAX or (isinstance(known, int) and abs(known) <= most):
        return arg.sql
    return f"CASE WHEN {arg.sql} BETWEEN -{most} AND {most} THEN {arg.sql} END"


def _days(template: str) -> Rendering:
    """A template whose last argument is a number of days, `{n}`."""

    def rendering(call: Call) -> str | None:
        days = _bounded(call.args[-1], _COUNTS_MAX["DAYS"])
        # An argument's text may have braces of its own.
        return days.join(fill(part, call) for part in template.split("{n}"))

    return rendering


_YEARS_1_TO_9999 = f"CASE WHEN {{0}} BETWEEN {_MS_MIN} AND {_MS_MAX} THEN {{0}} END"


def _millis(sql: str) -> str:
    """Milliseconds as Spark's TIMESTAMP: those of the years 1 to 9999, NULL outside."""
    return f"timestamp_millis(CASE WHEN {sql} BETWEEN {_MS_MIN} AND {_MS_MAX} THEN {sql} END)"


def _shifted_time(call: Call, sign: str) -> str | None:
    unit = _UNIT_MS.get(str(call.constant(0)))
    if unit is None:
        return None
    count, value = call.args[1].sql, call.args[2].sql
    moved = f"{value} {sign} CAST({count} AS BIGINT) * {unit}"
    if call.engine is DUCKDB:
        return f"CAST((({moved}) % {_DAY_MS} + {_DAY_MS}) % {_DAY_MS} AS INTEGER)"
    return f"CAST(pmod({moved}, {_DAY_MS}) AS INT)"


def _truncated(call: Call) -> str | None:
    if str(call.constant(0)).upper() not in _TRUNCATIONS:
        return None
    return f"date_trunc({call.args[0].sql}, {call.args[1].sql})"


def _shifts(name: str, sign: str, type_name: str) -> Overload:
    shift = _shifted_time if type_name == "TIME" else _shifted

    def rendering(call: Call) -> str | None:
        return shift(call, sign)

    return fn(f"{name}(UNIT, INTEGER, {type_name}) -> {type_name}", rendering, rendering)


# epoch_ms() rounds towards zero.
_EPOCH_MS = "(epoch_us({0}) - ((epoch_us({0}) % 1000) + 1000) % 1000) // 1000"
_DAY_LETTERS = set("yuMLdDE")
_CLOCK_LETTERS = set("HkKhmsSa")
_DAY_DIGITS, _CLOCK_DIGITS = set("yMd"), set("HmsS")
_MOMENTS = _DAY_DIGITS | _CLOCK_DIGITS

TIME: tuple[Overload, ...] = (
    fn("CONVERT_TZ(TIMESTAMP, STRING, STRING) -> TIMESTAMP", py("CONVERT_TZ"), py("CONVERT_TZ")),
    _shifts("DATEADD", "+", "DATE"),
    _shifts("DATESUB", "-", "DATE"),
    _shifts("TIMEADD", "+", "TIME"),
    _shifts("TIMESUB", "-", "TIME"),
    _shifts("TIMESTAMPADD", "+", "TIMESTAMP"),
    _shifts("TIMESTAMPSUB", "-", "TIMESTAMP"),
    _formats("DATETOSTRING(INTEGER, STRING) -> STRING", _format_days, "FORMAT_DATE"),
    _formats("FORMAT_DATE(DATE, STRING) -> STRING", _format_timestamp, "FORMAT_DATE"),
    _formats("FORMAT_TIME(TIME, STRING) -> STRING", _format_millis, "FORMAT_TIME"),
    *(
        _formats(f"{name}({first}, {rest}) -> STRING", rendering, "FORMAT_TIMESTAMP")
        for name, first, rendering in (
            ("FORMAT_TIMESTAMP", "TIMESTAMP", _format_timestamp),
            ("TIMESTAMPTOSTRING", "BIGINT", _format_millis),
        )
        for rest in ("STRING", "STRING, STRING")
    ),
    fn(
        "FROM_DAYS(INTEGER) -> DATE",
        _days("date_from_unix_date({n})"),
        _days("(DATE '1970-01-01' + {n})"),
    ),
    fn(
        "FROM_UNIXTIME(BIGINT) -> TIMESTAMP",
        _millis("{0}"),
        f"make_timestamp_ms({_YEARS_1_TO_9999})",
    ),
    fn("PARSE_DATE(STRING, STRING) -> DATE", py("PARSE_DATE"), py("PARSE_DATE")),
    _parses(
        "PARSE_TIME(STRING, STRING) -> TIME",
        f"CAST(pmod(unix_millis({{x}}), {_DAY_MS}) AS INT)",
        _CLOCK_DIGITS,
        "PARSE_TIME",
    ),
    _parses("PARSE_TIMESTAMP(STRING, STRING) -> TIMESTAMP", "{x}", _MOMENTS, "PARSE_TIMESTAMP"),
    _parses(
        "STRINGTOTIMESTAMP(STRING, STRING) -> BIGINT",
        "unix_millis({x})",
        _MOMENTS,
        "PARSE_TIMESTAMP",
    ),
    *(
        fn(
            f"{name}(STRING, STRING, STRING) -> {result}",
            py("PARSE_TIMESTAMP"),
            py("PARSE_TIMESTAMP"),
        )
        for name, result in (("PARSE_TIMESTAMP", "TIMESTAMP"), ("STRINGTOTIMESTAMP", "BIGINT"))
    ),
    fn("STRINGTODATE(STRING, STRING) -> INTEGER", py("STRINGTODATE"), py("STRINGTODATE")),
    fn(
        "UNIX_DATE() -> INTEGER",
        "unix_date(current_date())",
        "CAST(epoch_ms(now()) // 86400000 AS INTEGER)",
        deterministic=False,
    ),
    fn(
        "UNIX_DATE(DATE) -> INTEGER",
        "unix_date({0})",
        "CAST(date_diff('day', DATE '1970-01-01', {0}) AS INTEGER)",
    ),
    fn(
        "UNIX_TIMESTAMP() -> BIGINT",
        "unix_millis(current_timestamp())",
        "epoch_ms(now())",
        deterministic=False,
    ),
    fn("UNIX_TIMESTAMP(TIMESTAMP) -> BIGINT", "unix_millis({0})", _EPOCH_MS),
    # Spark's own, by its names.
    *(
        fn(f"{name}({kind}) -> INTEGER", f"{name.lower()}({{0}})", f"CAST({duck} AS INTEGER)")
        for name, kinds, duck in _PARTS
        for kind in kinds
    ),
    fn(
        "DATE_TRUNC(STRING, TIMESTAMP) -> TIMESTAMP",
        _truncated,
        _truncated,
    ),
    fn(
        "DATEDIFF(DATE, DATE) -> INTEGER",
        "datediff({0}, {1})",
        "CAST(date_diff('day', {1}, {0}) AS INTEGER)",
    ),
    fn("LAST_DAY(DATE) -> DATE", "last_day({0})", "last_day({0})"),
    fn("DATE_ADD(DATE, INTEGER) -> DATE", _days("date_add({0}, {n})"), _days("({0} + {n})")),
    fn("DATE_SUB(DATE, INTEGER) -> DATE", _days("date_sub({0}, {n})"), _days("({0} - {n})")),
)
