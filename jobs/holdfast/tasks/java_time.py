"""Text to event time by a pattern of Java's DateTimeFormatter.

Understood: `y u` years, `M L` months (numbers, or English names from three letters on), `d` day,
`D` day of the year, `E` weekday name (read, not checked), `H k` and `h K` with `a` hours,
`m s` minutes and seconds, `S` fraction of a second, `n` nanoseconds of the second,
`X x Z` offsets, `VV z` zones, `'literal text'`, `[optional parts]`.  A run of letters takes as
many digits as it has letters, one letter alone takes any.  Without a zone the text is UTC, and
what it does not say is as in 1970-01-01T00:00.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

from holdfast.errors import Unsupported

__all__ = ["timestamp_parser"]

_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PIECE = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
# Letter of a number -> the group it fills.
_NUMBERS = {
    "M": "month",
    "L": "month",
    "d": "day",
    "D": "yearday",
    "H": "hour",
    "k": "clock24",
    "h": "clock12",
    "K": "hour12",
    "m": "minute",
    "s": "second",
    "n": "nano",
}


def timestamp_parser(pattern: str) -> Callable[[str], int]:
    """A function from text to ms since the epoch, which raises `ValueError`.

    Raises:
        Unsupported: the pattern uses a letter that is not understood, or its brackets are wrong.
    """
    try:
        matcher = re.compile(_regex(pattern))
    except re.error as error:  # unbalanced brackets
        raise _unsupported(pattern, str(error)) from error

    def parse(text: str) -> int:
        found = matcher.fullmatch(text)
        if found is None:
            raise ValueError(f"{text[:40]!r} does not match the pattern {pattern}")
        try:
            groups = found.groupdict().items()
            return _millis({k.partition("_")[2]: v for k, v in groups if v is not None})
        except (ValueError, OverflowError, KeyError) as error:
            raise ValueError(f"{text[:40]!r} is no moment in time: {error}") from error

    return parse


def _regex(pattern: str) -> str:
    """The pattern as a regular expression with one named group per part of a moment."""
    out: list[str] = []
    for match in _PIECE.finditer(pattern):
        piece = match.group()
        if piece == "''":  # a quote itself
            out.append("'")
        elif piece.startswith("'"):
            out.append(re.escape(piece[1:-1].replace("''", "'")))
        elif match.group(1):
            # Optional parts may repeat a letter; the groups of a regular expression may not.
            out.append(_letters(piece, pattern).replace("(?P<", f"(?P<p{len(out)}_"))
        else:
            out.append({"[": "(?:", "]": ")?"}.get(piece, re.escape(piece)))
    return "".join(out)


def _letters(run: str, pattern: str) -> str:
    letter, count = run[0], len(run)
    if letter in "yu":
        width = {1: r"\d+", 2: r"\d{2}"}.get(count, rf"\d{{{count}}}")
        return f"(?P<{'year2' if count == 2 else 'year'}>{width})"
    if letter in "ML" and count > 2:
        return f"(?P<monthname>{_names(_MONTHS, short=count == 3)})"
    if letter in _NUMBERS:
        digits = rf"\d{{{count}}}" if count > 1 else r"\d+"
        return f"(?P<{_NUMBERS[letter]}>{digits})"
    found = _OTHERS.get(letter)
    if found is None:
        raise _unsupported(pattern, f"the letter {letter} is not understood")
    return found(count)


def _names(names: list[str], *, short: bool) -> str:
    return "(?i:" + "|".join(n[:3] if short else n for n in names) + ")"


def _offset(count: int, zero: str) -> str:
    if count == 1:
        return f"(?P<offset>[+-]\\d{{2}}(?:\\d{{2}})?{zero})"
    colon = ":" if count in (3, 5) else ""
    return f"(?P<offset>[+-]\\d{{2}}{colon}\\d{{2}}{zero})"


_OTHERS: dict[str, Callable[[int], str]] = {
    "S": lambda n: rf"(?P<fraction>\d{{{n}}})",
    "E": lambda n: _names(_WEEKDAYS, short=n < 4),
    "a": lambda _: "(?P<half>(?i:AM|PM))",
    "X": lambda n: _offset(n, "|Z"),
    "x": lambda n: _offset(n, ""),
    "Z": lambda n: _offset(n if n == 5 else 2, "|Z" if n == 5 else ""),
    "V": lambda _: "(?P<zone>[A-Za-z0-9_+/:-]+)",
    "z": lambda _: "(?P<zone>[A-Za-z0-9_+/:-]+)",
}


def _millis(parts: Mapping[str, str]) -> int:
    day = _date(parts)
    hour = _hour(parts)
    clock = timedelta(
        hours=hour, minutes=_number(parts, "minute", 59), seconds=_number(parts, "second", 59)
    )
    fraction = parts.get("fraction", "") or parts.get("nano", "").rjust(9, "0")
    local = day + clock + timedelta(milliseconds=int(fraction.ljust(3, "0")[:3]))
    moment = local.replace(tzinfo=_zone(parts))
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _date(parts: Mapping[str, str]) -> datetime:
    year = _year(parts)
    if "yearday" in parts:
        found = datetime(year, 1, 1) + timedelta(days=int(parts["yearday"]) - 1)  # noqa: DTZ001
        if found.year != year or int(parts["yearday"]) < 1:
            raise ValueError(f"day {parts['yearday']} of the year {year}")
        return found
    name = parts.get("monthname")
    month = int(parts.get("month", 1)) if name is None else _month(name)
    return datetime(year, month, int(parts.get("day", 1)))  # noqa: DTZ001 - its zone is parsed too


def _year(parts: Mapping[str, str]) -> int:
    if "year2" in parts:
        return 2000 + int(parts["year2"])
    return int(parts.get("year", _EPOCH.year))


def _month(name: str) -> int:
    return next(i for i, m in enumerate(_MONTHS, 1) if m.lower().startswith(name.lower()))


def _hour(parts: Mapping[str, str]) -> int:
    if "clock24" in parts:
        return _number(parts, "clock24", 24) % 24
    if "clock12" in parts or "hour12" in parts:
        hour = _number(parts, "clock12", 12) + _number(parts, "hour12", 11)
        return hour % 12 + (12 if parts.get("half", "").upper() == "PM" else 0)
    return _number(parts, "hour", 23)


def _number(parts: Mapping[str, str], name: str, most: int) -> int:
    value = int(parts.get(name, 0))
    if value > most:
        raise ValueError(f"{name} {value}")
    return value


def _zone(parts: Mapping[str, str]) -> tzinfo:
    offset, zone = parts.get("offset"), parts.get("zone")
    if offset is not None and offset != "Z":
        digits = offset[1:].replace(":", "").ljust(4, "0")
        size = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
        return timezone(-size if offset[0] == "-" else size)
    return UTC if zone is None or zone == "Z" else _named_zone(zone)


@cache
def _named_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError) as error:
        raise ValueError(f"no time zone {name}") from error


def _unsupported(pattern: str, why: str) -> Unsupported:
    return Unsupported(
        f"The timestamp format {pattern} cannot be used: {why}.",
        action="use y, M, d, D, H, h, a, m, s, S, X, x, Z, VV, 'text' and [optional] parts.",
    )
