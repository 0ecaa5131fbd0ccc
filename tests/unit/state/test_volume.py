from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.errors import Refused, VolumeHeld
from holdfast.state.files import read_json, write_json
from holdfast.state.volume import claim, claim_ordinal

CLAIMER = """
import sys, time
from pathlib import Path
from holdfast.state.volume import claim

print(claim(Path(sys.argv[1]), 1, 0).ordinal, flush=True)
time.sleep(60)
"""


def test_volumes_are_numbered_from_the_lowest_free(tmp_path: Path) -> None:
    first, second, third = (claim(tmp_path, 3, 0) for _ in range(3))
    assert [v.ordinal for v in (first, second, third)] == [0, 1, 2]
    assert second.path == tmp_path / "1"
    second.release()
    second.release()
    again = claim(tmp_path, 3, 0)
    assert again.ordinal == 1
    for volume in (first, again, third):
        volume.release()


def test_a_killed_process_frees_its_volume(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", CLAIMER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == "0\n"
        other = claim(tmp_path, 1, 0)
        assert other.ordinal == 1
        holder.kill()
    freed = claim(tmp_path, 1, 0)
    assert freed.ordinal == 0
    freed.release()
    other.release()


def test_an_expected_volume_is_waited_for(tmp_path: Path) -> None:
    held = claim(tmp_path, 1, 0)
    threading.Timer(0.3, held.release).start()
    claimed = claim(tmp_path, 1, wait_s=20)
    assert claimed.ordinal == 0
    claimed.release()


def test_a_further_volume_is_made_only_after_the_wait(tmp_path: Path) -> None:
    held = claim(tmp_path, 1, 0)
    began = time.monotonic()
    further = claim(tmp_path, 1, wait_s=0.3)
    assert time.monotonic() - began >= 0.3
    assert further.ordinal == 1
    held.release()
    further.release()


def test_stores_are_found_by_their_folders(tmp_path: Path) -> None:
    volume = claim(tmp_path, 1, 0)
    assert volume.stores() == []
    for app, query, p in (("b", "q", 0), ("a", "q", 10), ("a", "q", 9)):
        volume.store_path(app, query, p).mkdir(parents=True)
    (volume.path / "stores" / "a" / "q" / "not-a-partition").mkdir()
    (volume.path / "stores" / "a" / "q" / "7").write_text("a file")
    assert volume.stores() == [("a", "q", 9), ("a", "q", 10), ("b", "q", 0)]
    volume.delete_store("a", "q", 9)
    volume.delete_store("a", "q", 9)
    assert volume.stores() == [("a", "q", 10), ("b", "q", 0)]
    volume.release()


def test_a_volume_of_a_newer_layout_is_refused_and_let_go(tmp_path: Path) -> None:
    volume = claim(tmp_path, 1, 0)
    write_json(volume.path / "volume.json", 2, {})
    volume.release()
    for _ in range(2):
        with pytest.raises(Refused, match="layout version 2"):
            claim(tmp_path, 1, 0)
    write_json(tmp_path / "0" / "volume.json", 1, {})
    claim(tmp_path, 1, 0).release()


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Refused, match="No volume could be claimed"):
        claim(tmp_path / "file", 1, 0)


def test_a_file_is_replaced_whole_and_nothing_is_left_beside(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    assert read_json(file) is None
    write_json(file, 1, {"a": 1})
    write_json(file, 3, {"a": 2})
    assert read_json(file) == {"version": 3, "a": 2}
    assert list(tmp_path.iterdir()) == [file]
    file.write_text('{"version": 3, "a"')
    assert read_json(file) is None
    file.write_text("[1]")
    assert read_json(file) is None


def test_a_pod_takes_the_volume_of_its_ordinal_and_no_other(tmp_path: Path) -> None:
    volume = claim_ordinal(tmp_path, 3, 0)
    assert (volume.ordinal, volume.path) == (3, tmp_path / "3")
    with pytest.raises(VolumeHeld, match=r"held by another process after 0\.2 s") as held:
        claim_ordinal(tmp_path, 3, 0.2)
    assert held.value.pid == os.getpid()
    volume.release()
    claim_ordinal(tmp_path, 3, 0).release()
    assert [path.name for path in tmp_path.iterdir()] == ["3"]


def test_scratch_files_are_gone_when_the_volume_is_claimed_again(tmp_path: Path) -> None:
    volume = claim_ordinal(tmp_path, 0, 0)
    folder = volume.scratch("taken/a")
    assert not folder.exists()
    folder.mkdir()
    (folder / "file").touch()
    assert not volume.scratch("taken/a").exists(), "nothing is left of before"
    folder.mkdir()
    volume.release()
    again = claim_ordinal(tmp_path, 0, 0)
    assert not folder.exists()
    again.release()


def test_an_adopted_store_takes_the_place_of_the_former_one(tmp_path: Path) -> None:
    volume = claim_ordinal(tmp_path, 0, 0)
    for name in ("first", "second"):
        folder = volume.scratch("fetched")
        folder.mkdir()
        (folder / name).touch()
        volume.adopt_store(folder, "app", "q", 3)
        assert not folder.exists()
    assert volume.stores() == [("app", "q", 3)]
    assert [p.name for p in volume.store_path("app", "q", 3).iterdir()] == ["second"]
    volume.release()
