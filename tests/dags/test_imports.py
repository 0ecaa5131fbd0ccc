"""A DAG processor imports every DAG again and again: what that costs is what a DAG has imported.

Counted in modules, not in seconds, which are the machine's. The Kubernetes provider, without which
no task that runs a pod can be defined, is most of it and is not ours to shorten.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [
    "deploy_state_table", "undeploy_state_table", "rescale_state_table", "chaos_daily",
    "plan_changelog_compaction", "deploy_fleet",
]  # fmt: skip
_MODULES = 60  # 52 of `deploy_fleet`: the operator that triggers runs imports models
_IMPORT = """
import json, os, sys
import airflow, airflow.sdk, airflow.dag_processing.dagbag
import airflow.providers.cncf.kubernetes.operators.pod
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    child = os.fork()
    if not child:
        __import__(name)
        print(json.dumps([name, sorted(set(sys.modules) - before)]), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{name} is not imported")
"""


@pytest.fixture(scope="module")
def imported(dags_folder: Path) -> dict[str, list[str]]:
    """The modules that each DAG imports beside Airflow's, in a process that has just begun.

    Airflow, which takes seconds, is imported once: each DAG has a fork of that process.
    """
    command = [sys.executable, "-c", _IMPORT, str(dags_folder), *NAMES]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(line) for line in ran.stdout.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_a_dag_imports_airflow_and_itself_and_neither_spark_nor_an_engine(
    imported: dict[str, list[str]], name: str
) -> None:
    modules = imported[name]
    assert name in modules
    assert len(modules) < _MODULES, modules
    packages = {module.partition(".")[0] for module in modules}
    assert packages - sys.stdlib_module_names <= {"airflow", "holdfast_airflow", name}
