"""Dead letters that are cut: they fit, and say what was there."""

from __future__ import annotations

from hashlib import sha256

import pytest

from holdfast.ingest.dead_letters import Headers, cut, whole
from holdfast.ingest.records import BadRecord

STORY: Headers = [("holdfast.reason", "because " * 60), ("holdfast.offset", "12345678901234567890")]


def letter_of(key: bytes | None, value: bytes | None, room: int) -> tuple[int, dict[str, object]]:
    letter = cut(whole(BadRecord(key, value, 1, 2, "why"), STORY), room)
    return letter.size, {"key": letter.key, "value": letter.value, **dict(letter.headers)}


@pytest.mark.parametrize("room", [1_000_000, 4_096, 2_000, 1_000])
@pytest.mark.parametrize(
    ("key", "value"),
    [(b"k", b"v" * 3_000_000), (b"k" * 3_000_000, None), (b"k" * 3_000_000, b"v" * 3_000_000)],
)
def test_a_cut_letter_fits_and_tells_sizes_and_hashes(
    key: bytes, value: bytes | None, room: int
) -> None:
    size, told = letter_of(key, value, room)
    assert size <= room
    assert key.startswith(told["key"])  # type: ignore[arg-type]
    assert told["holdfast.key.bytes"] == str(len(key))
    assert told["holdfast.key.sha256"] == sha256(key).hexdigest()
    assert told["holdfast.offset"] == "12345678901234567890"
    if value is None:
        assert told["value"] is None
        assert "holdfast.value.bytes" not in told
    else:
        assert value.startswith(told["value"])  # type: ignore[arg-type]
        assert told["holdfast.value.bytes"] == str(len(value))
        assert told["holdfast.value.sha256"] == sha256(value).hexdigest()


def test_where_there_is_room_the_head_is_long() -> None:
    _, told = letter_of(b"key", b"v" * 3_000_000, 1_000_000)
    assert (told["key"], told["value"]) == (b"key", b"v" * 1_024)


def test_no_key_stays_no_key() -> None:
    _, told = letter_of(None, b"v" * 9_000, 4_096)
    assert told["key"] is None
    assert "holdfast.key.bytes" not in told
