"""Which servers there are, from what each is told at its start."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidConfig
from holdfast.serve.cluster.members import Plan


def test_addresses_are_listed_or_made_from_one() -> None:
    listed = Plan.of(1, 2, 2, "http://a:1, http://b:2/")
    assert listed.addresses == ("http://a:1", "http://b:2")
    made = Plan.of(2, 3, 2, "http://t-{id}.t-pods:8088")
    assert made.addresses == tuple(f"http://t-{n}.t-pods:8088" for n in range(3))
    assert (listed.ids, made.ids) == (["0", "1"], ["0", "1", "2"])


def test_there_are_no_more_copies_than_servers() -> None:
    plan = Plan.of(0, 1, 2, "http://a:1")
    assert plan.copies == 1
    assert plan.holders("T", 3) == ["0"]


@pytest.mark.parametrize(
    ("number", "servers", "copies", "peers"),
    [(2, 2, 1, "a,b"), (0, 2, 1, "a"), (0, 1, 0, "a"), (0, 1, 1, ""), (0, 3, 2, "a,b,c,d")],
)
def test_what_does_not_fit_is_refused(number: int, servers: int, copies: int, peers: str) -> None:
    with pytest.raises(InvalidConfig, match="do not fit each other"):
        Plan.of(number, servers, copies, peers)
