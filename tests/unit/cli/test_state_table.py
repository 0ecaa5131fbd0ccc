from __future__ import annotations

from pathlib import Path

import pytest

from state_table import arguments, prefer_installed


@pytest.mark.parametrize("master", ["", "local", "local[*]", "local[2]"])
def test_a_master_without_executors_is_left_to_the_settings(master: str) -> None:
    assert arguments(["a.sql"], master) == ["run", "a.sql"]


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://h:7077", "k8s://h"])
def test_the_users_own_master_comes_after_the_submitted_one(master: str) -> None:
    given = ["a.sql", "--set", "spark.master=mine"]
    assert arguments(given, master) == ["run", "--set", f"spark.master={master}", *given]


def test_a_zipped_pyspark_yields_to_an_installed_one_only(tmp_path: Path) -> None:
    zipped = "/spark/python/lib/pyspark.zip"
    assert prefer_installed([zipped, str(tmp_path)]) == [zipped, str(tmp_path)]
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    assert prefer_installed([zipped, str(tmp_path)]) == [str(tmp_path)]
