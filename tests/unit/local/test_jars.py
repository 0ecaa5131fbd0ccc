from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.versions import KAFKA_VERSION
from holdfast.errors import Refused
from holdfast.local.jars import JARS_VARIABLE, cache_folder, kafka_jars


def _silent(_: str) -> None:
    pass


def test_a_folder_of_jars_may_be_given(tmp_path: Path) -> None:
    (tmp_path / f"kafka_2.13-{KAFKA_VERSION}.jar").touch()
    assert kafka_jars(_silent, {JARS_VARIABLE: str(tmp_path)}) == tmp_path


def test_a_folder_without_kafka_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kafka-clients-4.jar").touch()
    with pytest.raises(Refused, match=JARS_VARIABLE):
        kafka_jars(_silent, {JARS_VARIABLE: str(tmp_path)})


def test_a_completed_cache_is_used_without_asking_anybody(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}
    folder = cache_folder(env)
    assert folder == tmp_path / "holdfast" / f"kafka-{KAFKA_VERSION}"
    folder.mkdir(parents=True)
    # Unfinished: it would have to download, and there is no Java on this PATH to do it.
    with pytest.raises(Refused, match="Java was not found"):
        kafka_jars(_silent, env)
    (folder / ".completed").touch()
    assert kafka_jars(_silent, env) == folder


def test_the_cache_is_below_the_home_folder_by_default() -> None:
    assert cache_folder({}) == Path.home() / ".cache" / "holdfast" / f"kafka-{KAFKA_VERSION}"
