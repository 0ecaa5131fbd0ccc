"""Records of each format, whatever their bytes: the targets of `record_fuzz`, within limits.

For long: `HYPOTHESIS_PROFILE=long pytest tests/security/test_fuzz_records.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.security.record_fuzz import FORMATS


def fuzz(name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.security.record_fuzz", name]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize("name", FORMATS)
def test_any_bytes_are_a_row_or_have_a_reason(name: str) -> None:
    done = fuzz(name)
    assert done.returncode == 0, done.stdout + done.stderr
