"""A store that lies in the place of another one is never used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.settings import StateSettings
from holdfast.errors import StoreCorrupted
from holdfast.state import open_table_store, survey_positions
from holdfast.state.changelog import CommitMarker
from holdfast.state.memory import MemoryStore
from holdfast.state.table_store import POSITION_KEY, StorePosition, TableStore, store_name
from holdfast.state.volume import Volume, claim
from tests.unit.state.changelog_model import marker

Name = tuple[str, str, int]
MINE: Name = ("app", "q", 0)
NAMES = st.tuples(
    st.sampled_from(["app", "app2"]), st.sampled_from(["q", "q2"]), st.sampled_from([0, 1, 10])
)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    volume = claim(tmp_path / "state", expected=1, wait_s=0)
    yield volume
    volume.release()


def opened(volume: Volume, name: Name) -> TableStore:
    return open_table_store(StateSettings(), volume, *name, windowed=False)


def mark_of(name: Name) -> CommitMarker:
    application, query, partition = name
    return replace(marker(0), application_id=application, query_id=query, state_partition=partition)


def write(store: TableStore, mark: CommitMarker | None, offset: int = 7) -> None:
    at = StorePosition("topic-id", offset, 0, "print")
    store.replay([b"k"], [b"1"], position=at, marker=mark)


def forget_name(store: TableStore) -> None:
    """As the version before wrote it."""
    (position,) = store._store.get_many([POSITION_KEY])
    assert position is not None
    fields = json.loads(position)
    del fields["store"]
    store._store.write([(POSITION_KEY, json.dumps(fields).encode())], [])


@pytest.mark.parametrize("other", [("app", "q", 1), ("app", "q2", 0), ("app2", "q", 0)])
@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("old", [True, False], ids=["old", "new"])
def test_a_store_in_the_place_of_another_is_restored(
    volume: Volume, caplog: pytest.LogCaptureFixture, other: Name, marked: bool, old: bool
) -> None:
    store = opened(volume, other)
    write(store, mark_of(other) if marked else None)
    if old:
        forget_name(store)
    store.close()
    shutil.copytree(volume.store_path(*other), volume.store_path(*MINE))
    if not old:
        assert (MINE[1], MINE[2]) not in survey_positions(volume, MINE[0])
    found = opened(volume, MINE)
    assert (found.position, list(found.scan())) == (None, [])
    assert f"in the place of {store_name(*MINE)}" in caplog.text
    found.close()


@pytest.mark.parametrize("old", [True, False], ids=["old", "new"])
def test_a_store_in_its_own_place_is_kept(volume: Volume, old: bool) -> None:
    store = opened(volume, MINE)
    write(store, mark_of(MINE))
    if old:
        forget_name(store)
    store.close()
    found = opened(volume, MINE)
    assert found.rows == 1
    assert survey_positions(volume, "app") == {("q", 0): 7}
    found.close()


def test_a_store_keeps_its_name_without_a_marker(volume: Volume) -> None:
    store = opened(volume, MINE)
    write(store, None)
    store.close()
    found = opened(volume, MINE)
    assert found.rows == 1
    found.close()


@given(of=NAMES, place=NAMES, marked=st.booleans(), old=st.booleans(), offset=st.integers(0, 2))
def test_rows_are_used_in_their_own_place_only(
    of: Name, place: Name, marked: bool, old: bool, offset: int
) -> None:
    files = MemoryStore()
    store = TableStore(files, windowed=False, name=store_name(*of))
    write(store, mark_of(of) if marked else None, offset)
    if old:
        forget_name(store)
    try:
        used = TableStore(files, windowed=False, name=store_name(*place)).position is not None
    except StoreCorrupted:
        used = False
    if used and (marked or not old):
        assert of == place
    if of == place and (marked or not old):
        assert used
