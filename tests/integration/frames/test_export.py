"""`holdfast savepoint export` writes what the tables hold, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from holdfast.cli.savepoint.export import command
from holdfast.errors import InvalidConfig, Refused, SnapshotDamaged
from tests.integration.frames.conftest import Saved
from tests.integration.frames.statements import EXPECTED, events_of, expected, saved_job
from tests.support.jobs.saved_job import ATTEMPT


def _export(tmp_path: Path, uri: str, *arguments: str) -> Result:
    place = [f"--set=snapshot.uri={uri}"] if uri else []
    home = f"--home={tmp_path / 'home'}"
    return CliRunner().invoke(command, ["shop", "first", home, *place, *arguments])


def _rows(folder: Path) -> list[tuple[Any, ...]]:
    tables = [pq.read_table(path) for path in sorted(folder.iterdir())]
    rows = (zip(*(c.to_pylist() for c in t.columns), strict=True) for t in tables)
    return sorted(row for each in rows for row in each)


def test_a_table_becomes_a_file_per_state_partition(saved: Saved, tmp_path: Path) -> None:
    to = tmp_path / "made" / "rich"
    done = _export(tmp_path, saved.uri, "--table", "rich", "--to", str(to))
    assert done.exit_code == 0, done.exception
    names = [f"part-0000{n}.parquet" for n in range(3)]
    assert sorted(path.name for path in to.iterdir()) == names
    wanted = expected("RICH", saved.events)
    assert _rows(to) == wanted
    assert f"RICH: {len(wanted)} rows in 3 files" in done.stdout
    column = pq.ParquetFile(to / names[0]).metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"


def test_without_a_table_every_one_that_can_is_exported(saved: Saved, tmp_path: Path) -> None:
    done = _export(tmp_path, saved.uri, "--to", str(tmp_path / "all"), "--json")
    assert done.exit_code == 0, done.exception
    told = orjson.loads(done.stdout)
    assert [each["table"] for each in told["tables"]] == list(EXPECTED)
    for each in told["tables"]:
        folder = Path(each["folder"])
        assert folder == tmp_path / "all" / each["table"]
        assert _rows(folder) == expected(each["table"], saved.events)
        assert each["rows"] == len(expected(each["table"], saved.events))
        assert each["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert set(told["left_out"]) == {"NAMES", "LAST_MINUTE", "NAMED"}
    assert told["left_out"]["NAMED"].endswith("read its topic NAMED")
    text = _export(tmp_path, saved.uri, "--to", str(tmp_path / "again")).stdout
    assert "LAST_MINUTE is left out: with EMIT FINAL" in text


@pytest.mark.parametrize("content", ["folder", "file"])
def test_only_an_empty_folder_is_written(saved: Saved, tmp_path: Path, content: str) -> None:
    to = tmp_path / "to"
    if content == "folder":
        to.mkdir()
    (to / "kept" if content == "folder" else to).write_text("kept")
    done = _export(tmp_path, saved.uri, "--to", str(to))
    assert isinstance(done.exception, Refused)
    assert "not an empty folder" in str(done.exception)


def test_without_a_place_it_is_refused(saved: Saved, tmp_path: Path) -> None:
    done = _export(tmp_path, "", "--to", str(tmp_path / "to"), "--json")
    assert isinstance(done.exception, InvalidConfig)
    assert orjson.loads(done.stdout)["error"]["fact"].startswith("Nothing says where")


def test_a_damaged_store_leaves_no_file_that_looks_whole(tmp_path: Path) -> None:
    job = saved_job(tmp_path / "job", events_of(50, seed=5))
    saved = job.save("first").query("ctas_totals")
    job.close()
    assert saved is not None
    file = saved.stores[1].manifest.files[0]
    Path(job.uri, f"shop/savepoints/first/{ATTEMPT}/ctas_totals/1/files/{file.sha256}").unlink()
    done = _export(tmp_path, job.uri, "--table", "totals", "--to", str(tmp_path / "to"))
    assert isinstance(done.exception, SnapshotDamaged)
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["part-00000.parquet"]
