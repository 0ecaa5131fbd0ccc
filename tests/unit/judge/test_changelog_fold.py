"""A changelog folded: live rows, drops, and state partitions that are not level."""

from __future__ import annotations

import json

from holdfast.judge.read.changelog_fold import ChangelogFold, ProgressFold
from holdfast.state.changelog import MARKER_KEY, CommitMarker, data_key
from holdfast.state.digest import content
from holdfast.state.elements import element_head
from holdfast.state.memory import MemoryStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.types.ids import OffsetRange

BOUNDS = {0: (0, 5), 1: (2, 2)}


def marker(partition: int, end: int, dropped: int = 0) -> bytes:
    source = OffsetRange.of("in", {0: 0, 1: 2}, {0: end, 1: 2})
    return CommitMarker(
        1, "app", "q", partition, 2, "p", "f", "c", source, 0, 3, dropped_late=dropped
    ).to_bytes()


def test_rows_are_live_until_their_tombstone() -> None:
    fold = ChangelogFold([0, 1])
    fold.update(0, data_key(b"a"), b"1", 0)
    fold.update(0, data_key(b"b"), b"1", 1)
    fold.update(1, data_key(b"a"), b"1", 2)
    fold.update(0, data_key(b"a"), None, 3)
    fold.update(0, MARKER_KEY, marker(0, 5), 4)
    fold.update(0, None, b"not ours", 5)
    assert fold.rows == 2


def test_the_engine_s_own_markers_are_understood() -> None:
    fold = ChangelogFold([0, 1])
    fold.update(0, MARKER_KEY, marker(0, 3, dropped=9), 6)
    fold.update(0, MARKER_KEY, marker(0, 5, dropped=1), 7)
    fold.update(1, MARKER_KEY, marker(1, 5, dropped=2), 8)
    assert fold.dropped_late() == 3
    assert list(fold.unlevel(BOUNDS)) == []


def test_a_marker_short_of_the_end_and_a_missing_one_are_not_level() -> None:
    fold = ChangelogFold([0, 1])
    fold.update(0, MARKER_KEY, marker(0, 4), 9)
    assert [text.split(":")[0] for text in fold.unlevel(BOUNDS)] == [
        "state partition 0",
        "state partition 1",
    ]


def test_no_input_needs_no_marker() -> None:
    assert list(ChangelogFold([0]).unlevel({0: (7, 7)})) == []


def test_a_marker_that_does_not_say_what_was_dropped() -> None:
    fold = ChangelogFold([0])
    fold.update(0, MARKER_KEY, json.dumps({"source": {"end": [[0, 5]]}}).encode(), 10)
    assert fold.dropped_late() is None


def test_elements_are_no_rows_but_part_of_the_digest() -> None:
    fold = ChangelogFold([0])
    fold.update(0, data_key(b"a"), b"1", 0)
    empty = fold.partitions()[0].digest
    names = [element_head(b"a") + b"\0\1" + value for value in (b"x", b"y")]
    for offset, name in enumerate(names, 1):
        fold.update(0, name, b"\1", offset)
    both = fold.partitions()[0]
    fold.update(0, names[0], None, 3)
    assert (both.rows, fold.rows, list(fold.heads())) == (1, 1, [(b"a", b"1")])
    assert fold.elements() == {(b"a", 1): 1}
    assert len({empty, both.digest, fold.partitions()[0].digest}) == 3
    store = TableStore(MemoryStore(), windowed=False)
    at = StorePosition("t", 4, 0, "")
    store.apply([b"a"], [b"1"], created=[b"a"], removed=0, position=at, marker=None,
                elements={names[0]: None, names[1]: b"\1"})  # fmt: skip
    assert content(store) == (1, fold.partitions()[0].digest)


def test_a_partition_s_rows_digest_and_last_offset() -> None:
    fold = ChangelogFold([0, 1])
    for offset, (key, value) in enumerate([(b"a", b"0"), (b"b", b"2"), (b"a", b"1")]):
        fold.update(0, data_key(key), value, offset)
    fold.update(1, data_key(b"b"), b"2", 4)
    fold.update(1, data_key(b"a"), b"1", 5)
    first, second = fold.partitions().values()
    assert (first.rows, first.last_offset, second.last_offset) == (2, 2, 5)
    assert first.digest == second.digest
    fold.update(1, data_key(b"c"), b"", 6)
    assert fold.partitions()[1].digest != first.digest


def test_taken_in_is_what_every_state_partition_has() -> None:
    fold = ChangelogFold([0, 1])
    fold.update(0, MARKER_KEY, marker(0, 3), 0)
    assert fold.taken_in() == {}
    fold.update(1, MARKER_KEY, marker(1, 5), 0)
    assert fold.taken_in() == {0: 3, 1: 2}


def test_a_query_without_state_has_a_marker_per_source_partition() -> None:
    fold = ProgressFold()
    for partition, end in ((0, 3), (0, 5), (1, 7)):
        value = json.dumps({"topic": "in", "partition": partition, "offset": end}).encode()
        fold.update(b"\x00holdfast.commit.%d" % partition, value)
        fold.update(b"\x00holdfast.dead-letter.%d" % partition, value)
    assert fold.taken_in() == {0: 5, 1: 7}
    assert list(fold.unlevel({0: (0, 5), 1: (0, 7), 2: (3, 3)})) == []
    late = list(fold.unlevel({0: (0, 5), 1: (0, 8), 2: (3, 4)}))
    assert late == [
        "source partition 1: has 7, the input ends at 8",
        "source partition 2: has None, the input ends at 4",
    ]
