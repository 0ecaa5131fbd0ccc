"""A DAG processor imports every DAG again and again."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [
    "deploy_state_table", "undeploy_state_table", "chaos_daily", "plan_changelog_compaction",
]  # fmt: skip
_SECONDS = 1.0
# Processor time: what a busy machine does beside it is not the DAG's fault.
_MEASURE = """
import sys, time
import airflow, airflow.sdk, airflow.dag_processing.dagbag
sys.path.insert(0, sys.argv[1])
began = time.process_time()
__import__(sys.argv[2])
print(time.process_time() - began, *sorted({n.partition('.')[0] for n in sys.modules}))
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_dag_is_imported_in_under_a_second_and_without_spark(
    dags_folder: Path, name: str
) -> None:
    command = [sys.executable, "-c", _MEASURE, str(dags_folder), name]
    answers = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)  # the first may have to compile
    ]
    assert min(float(seconds) for seconds, *_ in answers) < _SECONDS
    assert not {"pyspark", "py4j", "holdfast", "pyarrow"} & set(answers[0][1:])
