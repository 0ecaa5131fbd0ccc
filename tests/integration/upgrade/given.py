"""The input of `job.sql`: the same records in every run, in two parts.

DOUBLEs are sums of few powers of two, so that no order of addition changes a sum.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["BAD", "PARTITIONS", "Given", "part"]

PARTITIONS = {"events": 2, "ordered": 1, "payments": 1, "people": 2, "cities": 1, "numbered": 2}
START_MS = 1_700_000_000_000
# Values that no stream can decode, and one with half a character.
BAD = [b"not json", b'{"n": "many"}', b"\xff\xfe", b'{"name": "\\ud800b", "ts": 1700000000000}']

_IDS = ["a", "b", "c", "d", "é", "key with spaces", "1", ""]
_VALUES: dict[str, list[Any]] = {
    "name": ["ann", "bob7", "Zoë x1", "straße", "ıİ", "", None, "10%_a", "skip me", 'a"b\\c\n\t',
             "日本 b", "😀b", "Ann", "  pad  ", "ǆ", "O'Neil,x", "bob7"],
    "n": [0, 1, 2, 3, 5, 7, 11, -4, None, 2_147_483_647, 9],
    "big": [0, 1, -1, 10, 2**53 + 1, 2**63 - 1, -(2**63), None, 77],
    "d": [0.0, -0.0, 0.25, 1.5, -2.75, 2.0**996, 2.0**-20, None, 123456789.125, 1e7, 3.0],
    "price": ["1.50", "0.00", "-3.25", "99999999.99", None, "2.5", "0.1"],
    "ok": [True, False, None],
    "day": [0, 19_000, -1, 19_675, None, -719_000],
    "moment": [0, 1_700_000_000_123, -1, None, 253_402_300_799_999],
    "clock": [0, 3_600_000, 86_399_999, None],
    "raw": [base64.b64encode(each).decode() for each in (b"", b"\x00\xff", b"abc")] + [None],
    "place": [{"city": "Rome", "zip": 1}, {"city": None, "zip": None}, None,
              {"city": "Köln", "zip": 50_667}, {"city": "Oslo"}],
    "tags": [[], ["a", "b"], [None, "é"], None, ["a"]],
    "nums": [[1, 2], [], None, [2_147_483_647, 1], [None, 3]],
}  # fmt: skip
_CITIES = ["Rome", "Köln", "Oslo", "ROME", "KÖLN", "Lima"]


@dataclass(frozen=True)
class Given:
    """A record to produce."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def part(number: int) -> Iterator[Given]:
    """The records of part 0 or 1, in the order in which they are produced."""
    rng = random.Random(number)
    for i in range(110 if number == 0 else 50):
        time_ms = START_MS + (number * 110 + i) * 700
        yield from _events(rng, "events", time_ms)
        yield from _events(rng, "ordered", time_ms)
        if i % 2 == 0:
            yield _payment(rng, time_ms)
        if i % 4 == 0:
            yield _person(rng, time_ms)
            yield _numbered(rng, time_ms)
        if i % 9 == 0:
            yield _city(rng, time_ms)
    for value in BAD:
        yield Given("events", 0, b"a", value, START_MS)


def _at(rng: random.Random, time_ms: int) -> int:
    """A time about then; now and then a minute late."""
    return time_ms - rng.choice([0, 0, 0, 0, 300, 2_000, 60_000])


def _events(rng: random.Random, topic: str, time_ms: int) -> Iterator[Given]:
    key = None if rng.random() < 0.04 else rng.choice(_IDS).encode()
    fields = {name: rng.choice(values) for name, values in _VALUES.items()}
    fields = {name: value for name, value in fields.items() if rng.random() > 0.03}
    if rng.random() < 0.7:
        fields["price"] = rng.choice(["1.50", "2.25", "10.00"])
    at = fields["ts"] = _at(rng, time_ms)
    value = json.dumps(fields).encode()
    partition = sum(key or b"") % PARTITIONS[topic]
    yield Given(topic, partition, key, None if rng.random() < 0.02 else value, at)


def _payment(rng: random.Random, time_ms: int) -> Given:
    value = {"paid": rng.choice(_VALUES["big"]), "kind": rng.choice(["card", "Straße", None])}
    key = rng.choice([*_IDS, "A", "É"]).encode()
    return Given("payments", 0, key, json.dumps(value).encode(), _at(rng, time_ms))


def _person(rng: random.Random, time_ms: int) -> Given:
    key = rng.choice(_IDS).encode()
    value = {
        "city": rng.choice([*_CITIES, None]),
        "age": rng.choice([10, 20, 33, 40, None]),
        "boss": rng.choice(["ann", "bob", None]),
    }
    text = None if rng.random() < 0.15 else json.dumps(value).encode()
    return Given("people", sum(key) % 2, key, text, time_ms)


def _city(rng: random.Random, time_ms: int) -> Given:
    value = {"country": rng.choice(["it", "de", "Straße"]), "area": rng.choice([0.5, -0.0, None])}
    text = None if rng.random() < 0.15 else json.dumps(value).encode()
    return Given("cities", 0, rng.choice(_CITIES).encode(), text, time_ms)


def _numbered(rng: random.Random, time_ms: int) -> Given:
    key = rng.choice([0, 1, -1, 2**63 - 1, -(2**63)])
    value = json.dumps({"v": rng.choice([1, 2, None, -7])}).encode()
    return Given("numbered", key % 2, key.to_bytes(8, "big", signed=True), value, time_ms)
