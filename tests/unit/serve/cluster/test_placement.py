"""The placement of partitions: even, and moving little when servers come or go."""

from __future__ import annotations

from collections import Counter

from holdfast.serve.cluster.members import holders

PLACES = [(table, partition) for table in ("A", "B", "C") for partition in range(64)]


def _servers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_every_partition_has_as_many_holders_as_asked_for_and_there_are() -> None:
    for copies, expected in ((1, 1), (2, 2), (5, 3)):
        found = [holders(_servers(3), *place, copies) for place in PLACES]
        assert all(len(set(each)) == expected for each in found)


def test_the_order_of_servers_does_not_matter() -> None:
    for place in PLACES:
        assert holders(["2", "0", "1"], *place, 2) == holders(["0", "1", "2"], *place, 2)


def test_servers_hold_about_the_same() -> None:
    held = Counter(s for place in PLACES for s in holders(_servers(4), *place, 2))
    assert max(held.values()) < 2 * min(held.values())


def test_a_new_server_takes_its_share_and_nothing_else_moves() -> None:
    for place in PLACES:
        before = set(holders(_servers(3), *place, 2))
        after = set(holders(_servers(4), *place, 2))
        assert after == before or ("3" in after and len(before - after) == 1)
