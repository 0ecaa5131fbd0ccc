"""The judge runs none of the engine's code: importing all of it loads none of the engine."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import holdfast.chaos

ENGINE = ("ingest", "runtime", "tasks", "state", "sql", "compaction", "serve")
# One process for all modules, for each takes a second to start; what a module brings along is told
# apart all the same, for whoever comes first brings it.
_IMPORT_ALL = """
import importlib, json, sys
brought, known = {}, set()
for name in sys.argv[1:]:
    importlib.import_module(f"holdfast.chaos.{name}")
    brought[name] = sorted(n for n in sys.modules if n.startswith("holdfast.") and n not in known)
    known.update(brought[name])
print(json.dumps(brought))
"""


def test_no_module_of_the_judge_loads_anything_of_the_engine() -> None:
    modules = [m.name for m in pkgutil.iter_modules(holdfast.chaos.__path__)]
    command = [sys.executable, "-c", _IMPORT_ALL, *modules]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    brought: dict[str, list[str]] = json.loads(ran.stdout)
    loaded = {name for names in brought.values() for name in names}
    assert {f"holdfast.chaos.{name}" for name in modules} <= loaded
    guilty = {
        module: engine
        for module, names in brought.items()
        if (engine := [n for n in names if n.split(".")[1] in ENGINE])
    }
    assert guilty == {}
