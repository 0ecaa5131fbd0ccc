"""Heirs get the rows of their own share if the number of state partitions changes."""

from __future__ import annotations

import pytest

from holdfast.errors import StoreCorrupted
from holdfast.tasks.heirs import heirs, shares
from holdfast.transport.partitioner import state_partition
from tests.simulation.jobs.one_table import query

QUERY = query("T")
KEYS = [b"k%d" % n for n in range(100)]


@pytest.mark.parametrize(("old", "new"), [(4, 6), (6, 4), (1, 3), (3, 1), (2, 8), (8, 2), (5, 5)])
def test_every_row_goes_to_an_heir_of_its_share(old: int, new: int) -> None:
    for share in shares(old, new):
        mine = [key for key in KEYS if state_partition(key, old) in share.old]
        assert heirs(QUERY, share, new, mine) == [state_partition(key, new) for key in mine]


def test_a_row_that_was_in_another_s_place_is_not_moved_further() -> None:
    share, other = shares(2, 4)
    astray = next(key for key in KEYS if state_partition(key, 2) in other.old)
    mine = next(key for key in KEYS if state_partition(key, 2) in share.old)
    with pytest.raises(StoreCorrupted, match=r"state key of 2 bytes.*whose rows go to"):
        heirs(QUERY, share, 4, [mine, astray])
