from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.tasks.pack.key_order import key_order

LIMITS = np.iinfo(np.int64)
# Few different bytes, so that keys are equal, begin alike and end in zeros.
keys_of = st.lists(st.one_of(st.binary(max_size=12), st.text("\0ab", max_size=11).map(str.encode)))


def expected(rows: list[tuple[bytes, int]]) -> tuple[list[int], list[bool]]:
    order = sorted(range(len(rows)), key=rows.__getitem__)
    starts = [n == 0 or rows[order[n - 1]] != rows[row] for n, row in enumerate(order)]
    return order, starts


@given(keys_of, st.sampled_from([b"", b"customer-"]))
@example([b"a", b"a\0"], b"")
@example([b"", b"\0" * 8], b"")
@example([b"12345678b", b"12345678a", b"12345678b"], b"")
@example([b"a", b"a"], b"")
def test_rows_are_in_the_order_of_their_keys_and_else_in_their_own(
    keys: list[bytes], head: bytes
) -> None:
    keys = [head + key for key in keys]
    order, starts = key_order(pa.array(keys, pa.binary()))
    assert (order.tolist(), starts.tolist()) == expected([(key, 0) for key in keys])


@given(
    st.lists(
        st.tuples(
            st.text("\0ab", max_size=9).map(str.encode),
            st.sampled_from([LIMITS.min, -1, 0, 300_000, LIMITS.max]),
        )
    )
)
def test_of_one_key_the_times_are_in_order(rows: list[tuple[bytes, int]]) -> None:
    keys, times = pa.array([k for k, _ in rows], pa.binary()), np.array([t for _, t in rows], int)
    order, starts = key_order(keys, times)
    assert (order.tolist(), starts.tolist()) == expected(rows)


@pytest.mark.parametrize("count", [3, 0])
def test_part_of_an_array_is_in_order(count: int) -> None:
    keys = pa.array([b"zz", b"c", b"ab", b"abc", b"yy"], pa.binary()).slice(1, count)
    assert key_order(keys)[0].tolist() == [1, 2, 0][:count]
