from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.state.memory import MemoryStore
from holdfast.state.segments import FOREVER_MS, SEGMENT_MS, Segments

ALL = (-(2**63), 2**63 - 1)


def key(name: bytes, time_ms: int) -> bytes:
    return name + time_ms.to_bytes(8, "big", signed=True)


def change(store: MemoryStore, added: Sequence[bytes] = (), gone: Sequence[bytes] = ()) -> Segments:
    """Applies changes to a store that was just opened; returns its segments."""
    segments = Segments(store, b"w", b"n")
    store.write(*segments.changes(added, gone))
    return segments


def test_keys_of_a_batch_and_segment_are_one_entry_for_each_length() -> None:
    store = MemoryStore()
    change(store, [key(b"a", 1), key(b"b", 2), key(b"bb", 3), key(b"a", SEGMENT_MS)])
    assert sum(k.startswith(b"w") for k, _ in store.scan(b"", None)) == 3


def test_a_segment_is_listed_when_all_of_it_is_over_the_oldest_first() -> None:
    store = MemoryStore()
    keys = [key(b"a", time) for time in (-1, 0, SEGMENT_MS - 1, SEGMENT_MS)]
    segments = change(store, keys)
    assert segments.listed(-SEGMENT_MS, 0, 9) == keys[:1]
    assert segments.listed(0, SEGMENT_MS - 1, 9) == []
    assert segments.listed(0, SEGMENT_MS, 9) == keys[1:3]
    assert segments.listed(*ALL, 9) == keys


def test_whole_entries_are_listed_until_there_are_enough() -> None:
    store = MemoryStore()
    for n in range(4):
        segments = change(store, [key(b"%d" % n, 0), key(b"%d" % n, 1)])
    assert segments.listed(*ALL, 3) == [key(b"%d" % n, at) for n in (0, 1) for at in (0, 1)]
    assert segments.listed(*ALL, 0) == []


def test_keys_that_have_left_are_listed_no_more_and_empty_entries_are_gone() -> None:
    store = MemoryStore()
    names = [b"\0", b"a", b"ab", b"b\0"]
    change(store, [key(name, 0) for name in names])
    segments = change(store, gone=[key(b"ab", 0), key(b"a", 0), key(b"none", 0)])
    assert segments.listed(*ALL, 9) == [key(b"\0", 0), key(b"b\0", 0)]
    change(store, gone=[key(b"\0", 0), key(b"b\0", 0)])
    assert [k for k, _ in store.scan(b"", None)] == [b"n"]


def test_a_key_that_a_restore_has_listed_again_leaves_all_entries() -> None:
    store = MemoryStore()
    keys = [key(b"%d" % n, 0) for n in range(4)]
    for part in (keys[:3], keys[1:]):
        segments = Segments(store, b"w", b"n")
        store.write(*segments.changes(part, [], new=False))
    later = key(b"9", 0)
    assert change(store, [later]).listed(*ALL, 9) == [later, *keys]
    assert change(store, gone=[keys[1], later]).listed(*ALL, 9) == [keys[0], *keys[2:]]


def test_of_many_keys_some_are_an_entry_and_no_more_of_them_are_read_than_have_left() -> None:
    store = MemoryStore()
    keys = [key(b"%06d" % n, 0) for n in range(50_000)]
    segments = change(store, keys)
    first = segments.listed(*ALL, 15_000)
    assert first == keys[:20_000]
    read = 0

    class Counting(MemoryStore):
        def scan(
            self, start: bytes, end: bytes | None, limit: int | None = None
        ) -> Iterator[tuple[bytes, bytes]]:
            nonlocal read
            for pair in super().scan(start, end, limit):
                read += 1
                yield pair

    counting = Counting()
    counting.write(list(store.scan(b"", None)), [])
    puts, deletes = Segments(counting, b"w", b"n").changes([], first)
    assert (puts, len(deletes), read) == ([], 2, 2)


def test_what_stays_for_ever_is_in_no_list() -> None:
    store = MemoryStore()
    assert change(store, [key(b"a", FOREVER_MS)]).listed(*ALL, 9) == []
    change(store, gone=[key(b"a", FOREVER_MS)])
    assert list(store.scan(b"", None)) == []
