"""Numbers as people read them."""

from __future__ import annotations

from holdfast.types.words import counted, human_bytes, human_seconds, iso_time


def test_bytes_are_shown_in_units() -> None:
    assert [human_bytes(n) for n in (0, 1023, 4096, 5 << 20, 3 << 40)] == [
        "0 B", "1023 B", "4.0 KiB", "5.0 MiB", "3.0 TiB",
    ]  # fmt: skip


def test_seconds_are_shown_in_units() -> None:
    assert [human_seconds(s) for s in (0, 0.0001, 0.012, 0.12, 59.94, 90, 5400, 129_600)] == [
        "0.0 s", "<1 ms", "12 ms", "0.1 s", "59.9 s", "1.5 min", "1.5 h", "1.5 d",
    ]  # fmt: skip


def test_things_are_counted() -> None:
    counts = [counted(n, "topic") for n in (0, 1, 2, 2_000)]
    assert counts == ["0 topics", "1 topic", "2 topics", "2,000 topics"]


def test_times_are_shown_with_their_zone_and_never_fail() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    assert iso_time(-1) == "1969-12-31T23:59:59.999Z"
    assert iso_time(1_772_441_242_001, "seconds") == "2026-03-02T08:47:22Z"
    for far in (1 << 62, -(1 << 62), 253_402_300_800_000):
        assert iso_time(far) == str(far)
