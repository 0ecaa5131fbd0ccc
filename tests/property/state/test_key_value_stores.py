from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.settings import RocksDbSettings
from holdfast.state.memory import MemoryStore
from holdfast.state.rocksdb import RocksDbStore
from holdfast.state.store import KeyValueStore

KEYS = st.binary(max_size=3)
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(KEYS, st.binary(max_size=4)), max_size=6),
        st.lists(KEYS, max_size=4),
        st.tuples(KEYS, st.none() | KEYS, st.none() | st.integers(0, 4)),
    ),
    max_size=8,
)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda _: MemoryStore(), id="memory"),
        pytest.param(lambda path: RocksDbStore(path, RocksDbSettings()), id="rocksdb"),
    ],
)
@given(batches=BATCHES)
def test_a_store_is_a_sorted_dict(
    make: Callable[[Path], KeyValueStore],
    batches: list[tuple[list[tuple[bytes, bytes]], list[bytes], tuple[bytes, bytes | None, int]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, model = make(Path(folder) / "store"), dict[bytes, bytes]()
        for puts, deletes, (start, end, limit) in batches:
            store.write(puts, deletes)
            for key in deletes:
                model.pop(key, None)
            model.update(puts)
            inside = [k for k in sorted(model) if k >= start and (end is None or k < end)]
            expected = [(k, model[k]) for k in inside[:limit]]
            assert list(store.scan(start, end, limit)) == expected
        keys = [key for puts, deletes, _ in batches for key in [*dict(puts), *deletes]]
        assert store.get_many(keys) == [model.get(key) for key in keys]
        store.close()
