"""A changelog is given out in whole transactions, however it was read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.serve.follow.transactions import Transactions
from holdfast.state.changelog import MARKER_KEY
from holdfast.transport.reader import Chunk


def chunk(keys: list[bytes], start: int) -> Chunk:
    offsets = list(range(start, start + len(keys)))
    return Chunk(list(keys), [b"v"] * len(keys), offsets, offsets, start + len(keys))


@given(
    sizes=st.lists(st.integers(0, 4), max_size=8),
    cuts=st.lists(st.integers(1, 5), min_size=1, max_size=30),
    tail=st.integers(0, 3),
)
def test_what_comes_out_ends_in_a_marker(sizes: list[int], cuts: list[int], tail: int) -> None:
    keys: list[bytes] = []
    for size in sizes:
        keys += [b"\x01k"] * size + [MARKER_KEY]
    whole, keys = len(keys), keys + [b"\x01k"] * tail
    transactions, out, at = Transactions(has_markers=True), list[int](), 0
    for cut in [*cuts, len(keys) + 1]:
        given_out = transactions.add(chunk(keys[at : at + cut], at))
        at = min(at + cut, len(keys))
        if given_out is not None:
            assert given_out.keys[-1] == MARKER_KEY
            assert given_out.position == given_out.offsets[-1] + 1
            out += given_out.offsets
    assert out == list(range(whole))
    assert transactions.open == (tail > 0)


def test_what_has_lost_its_marker_is_given_out_where_it_must_end() -> None:
    transactions = Transactions(has_markers=True)
    assert transactions.add(chunk([b"\x01a", b"\x01b"], 5)) is None
    assert transactions.add(chunk([b"\x01c"], 9)) is None
    rest = transactions.rest(20)
    assert (rest.offsets, rest.position) == ([5, 6, 9], 20)
    assert (len(transactions.rest(30)), transactions.open) == (0, False)


def test_without_markers_everything_is_given_out_at_once() -> None:
    transactions = Transactions(has_markers=False)
    part = chunk([b"a", b"b"], 5)
    assert transactions.add(part) is part
    assert not transactions.open
