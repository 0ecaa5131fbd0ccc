"""Parses patterns of Java's DateTimeFormatter, and formats moments by them.

Supported: `y u` years, `M L` months, `d` day, `D` day of the year, `Q q` quarter, `E` weekday,
`G` era, `a` half of the day, `H k K h` hours, `m s` minutes and seconds, `S` fraction of a second,
`n` nanoseconds of the second, `A N` milli- and nanoseconds of the day, `X x Z O` offsets, `z V`
zones, `'text'`, `[optional parts]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

__all__ = [
    "CLOCK",
    "DATE",
    "EPOCH",
    "MONTHS",
    "WEEKDAYS",
    "ZONE",
    "Piece",
    "format_moment",
    "pieces",
    "regions",
    "zone",
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DATE, CLOCK, ZONE = "yuMLdDQqEG", "aHkKhmsSnAN", "XxZOzV"
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_FURTHEST = timedelta(hours=18)
_NAMED_OFFSETS = ("Z", "UTC", "GMT", "UT")


@dataclass(frozen=True)
class Piece:
    """A run of one letter, or literal text (`letter` empty); brackets are literals of their own."""

    letter: str
    count: int
    text: str = ""


@lru_cache(maxsize=256)
def pieces(pattern: str) -> tuple[Piece, ...]:
    """The parts of a pattern.

    Raises:
        ValueError: the pattern has an unknown letter, or an unclosed quote.
    """
    found: list[Piece] = []
    for match in _PIECE.finditer(pattern):
        text = match.group()
        if text == "''":
            found.append(Piece("", 0, "'"))
        elif text == "'":
            raise ValueError("a quote does not end")
        elif text.startswith("'"):
            found.append(Piece("", 0, match.group(1).replace("''", "'")))
        elif match.group(2):
            if text[0] not in DATE + CLOCK + ZONE:
                raise ValueError(f"the letter {text[0]}")
            found.append(Piece(text[0], len(text)))
        else:
            found.append(Piece(text if text in "[]" else "", 0, text))
    return tuple(found)


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """A time zone by Java's `ZoneId.of`: a region, UTC, GMT, Z or an offset.

    Raises:
        ValueError: no time zone has this name.
    """
    if name in _NAMED_OFFSETS:
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign, hours, minutes, seconds = offset.groups()
        size = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if size > _FURTHEST:
            raise ValueError(f"the offset {name} is beyond 18 hours")
        return timezone(-size if sign == "-" else size)
    try:
        return ZoneInfo(name)
    except (KeyError, OSError) as error:
        raise ValueError(f"no time zone {name}") from error


@lru_cache(maxsize=1)
def regions() -> dict[str, str]:
    """Names of time zones by their lower-case names."""
    return {name.lower(): name for name in available_timezones()}


def format_moment(moment: datetime, pattern: str, letters: str, zone_name: str = "") -> str:
    """Formats a moment by a pattern that may only use `letters`.

    Raises:
        ValueError: the pattern has another letter.
    """
    parts = []
    for piece in pieces(pattern):
        if piece.letter in ("", "[", "]"):
            parts.append("" if piece.letter else piece.text)
        elif piece.letter not in letters:
            raise ValueError(f"{piece.letter} has no value here")
        elif piece.letter in _NUMBERS:
            parts.append(_number(_NUMBERS[piece.letter](moment), piece.count))
        else:
            parts.append(_TEXTS[piece.letter](moment, piece.count, zone_name))
    return "".join(parts)


def _number(value: int, count: int) -> str:
    return str(value).rjust(count, "0")


def _of_day(moment: datetime) -> int:
    clock = timedelta(hours=moment.hour, minutes=moment.minute, seconds=moment.second)
    return (clock // timedelta(seconds=1)) * 1_000_000_000 + moment.microsecond * 1000


_NUMBERS: dict[str, Callable[[datetime], int]] = {
    "d": lambda m: m.day,
    "D": lambda m: m.timetuple().tm_yday,
    "H": lambda m: m.hour,
    "k": lambda m: m.hour or 24,
    "K": lambda m: m.hour % 12,
    "h": lambda m: m.hour % 12 or 12,
    "m": lambda m: m.minute,
    "s": lambda m: m.second,
    "n": lambda m: m.microsecond * 1000,
    "A": lambda m: _of_day(m) // 1_000_000,
    "N": _of_day,
}


def _year(moment: datetime, count: int, _: str) -> str:
    return f"{moment.year % 100:02d}" if count == 2 else _number(moment.year, count)


def _named(names: tuple[str, ...], index: int, count: int) -> str:
    name = names[index]
    return name if count == 4 else name[:1] if count == 5 else name[:3]


def _month(moment: datetime, count: int, _: str) -> str:
    if count < 3:
        return _number(moment.month, count)
    return _named(MONTHS, moment.month - 1, count)


def _quarter(moment: datetime, count: int, _: str) -> str:
    quarter = (moment.month + 2) // 3
    if count < 3:
        return _number(quarter, count)
    ordinal = ("1st", "2nd", "3rd", "4th")[quarter - 1]
    return f"{ordinal} quarter" if count == 4 else f"Q{quarter}"


def _offset(moment: datetime, count: int, zero: str) -> str:
    minutes = (moment.utcoffset() or timedelta()) // timedelta(minutes=1)
    if minutes == 0 and zero:
        return zero
    hours, rest = divmod(abs(minutes), 60)
    sign = "-" if minutes < 0 else "+"
    if count == 1:
        return f"{sign}{hours:02d}" + (f"{rest:02d}" if rest else "")
    return f"{sign}{hours:02d}{':' if count in (3, 5) else ''}{rest:02d}"


def _localized(moment: datetime, count: int, _: str) -> str:
    minutes = (moment.utcoffset() or timedelta()) // timedelta(minutes=1)
    if not minutes:
        return "GMT"
    hours, rest = divmod(abs(minutes), 60)
    short = f"{hours}" + (f":{rest:02d}" if rest else "")
    return f"GMT{'-' if minutes < 0 else '+'}" + (
        short if count == 1 else f"{hours:02d}:{rest:02d}"
    )


def _rfc(moment: datetime, count: int, name: str) -> str:
    if count == 4:
        return _localized(moment, 4, name)
    return _offset(moment, 5 if count == 5 else 2, "Z" if count == 5 else "")


def _zone_text(moment: datetime, _: int, name: str) -> str:
    return name if _OFFSET.fullmatch(name) or name in _NAMED_OFFSETS else moment.tzname() or name


_TEXTS: dict[str, Callable[[datetime, int, str], str]] = {
    "y": _year,
    "u": _year,
    "M": _month,
    "L": _month,
    "Q": _quarter,
    "q": _quarter,
    "E": lambda m, n, _: _named(WEEKDAYS, m.weekday(), n),
    "G": lambda _m, n, _z: "Anno Domini" if n == 4 else "A" if n == 5 else "AD",
    "a": lambda m, _n, _z: "PM" if m.hour >= 12 else "AM",
    "S": lambda m, n, _: f"{m.microsecond:06d}000"[:n],
    "X": lambda m, n, _: _offset(m, n, "Z"),
    "x": lambda m, n, _: _offset(m, n, ""),
    "Z": _rfc,
    "O": _localized,
    "z": _zone_text,
    "V": lambda _m, _n, name: name,
}
