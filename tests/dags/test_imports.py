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
import json, sys
import airflow, airflow.sdk, airflow.dag_processing.dagbag
import airflow.providers.cncf.kubernetes.operators.pod
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
__import__(sys.argv[2])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_dag_imports_airflow_and_itself_and_neither_spark_nor_an_engine(
    dags_folder: Path, name: str
) -> None:
    command = [sys.executable, "-c", _IMPORT, str(dags_folder), name]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = json.loads(ran.stdout)
    assert name in modules
    assert len(modules) < _MODULES, modules
    packages = {module.partition(".")[0] for module in modules}
    assert packages - sys.stdlib_module_names <= {"airflow", "holdfast_airflow", name}
