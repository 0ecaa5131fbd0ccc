"""Decimals and times from the messages that stand for them, all of a column at once.

What the message's own documentation forbids, a 31st of April or 25 o'clock, is an error: no other
value would be right.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.tasks.registered.proto.files import ProtoError
from holdfast.types.columns.schema import Base, SqlType

__all__ = ["logical"]

_Numbers: TypeAlias = "npt.NDArray[np.int64]"
_DIGITS = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
_DECIMAL_BYTES = 64  # 153 digits, of which a column has 38 at most
_SECONDS_MAX = (1 << 63) // 1_000_000 - 1  # a TIMESTAMP counts microseconds in 64 bits
_YEAR_MAX = 5_000_000  # a DATE counts days in 32 bits
_NANOS = (0, 999_999_999)


def logical(kind: SqlType) -> Callable[[pa.Array], pa.Array]:
    """The function that makes a column of messages; their fields are in order of their numbers.

    It raises `ProtoError` and `ValueError`: a value is none, or does not fit the column.
    """
    if kind.base is Base.DECIMAL:
        return lambda a: _decimals(a, kind)
    parts = _FROM_PARTS[kind.base]
    arrow = kind.arrow()

    def convert(array: pa.Array) -> pa.Array:
        there = array.is_valid()
        numbers = [
            part.to_numpy(zero_copy_only=False).astype(np.int64)
            for part in array.filter(there).flatten()
        ]
        null = ~there.to_numpy(zero_copy_only=False)
        values = np.zeros(len(array), np.int64)
        values[~null] = parts(*numbers)
        whole = pa.int32() if arrow.bit_width == 32 else pa.int64()
        return pa.array(values, pa.int64(), mask=null).cast(whole).cast(arrow)

    return convert


def _within(what: str, numbers: _Numbers, least: int, most: int) -> None:
    odd = (numbers < least) | (numbers > most)
    if odd.any():
        raise ProtoError(f"{what} {numbers[odd][0]} is not within {least} and {most}")


def _timestamps(seconds: _Numbers, nanos: _Numbers) -> _Numbers:
    """Microseconds, whole milliseconds as in ksqlDB."""
    _within("the seconds of a Timestamp", seconds, -_SECONDS_MAX, _SECONDS_MAX)
    _within("the nanoseconds of a Timestamp", nanos, *_NANOS)
    micros: _Numbers = (seconds * 1_000 + nanos // 1_000_000) * 1_000
    return micros


def _dates(year: _Numbers, month: _Numbers, day: _Numbers) -> _Numbers:
    """Days since the epoch; an absent month or day is the first one."""
    _within("the year of a Date", year, 1, _YEAR_MAX)
    _within("the month of a Date", month, 0, 12)
    months = ((year - 1970) * 12 + np.maximum(month, 1) - 1).astype("M8[M]")
    first = months.astype("M8[D]").astype(np.int64)
    length = (months + 1).astype("M8[D]").astype(np.int64) - first
    if ((day < 0) | (day > length)).any():
        odd = np.flatnonzero((day < 0) | (day > length))[0]
        raise ProtoError(f"a Date is day {day[odd]} of {months[odd]}")
    days: _Numbers = first + np.maximum(day, 1) - 1
    return days


def _times(hours: _Numbers, minutes: _Numbers, seconds: _Numbers, nanos: _Numbers) -> _Numbers:
    """Milliseconds of the day."""
    _within("the hours of a TimeOfDay", hours, 0, 23)
    _within("the minutes of a TimeOfDay", minutes, 0, 59)
    _within("the seconds of a TimeOfDay", seconds, 0, 59)
    _within("the nanoseconds of a TimeOfDay", nanos, *_NANOS)
    millis: _Numbers = ((hours * 60 + minutes) * 60 + seconds) * 1_000 + nanos // 1_000_000
    return millis


_FROM_PARTS: Mapping[Base, Callable[..., _Numbers]] = {
    Base.TIMESTAMP: _timestamps,
    Base.DATE: _dates,
    Base.TIME: _times,
}


def _decimals(array: pa.Array, kind: SqlType) -> pa.Array:
    digits, _, scales = array.flatten()
    values = [
        None if data is None else _decimal(data, scale, kind.scale)
        for data, scale in zip(digits.to_pylist(), scales.to_pylist(), strict=True)
    ]
    return pa.array(values, kind.arrow())


def _decimal(data: bytes, scale: int, wanted: int) -> decimal.Decimal:
    if len(data) > _DECIMAL_BYTES:
        raise ProtoError(f"a Decimal has {len(data)} bytes, at most {_DECIMAL_BYTES} can fit")
    unscaled = decimal.Decimal(int.from_bytes(data, "big", signed=True))
    exact = unscaled.scaleb(-scale, _DIGITS)
    return exact.quantize(decimal.Decimal(1).scaleb(-wanted), context=_DIGITS)
