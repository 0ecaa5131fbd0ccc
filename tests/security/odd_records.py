"""103 records that somebody may send to a topic of JSON: what is a row of them, what is not.

The stream has the columns of `COLUMNS`; TS is its event time.  Each record has a key of its own,
its number, unless the key is what is odd.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["COLUMNS", "Odd", "odd_records"]

COLUMNS = (
    "n BIGINT, d DOUBLE, c DECIMAL(6, 2), s STRING, a ARRAY<INT>, m MAP<STRING, INT>, "
    "st STRUCT<x INT>, ts BIGINT"
)
AT_MS = 1_700_000_000_000
_NO_OBJECT = (
    b"", b"{", b"}", b"[", b"{]", b"nul", b"NaN", b'"', b'"text"', b"1", b"true", b"[]",
    b"\x00", b"\x00\x00\x00\x00\x01\x02ab", b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"<x/>",
    b"{'n': 1}", b"{n: 1}", b'{"n" 1}', b'{"n": }', b'{"n": 1,}', b'{"n": 1', b'{"n": 1}{"n": 2}',
    b'{"n": 1} x',
)  # fmt: skip
_BAD = (
    # numbers
    b'"n": 0x10', b'"n": +1', b'"n": 1.', b'"n": .5', b'"n": 1e', b'"n": NaN',
    b'"d": NaN', b'"d": -Infinity', b'"d": 1e400', b'"n": 1e400',
    b'"n": 9223372036854775808', b'"c": 99999.99', b'"c": 1.005', b'"c": 1e999999999',
    b'"n": ' + b"9" * 5_000, b'"c": ' + b"9" * 100_000, b'"n": "twelve"', b'"d": "x"',
    # text
    b'"s": "\\ud800"', b'"s": "\\udc00\\ud800"', b'"s": "\xed\xa0\x80"', b'"s": "\xc0\x80"',
    b'"s": "two\nlines"', b'"s": "\\x"', b'"m": {"\\ud800": 1}',
    # another type than the declared one
    b'"n": true', b'"n": []', b'"n": {}', b'"d": true', b'"c": true', b'"a": 1', b'"a": {"x": 1}',
    b'"a": ["x"]', b'"m": []', b'"m": {"k": "v"}', b'"st": []', b'"st": {"x": "y"}',
    # nested
    b'"other": ' + b"[" * 10_000 + b"]" * 10_000,
    b'"s": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    b'"s": ' + b"[" * 300 + b"]" * 300, b'"a": ' + b"[" * 10_000,
)  # fmt: skip
_GOOD = (
    b'"n": 1.9', b'"n": "12"', b'"d": "NaN"', b'"d": 1e-400', b'"c": 1.50', b'"c": "-9999.99"',
    b'"s": "\\ud83d\\ude00"', b'"s": "\\u0000"', b'"s": true', b'"s": [1, {"a": 2.50}]',
    b'"s": ' + b"[" * 150 + b"]" * 150, b'"a": [null]', b'"m": {"k": null, "k": 1}', b'"st": {}',
    b'"n": 1, "n": 2', b'"n": "x", "n": 2', b'"\\ud800": 1',
    b'"s": "' + b"x" * 1_030_000 + b'"', b" " * 1_030_000, b'"n": 1, ' * 100_000 + b'"n": 2',
)  # fmt: skip


@dataclass(frozen=True)
class Odd:
    """A record, and whether it is a row."""

    key: bytes | None
    value: bytes
    good: bool


def odd_records() -> list[Odd]:
    """All of them."""
    return list(_records())


def _records() -> Iterator[Odd]:
    values = [(value, False) for value in _NO_OBJECT]
    values += [(_with_time(inside), False) for inside in _BAD]
    values += [(_with_time(inside), True) for inside in _GOOD]
    noise = random.Random(7)
    values += [(noise.randbytes(1_030_000), False), (b"[" * 1_030_000, False)]
    for number, (value, good) in enumerate(values):
        yield Odd(b"%d" % number, value, good)
    yield from (
        Odd(None, _with_time(b'"n": 1'), good=True),
        Odd(None, b"bad", good=False),
        Odd(b"", _with_time(b'"n": 1'), good=True),
        Odd(b"\x00", _with_time(b'"n": 1'), good=True),
        Odd(b"\xff", _with_time(b'"n": 1'), good=False),
        Odd(noise.randbytes(1_030_000), b"{}", good=False),
        Odd(b"time-text", b'{"ts": "%d"}' % AT_MS, good=True),
        Odd(b"time-0", b'{"ts": 0}', good=True),
        Odd(b"time-2100", b'{"ts": 4102444800000}', good=True),
        Odd(b"time-last", b'{"ts": 9223372036854775807}', good=True),
        *(
            Odd(b"time-bad", value, good=False)
            for value in (b"{}", b'{"ts": null}', b'{"ts": -1}', b'{"ts": 1e30}', b'{"ts": "now"}')
        ),
    )


def _with_time(inside: bytes) -> bytes:
    fields = b"" if not inside.strip() else b", "
    return b'{"ts": %d%s%s}' % (AT_MS, fields, inside)
