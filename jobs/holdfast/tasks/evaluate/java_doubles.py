"""Doubles as text, digit by digit as Java prints them up to its version 18.

State keys of stores and changelogs hold this text, as Spark writes it on Java 17, which Holdfast
ships.  Python, and Java since version 19 (JDK-4511638), print the fewest digits that are read as
the same double.  Before, Java sometimes printed more: 2E23 is 1.9999999999999998E23.
"""

from __future__ import annotations

import math
import struct

__all__ = ["java_double"]

_DOUBLE, _WORD = struct.Struct("<d"), struct.Struct("<Q")
_FRACTION = 52  # bits that a double stores of its significand; normal ones have one more
_LEAST_POWER = -1074  # the last bit of the least double is 2**-1074
_PLAIN = (1e-3, 1e7)  # outside this range Java writes an exponent
_WHOLE_BITS = 63  # whole numbers of so many bits are printed without a division
_LONG_BITS, _LONG_MAX = 64, 2**63 - 1
_POWERS = 27  # Java knows the size of so many powers of five
# Java's approximate logarithm: its slope, its value at 1.5, and that of 2.
_SLOPE, _MIDDLE, _LOG_2 = 0.289529654, 0.176091259, 0.301029995663981


def java_double(value: float) -> str:
    """Java 17's `Double.toString`: 1.0, 1.0E10, 1.0E-5, NaN, -Infinity."""
    # In this range both print the fewest digits, and without an exponent.
    if _PLAIN[0] <= abs(value) < _PLAIN[1] or value == 0:
        return repr(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    digits, exponent = _digits(abs(value))
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(value: float) -> tuple[str, int]:
    """The digits of a positive double, and the power of ten of the first digit."""
    bits: int = _WORD.unpack(_DOUBLE.pack(value))[0]
    stored, power = bits & ((1 << _FRACTION) - 1), bits >> _FRACTION
    significand = stored | (1 << _FRACTION) if power else stored
    zeros = (significand & -significand).bit_length() - 1
    odd, shift = significand >> zeros, max(power, 1) - 1 + _LEAST_POWER + zeros
    precision = significand.bit_length()
    if shift >= 0 and odd.bit_length() + shift <= _WHOLE_BITS:
        return _whole_digits(odd << shift)
    return _divided(odd, shift, precision)


def _whole_digits(value: int) -> tuple[str, int]:
    """A whole number below 2**63, without the digits that are less than its last bit."""
    surplus = value.bit_length() - 1 - (_FRACTION + 1) - 1
    dropped = len(str(1 << surplus)) - 1 if surplus > 0 else 0
    unit = 10**dropped
    text = str((value + unit // 2) // unit)
    return text.rstrip("0"), len(text) - 1 + dropped


def _divided(odd: int, shift: int, precision: int) -> tuple[str, int]:
    """The digits of odd * 2**shift, a double with `precision` significant bits.

    They are the quotients of b / s, where odd * 2**shift == b / s * 10**exponent; m is half the
    distance to the next double in units of b.
    """
    width = odd.bit_length()
    exponent = _log_10(odd, width - 1 + shift)
    fives, tens = max(0, -exponent), max(0, exponent)
    twos, below = fives + max(0, shift), tens + max(0, -shift)
    common = min(twos, below)
    # A power of two is only half as far from the next double below as from that above.
    half = fives + max(0, shift) + width - 1 - precision - common - (width == 1)
    twos, below, half = (n - common - min(0, half) for n in (twos, below, half + common))
    in_longs = (
        width + twos + _bits_of_power(fives) < _LONG_BITS
        and below + 1 + _bits_of_power(tens + 1) < _LONG_BITS
    )
    b, s, m = odd * 5**fives << twos, 5**tens << below, 5**fives << half
    return _quotients(b, s, m, exponent, in_longs=in_longs)


def _log_10(odd: int, power: int) -> int:
    """Java's estimate of the exponent of ten: right, or one too many."""
    scaled = math.ldexp(odd, 1 - odd.bit_length())
    return math.floor((scaled - 1.5) * _SLOPE + _MIDDLE + power * _LOG_2)


def _bits_of_power(n: int) -> int:
    """How many bits Java expects 5**n to have, which is too many for large ones."""
    return 3 * n if n >= _POWERS else (5**n).bit_length() if n else 0


def _quotients(b: int, s: int, m: int, exponent: int, *, in_longs: bool) -> tuple[str, int]:
    """Digits of b / s until what remains is less than m; the last one is rounded."""
    digits, number, first = 0, 0, True
    low = high = False
    while first or not (low or high):
        digit, b = divmod(b, s)
        b, m = 10 * b, _long(10 * m) if in_longs else 10 * m
        low, high = (_ends_in_longs if in_longs else _ends)(b, m, 10 * s)
        if first and digit == 0 and not high:
            exponent -= 1
        else:
            digits, number = digits + 1, 10 * number + digit
        if first and not -3 <= exponent < 8:
            low = high = False  # there is always a digit behind the point
        first = False
    if high and (not low or 2 * b > 10 * s or (2 * b == 10 * s and number % 2)):
        number += 1
    text = str(number).zfill(digits)
    return text[:digits], exponent + len(text) - digits


def _ends(b: int, m: int, tens: int) -> tuple[bool, bool]:
    """Whether the digits so far are close enough, and whether they are if rounded up."""
    return b < m, b + m >= tens


def _ends_in_longs(b: int, m: int, tens: int) -> tuple[bool, bool]:
    """The same where Java's sums wrap around; it sees only that a distance is negative."""
    return (b < m, _long(b + m) > tens) if m > 0 else (True, True)


def _long(value: int) -> int:
    """A Java long of these bits."""
    return (value + _LONG_MAX + 1) % (2 * _LONG_MAX + 2) - _LONG_MAX - 1
