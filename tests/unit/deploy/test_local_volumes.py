"""Stores of a volume that come back old, or change places: on real stores of this disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from holdfast.chaos.targets.local.volumes import VolumeStores
from holdfast.config.settings import StateSettings
from holdfast.errors import HoldfastError, Refused
from holdfast.state import open_table_store
from holdfast.state.digest import store_digests
from holdfast.state.table_store import StorePosition
from holdfast.state.volume import Volume, claim

APP = "app"


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    made = claim(tmp_path / "state", 1, 0)
    yield made
    made.release()


def _write(volume: Volume, query: str, partition: int, offset: int) -> None:
    """One row, at that offset of the changelog."""
    store = open_table_store(StateSettings(), volume, APP, query, partition, windowed=False)
    position = StorePosition("id", offset, 0, "print")
    store.load([b"k"], [b"%d" % partition], position=position, marker=None)
    store.close()


def _offsets(tmp_path: Path) -> Mapping[tuple[str, int], int]:
    found = store_digests(tmp_path / "state", APP)
    return {(store.query_id, store.partition): store.position for store in found}


def _of(tmp_path: Path) -> VolumeStores:
    return VolumeStores(tmp_path / "state", 0, APP, tmp_path / "aside")


def test_a_copy_comes_back_in_the_place_of_what_went_on(volume: Volume, tmp_path: Path) -> None:
    for partition in (0, 1):
        _write(volume, "q", partition, 10)
    volume.release()
    stores = _of(tmp_path)
    stores.copy_aside()
    again = claim(tmp_path / "state", 1, 0)
    _write(again, "q", 1, 30)
    again.release()
    stores.await_further(lambda: "")
    assert stores.bring_back() == "q/1 at 10 instead of 30"
    assert _offsets(tmp_path) == {("q", 0): 10, ("q", 1): 10}


def test_a_copy_of_what_did_not_go_on_is_no_old_one(volume: Volume, tmp_path: Path) -> None:
    _write(volume, "q", 0, 10)
    volume.release()
    stores = _of(tmp_path)
    stores.copy_aside()
    with pytest.raises(HoldfastError, match="were copied, but offsets overlap"):
        stores.await_further(lambda: "offsets overlap")
    assert stores.bring_back() == ""


def test_stores_of_one_query_change_places(volume: Volume, tmp_path: Path) -> None:
    for query, partition, offset in (("q", 1, 11), ("q", 3, 13), ("alone", 1, 5)):
        _write(volume, query, partition, offset)
    volume.release()
    assert _of(tmp_path).swap() == "q/1 with /3"
    assert _offsets(tmp_path) == {("q", 1): 13, ("q", 3): 11, ("alone", 1): 5}


def test_nothing_is_swapped_where_each_query_has_one_store(volume: Volume, tmp_path: Path) -> None:
    _write(volume, "q", 1, 11)
    volume.release()
    assert _of(tmp_path).pairs() == []
    assert _of(tmp_path).swap() == ""


def test_stores_that_somebody_has_open_are_not_touched(
    volume: Volume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.chaos.targets.local.volumes._LOCK_WAIT_S", 0.1)
    _write(volume, "q", 0, 10)
    stores = _of(tmp_path)
    for touch in (stores.copy_aside, stores.swap, stores.remove):
        with pytest.raises(Refused, match="is held by another process"):
            touch()
    assert _offsets(tmp_path) == {("q", 0): 10}
