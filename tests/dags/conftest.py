"""Airflow for the tests of the DAGs: a home of its own, and params as a trigger gives them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DAGS = ROOT / "dags"

# Airflow and Spark never share an environment: in the other one there is nothing to collect here.
collect_ignore_glob = [] if importlib.util.find_spec("airflow") else ["test_*.py"]

# Airflow reads its configuration when it is imported, so before any test is.
_HOME = Path(tempfile.mkdtemp(prefix="holdfast-airflow-"))
os.environ.update(
    AIRFLOW_HOME=str(_HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(DAGS),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
)
for _name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
    if _name != "HOLDFAST_COMMAND":
        del os.environ[_name]


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)


class Task:
    """The parts of a task instance that an operator uses, outside of a run."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def dags_folder() -> Path:
    return DAGS


@pytest.fixture
def params() -> dict[str, Any]:
    """Params of a run with target local, all defaults filled in."""
    from holdfast_airflow.params import deploy_params

    given = {name: param.value for name, param in deploy_params().items() if name != "name"}
    return {**given, "name": "movies", "target": "local", "sql": "SELECT 1;"}


@pytest.fixture
def chaos_params() -> dict[str, Any]:
    """Params of a chaos run with target kubernetes, all defaults filled in."""
    from holdfast_airflow.chaos_params import chaos_params

    given = {name: param.value for name, param in chaos_params().items() if name != "name"}
    return {**given, "name": "movies"}


@pytest.fixture
def compaction_params() -> dict[str, Any]:
    """Params of a run that plans a compaction, with target kubernetes, all defaults filled in."""
    from holdfast_airflow.compaction_params import compaction_params

    return {name: param.value for name, param in compaction_params().items()}


@pytest.fixture
def task() -> Task:
    return Task()


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a bash script in the place of `holdfast`; it finds the command in $1.

    What the script is called with is in the file it returns, a line per call.
    """

    def make(body: str) -> Path:
        calls = tmp_path / "calls"
        script = tmp_path / "holdfast"
        script.write_text(f'#!/usr/bin/env bash\necho "$@" >> {calls}\n{body}\n', encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("HOLDFAST_COMMAND", str(script))
        return calls

    return make


@pytest.fixture
def run_dag(dags_folder: Path, database: None, tmp_path: Path) -> Callable[..., str]:
    """Runs a DAG once, with target local, in an Airflow of its own; returns what it has said."""

    def run(dag: str, environment: dict[str, str], **conf: str) -> str:
        # Airflow parses and stores every DAG of its folder, twice: a third of a run's CPU time.
        alone = tmp_path / "dags"
        alone.mkdir()
        shutil.copy(dags_folder / f"{dag}.py", alone)
        own = {"AIRFLOW__CORE__DAGS_FOLDER": str(alone), "PYTHONPATH": str(dags_folder)}
        given = {"target": "local", "name": "movies", "home": str(tmp_path), **conf}
        line = [f"{sys.prefix}/bin/airflow", "dags", "test", dag, "--conf", json.dumps(given)]
        done = subprocess.run(
            line,
            env={**os.environ, **own, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=400,
        )
        return done.stdout

    return run


@pytest.fixture(scope="session")
def database() -> None:
    """Airflow's own database, empty."""
    from airflow.utils.db import initdb

    initdb()
