"""Functions over dates and times, with Java's patterns and time zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.tasks.functions.base import PythonFunction
from holdfast.tasks.functions.java.parse import (
    clock,
    only_clock,
    parse_fields,
    parse_lenient_day,
    resolve,
)
from holdfast.tasks.functions.java.pattern import CLOCK, DATE, EPOCH, ZONE, format_moment, zone

__all__ = ["TIMES"]

_MS = timedelta(milliseconds=1)


def _moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def _format_timestamp(ms: int, pattern: str, zone_name: str = "GMT") -> str:
    moment = _moment(ms).astimezone(zone(zone_name))
    return format_moment(moment, pattern, DATE + CLOCK + ZONE, zone_name)


def _format_date(days: int, pattern: str) -> str:
    return format_moment(EPOCH + timedelta(days=days), pattern, DATE)


def _format_time(ms: int, pattern: str) -> str:
    return format_moment(_moment(ms), pattern, CLOCK)


def _parse_timestamp(text: str, pattern: str, zone_name: str = "GMT") -> int:
    return (resolve(parse_fields(text, pattern), zone(zone_name)) - EPOCH) // _MS


def _parse_time(text: str, pattern: str) -> int:
    fields = parse_fields(text, pattern)
    if not only_clock(fields):
        raise ValueError("it says a date, or no time")
    return clock(fields) % timedelta(days=1) // _MS


def _string_to_date(text: str, pattern: str) -> int:
    fields = parse_fields(text, pattern)
    if not ({"y", "yy"} & fields.keys() and ({"M", "d"} <= fields.keys() or "D" in fields)):
        raise ValueError("it says no whole date")
    whole = {k: v for k, v in fields.items() if k[0] in DATE}
    return (resolve(whole, UTC) - EPOCH).days


def _parse_date(text: str, pattern: str) -> int:
    return parse_lenient_day(text, pattern, datetime.now(UTC).year)


def _convert(ms: int, source: str, target: str) -> int:
    moment = _moment(ms)
    offsets = (moment.astimezone(zone(z)).utcoffset() or timedelta() for z in (target, source))
    after, before = offsets
    return ms + (after - before) // _MS


TIMES = (
    PythonFunction("CONVERT_TZ", _convert),
    PythonFunction("FORMAT_DATE", _format_date),
    PythonFunction("FORMAT_TIME", _format_time),
    PythonFunction("FORMAT_TIMESTAMP", _format_timestamp),
    PythonFunction("PARSE_DATE", _parse_date),
    PythonFunction("PARSE_TIME", _parse_time),
    PythonFunction("PARSE_TIMESTAMP", _parse_timestamp),
    PythonFunction("STRINGTODATE", _string_to_date),
)
