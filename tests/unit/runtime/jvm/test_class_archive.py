"""The class archive: where it is, and what uses it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.runtime.jvm import class_training
from holdfast.runtime.jvm.class_archive import ARCHIVE, archive_folder, archive_options, unwanted
from holdfast.runtime.jvm.class_training import make_archive, start_making
from holdfast.runtime.jvm.session import prepare_local


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_CLASS_ARCHIVE", raising=False)
    archive_folder.cache_clear()
    yield tmp_path
    archive_folder.cache_clear()


def _found() -> Path:
    folder = archive_folder()
    assert folder is not None
    return folder


def _made() -> Path:
    folder = _found()
    folder.mkdir(parents=True)
    (folder / ARCHIVE).touch()
    return folder


def test_without_an_archive_java_is_told_nothing(cache: Path) -> None:
    assert _found().parent == cache / "holdfast"
    assert archive_options() == ""


def test_the_archive_of_this_java_is_used_once_it_is_there() -> None:
    folder = _made()
    assert f"-XX:SharedArchiveFile={folder}/spark.jsa " in archive_options()


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    _made()
    monkeypatch.setenv("HOLDFAST_CLASS_ARCHIVE", "off")
    assert unwanted()
    assert archive_options() == ""


def test_another_java_has_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = _found()
    other = tmp_path / "jdk" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    archive_folder.cache_clear()
    assert _found() != usual


def test_without_a_java_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    archive_folder.cache_clear()
    assert archive_folder() is None
    assert archive_options() == ""


def test_what_is_there_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _made()
    started: list[object] = []
    monkeypatch.setattr("subprocess.Popen", lambda *a, **_: started.append(a))
    monkeypatch.setattr(class_training, "_train", started.append)
    start_making()
    make_archive()
    assert not started


def test_what_is_missing_is_made_and_what_is_nobodys_deleted(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = cache / "holdfast" / "classes-gone"
    gone.mkdir(parents=True)
    (gone / "pyspark").write_text(str(cache / "no" / "pyspark.py"))
    kafka = cache / "holdfast" / "kafka-1"
    kafka.mkdir()

    def train(work: Path) -> None:
        (work / ARCHIVE).write_text("classes")

    monkeypatch.setattr(class_training, "_train", train)
    make_archive()
    assert (_found() / ARCHIVE).read_text() == "classes"
    assert archive_options()
    assert kafka.exists()
    assert not gone.exists()


def test_any_home_has_sparks_jars_by_the_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
    root = tmp_path / "spark"
    root.mkdir()
    for name in ("jars", "python"):  # as an earlier release left them
        (root / name).symlink_to(tmp_path)
    prepare_local(tmp_path)
    assert os.environ["SPARK_HOME"] == str(root)
    assert [jar.name.split("_")[0] for jar in (root / "jars").iterdir()] == ["spark-launcher"]
    assert (root / "bin" / "spark-submit").is_file()
    assert not (root / "python").exists()  # Python would compile its zip in each process
