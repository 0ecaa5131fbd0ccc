"""Readers outlive tasks, one per query and topic partition, not without end."""

from __future__ import annotations

from holdfast.ingest import reading

CLIENT = {"bootstrap.servers": "localhost:1"}


def test_a_reader_is_kept_per_client_query_and_topic_partition() -> None:
    first = reading.reader(CLIENT, "q", "t", 0)
    assert reading.reader(dict(CLIENT), "q", "t", 0) is first
    assert reading.reader(CLIENT, "q", "t", 1) is not first
    assert reading.reader(CLIENT, "other", "t", 0) is not first
    assert reading.reader({**CLIENT, "client.id": "x"}, "q", "t", 0) is not first


def test_the_longest_unused_reader_makes_room() -> None:
    kept, old = reading.reader(CLIENT, "q", "kept", 0), reading.reader(CLIENT, "q", "old", 0)
    for partition in range(reading._READERS_MAX - 1):
        reading.reader(CLIENT, "q", "many", partition)
        assert reading.reader(CLIENT, "q", "kept", 0) is kept
    assert reading.reader(CLIENT, "q", "old", 0) is not old
