"""Parses dates and times by Java's patterns: for functions, and for event time in text columns.

The rules are those of Java's DateTimeFormatter with its smart resolver (a 30th of February is the
month's last day, 24:00 the next day's start, a weekday must be the date's), and of ksqlDB's
StringToTimestampParser: case is ignored, and missing fields are those of 1970-01-01T00:00.
Years lie between 1 and 9999.  Golden values made by Java are in `tests/unit/tasks`.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

import re2

from holdfast.errors import Unsupported
from holdfast.tasks.functions.java.pattern import (
    CLOCK,
    DATE,
    EPOCH,
    MONTHS,
    WEEKDAYS,
    Piece,
    pieces,
    regions,
    zone,
)
from holdfast.tasks.functions.java.regex import compiled

__all__ = [
    "clock",
    "only_clock",
    "parse_fields",
    "parse_lenient_day",
    "resolve",
    "timestamp_parser",
]

_DIGITS = {"d", "D", "H", "k", "K", "h", "m", "s", "n", "A", "N"}
_LIMITS = {
    "H": 24, "k": 24, "K": 11, "h": 12, "m": 59, "s": 59, "n": 999_999_999,
    "A": 86_399_999, "N": 86_399_999_999_999, "d": 31, "D": 366, "M": 12,
}  # fmt: skip
_LEAST = {"d": 1, "D": 1, "M": 1}
# Short names that Java reads as regions; a fixed offset would miss their summer time.
_PLACES = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "MST": "America/Denver",
    "MDT": "America/Denver", "CST": "America/Chicago", "CDT": "America/Chicago",
    "EST": "America/New_York", "EDT": "America/New_York", "BST": "Europe/London",
    "WET": "Europe/Lisbon", "CET": "Europe/Paris", "CEST": "Europe/Paris", "EET": "Europe/Athens",
    "MSK": "Europe/Moscow", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "AEST": "Australia/Sydney",
}  # fmt: skip


def timestamp_parser(pattern: str) -> Callable[[str], int]:
    """A function from text to ms since the epoch, in UTC if the text names no zone.

    The function raises `ValueError` for a text that does not match the pattern.

    Raises:
        Unsupported: the pattern is invalid, or uses an unsupported letter.
    """
    try:
        _matcher(pattern, lenient=False)
    except ValueError as error:
        raise Unsupported(
            f"The timestamp format {pattern} cannot be used: {error}.",
            action="use y, M, d, D, Q, E, G, H, k, h, K, a, m, s, S, n, A, N, X, x, Z, O, z, VV, "
            "'text' and [optional] parts.",
        ) from error

    def parse(text: str) -> int:
        return (resolve(parse_fields(text, pattern), UTC) - EPOCH) // timedelta(milliseconds=1)

    return parse


def parse_fields(text: str, pattern: str) -> dict[str, str]:
    """The text's field for each letter of the pattern (years as y, months as M).

    Raises:
        ValueError: the text does not match, or a number is out of its range.
    """
    found = _matcher(pattern, lenient=False).fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} does not match {pattern}")
    fields = _fields(found)
    for letter, most in _LIMITS.items():
        number = fields.get(letter, "")
        if number.isdigit() and not _LEAST.get(letter, 0) <= int(number) <= most:
            raise ValueError(f"{text[:40]!r} is no moment in time: {letter} is {number}")
    if clock(fields) > timedelta(days=1):
        raise ValueError(f"{text[:40]!r} is no moment in time: it is after 24:00")
    return fields


def _fields(found: re2._Match) -> dict[str, str]:
    return {k.partition("_")[0]: v for k, v in found.groupdict().items() if v is not None}


@lru_cache(maxsize=256)
def _matcher(pattern: str, *, lenient: bool) -> re2._Regexp:
    parts = pieces(pattern)
    out: list[str] = []
    optional = 0
    for index, piece in enumerate(parts):
        if piece.letter in ("[", "]"):
            optional += 1 if piece.letter == "[" else -1
            if optional < 0:
                raise ValueError("a ] has no [ before it")
            out.append("(?:" if piece.letter == "[" else ")?")
        elif not piece.letter:
            out.append(re2.escape(piece.text))
        else:
            before = _numeric(parts, index - 1)
            beside = before or _numeric(parts, index + 1)
            out.append(_group(piece, index, lenient=lenient, beside=beside))
    # Java closes optional parts that are still open at the end of the pattern.
    return compiled("".join(["(?i)", *out, ")?" * optional]))


def _numeric(parts: tuple[Piece, ...], index: int) -> bool:
    if not 0 <= index < len(parts):
        return False
    piece = parts[index]
    return piece.letter in (*_DIGITS, "y", "u", "S") or (
        piece.letter in "ML" and 0 < piece.count < 3
    )


def _group(piece: Piece, index: int, *, lenient: bool, beside: bool) -> str:
    letter, count = piece.letter, piece.count
    name = {"u": "y", "L": "M", "q": "Q"}.get(letter, letter)
    if letter in "yu":
        name = "yy" if count == 2 else "y"
        strict = {1: r"-?\d+", 2: r"\d{2}"}.get(count, rf"\d{{{count}}}|[+-]\d{{{count},}}")
        body = strict if beside or not lenient else r"\d+"
    elif letter in "ML" and count > 2:
        body = _names(MONTHS, both=lenient, short=count == 3)
    elif letter in _DIGITS or letter in "ML":
        exact = rf"\d{{{count}}}" if count > 1 or (beside and lenient) else r"\d+"
        body = exact if beside or not lenient else r"\d+"
    elif letter == "S":
        body = r"\d+" if lenient and not beside else rf"\d{{{count}}}"
    else:
        body = _other(letter, count, lenient=lenient)
    return f"(?P<{name}_{index}>{body})"


def _names(names: tuple[str, ...], *, both: bool, short: bool) -> str:
    all_names = (
        [*names, *(n[:3] for n in names)] if both else [n[:3] if short else n for n in names]
    )
    return "|".join(all_names)


def _other(letter: str, count: int, *, lenient: bool) -> str:
    if letter == "E":
        return _names(WEEKDAYS, both=lenient, short=count < 4)
    if letter == "O" or (letter == "Z" and count == 4):
        return r"GMT(?:[+-]\d{1,2}(?::\d{2})?)?"
    if letter in "XxZ":
        colon = ":?" if lenient else ":" if count in (3, 5) else ""
        optional = "?" if count == 1 else ""
        seconds = rf"(?:{colon}\d{{2}})?" if count > 3 else ""
        zero = "" if letter == "x" or (letter == "Z" and count < 5) else "|Z"
        return rf"[+-]\d{{2}}(?:{colon}\d{{2}}{seconds}){optional}{zero}"
    if letter in "Qq" and count > 2:
        return r"Q[1-4]" if count == 3 else r"(?:1st|2nd|3rd|4th) quarter"
    known = {"a": "AM|PM", "G": "AD|BC", "Q": r"\d+", "q": r"\d+"}
    return known.get(letter, r"[A-Za-z][A-Za-z0-9_+/:-]*|[+-]\d{2}:?\d{2}")


def resolve(fields: Mapping[str, str], default: tzinfo) -> datetime:
    """The moment given by the fields; missing fields are those of 1970-01-01T00:00.

    A day after the month's last day becomes the last day, as in Java.

    Raises:
        ValueError: there is no such moment, or its year is not from 1 to 9999.
    """
    year, month = _year(fields), _month(fields)
    if "D" in fields:
        day = datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=int(fields["D"]) - 1)
        if day.year != year:
            raise ValueError(f"day {fields['D']} of {year}")
        year, month, number = day.year, day.month, day.day
    else:
        number = min(int(fields.get("d", 1)), calendar.monthrange(year, month)[1])
    day = datetime(year, month, number, tzinfo=_place(fields) or default)
    dated = {"y", "yy"} & fields.keys() and ({"M", "d"} <= fields.keys() or "D" in fields)
    if dated and "E" in fields and WEEKDAYS[day.weekday()][:3].lower() != fields["E"][:3].lower():
        raise ValueError(f"{day:%Y-%m-%d} is no {fields['E']}")
    time = clock(fields)
    return day + (time if dated else time % timedelta(days=1))


def _year(fields: Mapping[str, str]) -> int:
    if fields.get("G", "").upper().startswith("B"):
        raise ValueError("a year before the year 1")
    if "yy" in fields:
        return 2000 + int(fields["yy"])
    return int(fields.get("y", 1970))


def clock(fields: Mapping[str, str]) -> timedelta:
    """The time of day given by the fields; 24:00 is a whole day."""
    if "A" in fields or "N" in fields:
        return timedelta(
            microseconds=int(fields.get("N", 0)) // 1000 + 1000 * int(fields.get("A", 0))
        )
    fraction = fields.get("S", "") or fields.get("n", "").rjust(9, "0")
    micros = int(fraction.ljust(6, "0")[:6])
    return timedelta(
        hours=_hour(fields),
        minutes=int(fields.get("m", 0)),
        seconds=int(fields.get("s", 0)),
        microseconds=micros,
    )


def _hour(fields: Mapping[str, str]) -> int:
    if "H" in fields or "k" in fields:
        return int(fields.get("H", 0)) or int(fields.get("k", 0)) % 24
    hour = int(fields.get("h", 0)) % 12 or int(fields.get("K", 0))
    return hour + (12 if fields.get("a", "").upper() == "PM" else 0)


def _month(fields: Mapping[str, str]) -> int:
    text = fields.get("M", "1")
    if text.isdigit():
        return int(text)
    return next(i for i, m in enumerate(MONTHS, 1) if m[:3].lower() == text[:3].lower())


def _place(fields: Mapping[str, str]) -> tzinfo | None:
    text = next((fields[z] for z in "XxZOVz" if z in fields), None)
    if text is None:
        return None
    # A text names regions in any case; offsets and short names are written in capitals.
    name = regions().get(text.lower(), text.upper()) if "/" in text else text.upper()
    return zone(_PLACES.get(name, name))


def parse_lenient_day(text: str, pattern: str, this_year: int) -> int:
    """Days since the epoch, as Java's older and more lenient date formats read them.

    Text after the date is ignored; numbers may have other lengths and may overflow into the next
    month or year.

    Raises:
        ValueError: the text does not match, or contains a time of day.
    """
    found = _matcher(pattern, lenient=True).match(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} does not match {pattern}")
    fields = _fields(found)
    year = int(fields.get("y", 1970))
    if "yy" in fields:
        year = _century(int(fields["yy"]), len(fields["yy"]), this_year)
    months = year * 12 + _month(fields) - 1
    first = datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)
    days = int(fields["D"]) if "D" in fields else int(fields.get("d", 1))
    moment = (first.replace(month=1) if "D" in fields else first) + timedelta(days=days - 1)
    moment = moment.replace(tzinfo=_place(fields) or UTC) + clock(fields)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    if since % timedelta(days=1):
        raise ValueError("it says a time of the day")
    return since.days


def _century(value: int, digits: int, this_year: int) -> int:
    """The full year of two digits: from 80 years ago to 20 years ahead."""
    if digits != 2:
        return value
    start = this_year - 80
    year = start - start % 100 + value
    return year if year >= start else year + 100


def only_clock(fields: Mapping[str, str]) -> bool:
    """Whether no field belongs to a date."""
    return not any(letter[0] in DATE for letter in fields) and any(f[0] in CLOCK for f in fields)
