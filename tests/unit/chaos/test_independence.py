"""The judge runs none of the engine's code: importing all of it loads none of the engine."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import pytest

import holdfast.chaos

ENGINE = ("ingest", "runtime", "tasks", "state", "sql", "compaction", "serve")


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(holdfast.chaos.__path__)])
def test_a_module_of_the_judge_loads_nothing_of_the_engine(module: str) -> None:
    code = f"import holdfast.chaos.{module}, sys, json; print(json.dumps(list(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name for name in json.loads(ran.stdout) if name.startswith("holdfast.")}
    assert f"holdfast.chaos.{module}" in loaded
    assert not {n for n in loaded if n.split(".")[1] in ENGINE}
