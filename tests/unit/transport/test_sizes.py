"""How large records may be, before any broker is asked."""

from __future__ import annotations

import pytest

from holdfast.transport.idempotent_producer import open_client
from holdfast.transport.sizes import (
    Sent,
    Sizes,
    producer_limit,
    record_bytes,
    size_limits,
    with_batches,
)


def test_the_largest_record_of_each_topic_is_known() -> None:
    sizes = Sizes()
    sizes.add_all("a", [0, 1, 2], [b"k", b"key", None], [b"12", None, b"123"])
    sizes.add_all("a", [0], [b"k"], [b"1"])
    sizes.add(Sent.of("b", 4, None, None))
    assert sizes.of("a") == Sent("a", 0, b"k", 3)
    assert sizes.of("b") == Sent("b", 4, None, 0)
    sizes.add_all("a", [7, 8], [b"x" * 50, b"y"], [None, b"z" * 48])
    assert sizes.of("a") == Sent("a", 7, b"x" * 50, 50)
    sizes.clear()
    assert sizes.topics() == []


def test_headers_count() -> None:
    plain = Sent.of("t", 0, b"k", b"v")
    assert plain.size == 2
    more = Sent.of("t", 0, b"k", b"v", [("name", "ä"), ("b", b"123"), ("none", None)])
    assert more.size >= 2 + len("name") + 2 + len("b") + 3 + len("none")
    assert record_bytes(b"k", b"v", [("a", "b")]) > record_bytes(b"k", b"v") > 2


@pytest.mark.parametrize(
    ("asked", "limit"), [({}, 64_000_000), ({"message.max.bytes": "200000000"}, 200_000_000)]
)
def test_the_largest_record_fits_the_queue(asked: dict[str, str], limit: int) -> None:
    """Else it would wait for room that there never is."""
    assert producer_limit(asked) == limit
    assert size_limits(asked)["queue.buffering.max.kbytes"] * 1024 > limit
    open_client({"bootstrap.servers": "127.0.0.1:1"} | asked, {})


def test_batches_are_no_larger_than_the_topic_takes_nor_than_asked() -> None:
    assert with_batches({}, 10_000)["batch.size"] == "10000"
    assert with_batches({"batch.size": "500"}, 10_000)["batch.size"] == "500"
    assert with_batches({}, 10_000_000)["batch.size"] == str(size_limits({})["batch.size"])
    assert with_batches({"a": "b"}, 0) == {"a": "b", "batch.size": "1"}
