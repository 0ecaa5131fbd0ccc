"""The place of savepoints: whole ones, unfinished ones, damaged ones, and names of all kinds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from holdfast.errors import Refused, SnapshotDamaged
from holdfast.state.snapshots.manifest import Manifest, SnapshotFile
from holdfast.state.snapshots.savepoints import (
    SavedQuery,
    SavedSource,
    SavedStore,
    Savepoint,
    SavepointPlace,
    split_reference,
)
from holdfast.state.table_store import StorePosition


def _made(name: str) -> Savepoint:
    position = StorePosition("id/+", 42, 1, "f", "app/q/0", 41, "w")
    manifest = Manifest("app/q/0", position, 5, (SnapshotFile("000001.sst", 7, "0" * 64),))
    query = SavedQuery(
        "q", "CREATE …", "T", "t", False, True, 1, "{}",
        (SavedSource("in", "id", {0: 3, 11: 4}),), (SavedStore(0, 2, "{}", manifest),),
    )  # fmt: skip
    return Savepoint(name, "app", "attempt1", 1_000, "the text\n", (query,), ("a1",))


@pytest.fixture
def place(tmp_path: Path) -> SavepointPlace:
    return SavepointPlace(str(tmp_path), "app")


def _document(place: SavepointPlace, tmp_path: Path, name: str) -> Path:
    return tmp_path / "app" / "savepoints" / name / "savepoint.json"


def test_what_is_written_is_read(place: SavepointPlace) -> None:
    place.write(_made("s"))
    assert place.read("s") == _made("s")
    assert place.read("s").queries[0].source().ends() == {("in", 0): 3, ("in", 11): 4}
    assert (place.read("s").rows, place.read("s").bytes) == (2, 7)


def test_only_whole_ones_are_there(place: SavepointPlace, tmp_path: Path) -> None:
    assert place.names() == []
    place.write(_made("b"))
    place.write(_made("a"))
    unfinished = tmp_path / "app" / "savepoints" / "c" / "q" / "0" / "files" / "x"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"1")
    assert place.names() == ["a", "b"]
    with pytest.raises(Refused, match=r"(?s)app has no savepoint c.*there are: a, b"):
        place.read("c")
    place.delete("c")
    assert not unfinished.parents[3].exists()


def test_a_deleted_one_is_gone_with_its_files(place: SavepointPlace, tmp_path: Path) -> None:
    place.write(_made("s"))
    place.delete("s")
    assert not _document(place, tmp_path, "s").parent.exists()
    place.delete("s")
    assert place.names() == []


def test_a_document_that_cannot_be_read_is_damage(place: SavepointPlace, tmp_path: Path) -> None:
    place.write(_made("s"))
    path = _document(place, tmp_path, "s")
    whole = path.read_bytes()
    told = json.loads(whole)
    later = json.dumps({**told, "version": 2}).encode()
    out = json.dumps({**told, "attempt": "../../other"}).encode()
    # Whoever can write the place must not write anywhere else on an executor.
    escaping = whole.replace(b"000001.sst", b"/etc/passwd"), whole.replace(b"0" * 64, b"../../f")
    for wrong in (b"", whole[:-10], later, b"[]", out, *escaping):
        path.write_bytes(wrong)
        with pytest.raises(SnapshotDamaged, match="cannot be read"):
            place.read("s")


def test_a_copied_folder_is_not_taken_for_another_savepoint(
    place: SavepointPlace, tmp_path: Path
) -> None:
    place.write(_made("s"))
    path = _document(place, tmp_path, "s2")
    path.parent.mkdir()
    path.write_bytes(_document(place, tmp_path, "s").read_bytes())
    with pytest.raises(SnapshotDamaged, match="is app/s"):
        place.read("s2")


def test_a_document_is_written_whole_or_not_at_all(
    place: SavepointPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(TypeAdapter, "dump_json", lambda *_: killed(None))
    with pytest.raises(KeyboardInterrupt):
        place.write(_made("s"))
    assert place.names() == []
    assert place.delete("s")


def test_an_attempt_that_was_given_up_takes_nothing_of_another_one(
    place: SavepointPlace, tmp_path: Path
) -> None:
    place.write(_made("s"))
    for attempt in ("attempt1", "attempt2"):
        file = tmp_path / "app" / "savepoints" / "s" / attempt / "q" / "0" / "files" / "x"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"1")
    place.discard("s", "attempt2")
    place.discard("s", "attempt3")
    left = [p for p in (tmp_path / "app").rglob("*") if p.is_file()]
    assert len(left) == 2
    assert place.read("s").folder == "app/savepoints/s/attempt1"


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../x", "-", "a" * 101, "a\n", "ä"])
def test_no_name_leads_out_of_the_folder(place: SavepointPlace, name: str) -> None:
    """Names come from a topic, and what is unfinished is deleted."""
    for act in (place.has, place.read, place.delete):
        with pytest.raises(Refused, match="cannot be a savepoint's name"):
            act(name)


def test_nor_does_the_name_of_a_job(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        SavepointPlace(str(tmp_path), "..").delete("s")


def test_a_reference_is_a_job_and_a_name() -> None:
    assert split_reference("app/s") == ("app", "s")
    for wrong in ("app", "/s", "app/", "a/b/c", ""):
        with pytest.raises(Refused, match="names no savepoint"):
            split_reference(wrong)
