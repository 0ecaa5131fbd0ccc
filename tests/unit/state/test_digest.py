"""Digests of stores: by rows alone, read beside the owner, the same as the judge's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.config.settings import StateSettings
from holdfast.judge.read.changelog_fold import ChangelogFold
from holdfast.state import open_table_store
from holdfast.state.digest import store_digests
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.state.volume import Volume, claim
from holdfast.types.stores import StoreDigest, stores_of_job

ROWS: dict[bytes, bytes | None] = {b"a": b"1", b"b": b"2", b"ab": b"", b"": b"ab"}


def opened(volume: Volume, partition: int = 0) -> TableStore:
    return open_table_store(StateSettings(), volume, "app", "q", partition, windowed=False)


def fill(store: TableStore, rows: dict[bytes, bytes | None], offset: int) -> None:
    position = StorePosition("id", offset, 0, "print")
    store.load(list(rows), list(rows.values()), position=position, marker=None)


def digest_of(tmp_path: Path, *batches: dict[bytes, bytes | None]) -> StoreDigest:
    volume = claim(tmp_path, 1, 0)
    store = opened(volume)
    try:
        for i, rows in enumerate(batches):
            fill(store, rows, i + 1)
        return store_digests(tmp_path, "app")[0]  # the owner still has it open
    finally:
        store.close()
        volume.release()


def test_a_store_is_read_beside_its_owner(tmp_path: Path) -> None:
    digest = digest_of(tmp_path, ROWS)
    assert (digest.application_id, digest.query_id, digest.partition) == ("app", "q", 0)
    assert (digest.rows, digest.position, digest.volume) == (4, 1, 0)


def test_the_way_to_the_rows_does_not_matter(tmp_path: Path) -> None:
    direct = digest_of(tmp_path / "1", ROWS)
    detour = digest_of(tmp_path / "2", {b"b": b"7", b"x": b"1"}, {**ROWS, b"x": None})
    assert detour.digest == direct.digest
    assert detour.position == 2


@pytest.mark.parametrize(
    "other", [{b"a": b"2"}, {b"c": b"2"}, {b"a": None}, {b"a": b"", b"": b"1ab"}]
)
def test_any_other_row_is_another_digest(tmp_path: Path, other: dict[bytes, bytes | None]) -> None:
    first = digest_of(tmp_path / "1", ROWS)
    assert digest_of(tmp_path / "2", ROWS, other).digest != first.digest


def test_the_judge_makes_the_same_digest_of_the_changelog(tmp_path: Path) -> None:
    fold = ChangelogFold([0])
    for offset, (key, value) in enumerate(
        [(b"a", b"0"), (b"x", b"1"), *ROWS.items(), (b"x", None)]
    ):
        fold.update(0, b"\x01" + key, value, offset)
    folded = fold.partitions()[0]
    store = digest_of(tmp_path, ROWS)
    assert (folded.rows, folded.digest) == (store.rows, store.digest)


def test_a_store_without_anything_and_other_jobs_are_left_out(tmp_path: Path) -> None:
    volume = claim(tmp_path, 1, 0)
    store, empty = opened(volume), opened(volume, 1)
    fill(store, ROWS, 1)
    for one in (store, empty):
        one.close()
    volume.store_path("app", "q", 2).mkdir()
    assert [d.partition for d in store_digests(tmp_path)] == [0]
    assert store_digests(tmp_path, "other") == []
    volume.release()


def test_of_several_copies_the_furthest_is_the_first() -> None:
    copies = [StoreDigest("app", "q", 0, 1, position) for position in (5, 9, 7)]
    other = StoreDigest("other", "q", 0, 1, 99)
    assert stores_of_job([*copies, other], "app") == {("q", 0): [copies[1], copies[2], copies[0]]}


def test_the_command_prints_what_can_be_read_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = digest_of(tmp_path, ROWS)
    assert main(["stores", "--json", "--state-dir", str(tmp_path)]) == 0
    assert [StoreDigest.of(f) for f in json.loads(capsys.readouterr().out)] == [digest]
    assert main(["stores", "--application-id", "none", "--state-dir", str(tmp_path)]) == 0
    assert "There are no stores" in capsys.readouterr().out
