"""The file by which an executor's pod becomes ready."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SURVEY = """
import sys
from pathlib import Path
from holdfast.tasks.worker import survey
print(Path(sys.argv[2]).exists(), survey(sys.argv[1], 1, "app").positions)
"""


@pytest.mark.parametrize("in_a_pod", [True, False])
def test_an_executor_is_ready_once_it_has_answered(tmp_path: Path, in_a_pod: bool) -> None:
    ready = tmp_path / "ready"
    env = os.environ | ({"EXECUTOR_READY_FILE": str(ready)} if in_a_pod else {})
    command = [sys.executable, "-c", SURVEY, str(tmp_path / "state"), str(ready)]
    told = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60)
    assert told.stdout == "False {}\n"
    assert ready.exists() == in_a_pod
