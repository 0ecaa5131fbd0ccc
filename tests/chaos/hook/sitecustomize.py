"""The tests' hook in the Python processes of a job: holds state tasks, and breaks the engine.

Python imports it at its start wherever this folder is on PYTHONPATH.  It does something only in
Spark's Python workers, and only when the variables below are set; the file protocol is that of
`holdfast.chaos.faults.hook_files`.  A mutant that breaks the driver's code is switched on there.

    CHAOS_HOOK_DIR   folder of the orders
    CHAOS_MUTANT     name of a mutant of tests/chaos/mutants.py
    CHAOS_ORPHANS    when it is not empty, workers are not ended with their executor's Java: as in
                     a pod that is cut off, they finish what they were at
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.types.steps import AnyStep

_POLL_S = 0.02
# What Spark's Python workers are forked from: PySpark's own daemon, or a job's.
_DAEMONS = frozenset({"pyspark.daemon", "holdfast.runtime.jvm.python_daemon"})
_DRIVER = ["-m", "holdfast.cli.main", "run"]


def _executor() -> str:
    pod = os.environ.get("SPARK_EXECUTOR_POD_NAME", "")
    found = re.search(r"executorId=([^&]+)", os.environ.get("SPARK_LOG_URL_STDERR", ""))
    return pod or (found.group(1) if found else "")


class _Hook:
    """Owns what this process does with the orders of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def tell(self) -> None:
        """Says that this process has the hook."""
        (self._folder / f"alive-{os.getpid()}").touch()

    def reached(self, step: AnyStep, query_id: str, partition: int) -> None:
        for file in self._folder.iterdir():
            if file.name.startswith("order-"):
                self._obey(file, step, query_id, partition)

    def _obey(self, file: Path, step: AnyStep, query_id: str, partition: int) -> None:
        try:
            order = json.loads(file.read_bytes())
        except (FileNotFoundError, ValueError):
            return
        if order["step"] != step.name:
            return
        held = self._folder / f"held-{order['id']}-{os.getpid()}.json"
        try:
            file.rename(held)
        except FileNotFoundError:
            return  # another state task was first
        where = {"query_id": query_id, "partition": partition}
        told = {**order, **where, "pid": os.getpid(), "executor": _executor()}
        beside = self._folder / f".{held.name}"
        beside.write_text(json.dumps(told))
        beside.replace(held)
        self._hold(order)
        held.unlink(missing_ok=True)

    def _hold(self, order: dict[str, object]) -> None:
        release = self._folder / f"release-{order['id']}"
        deadline = time.monotonic() + float(str(order["hold_s"]))
        while not release.exists() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        release.unlink(missing_ok=True)


def _install() -> None:
    folder, mutant = os.environ.get("CHAOS_HOOK_DIR"), os.environ.get("CHAOS_MUTANT")
    if mutant and sys.orig_argv[1:4] == _DRIVER:
        from tests.chaos import mutants

        if mutant in mutants.IN_DRIVER:
            mutants.apply(mutant)
    if _DAEMONS.isdisjoint(sys.orig_argv):
        return
    if os.environ.get("CHAOS_ORPHANS"):
        # PySpark's daemon, which sees Java's end, ends its process group; and Linux ends who is
        # stopped in a group that has lost its last parent in the session.
        os.register_at_fork(after_in_child=os.setsid)
    if mutant:
        from tests.chaos.mutants import apply

        apply(mutant)
    if folder:
        from holdfast.tasks.steps import observe

        hook = _Hook(Path(folder))
        observe(hook.reached)
        os.register_at_fork(after_in_child=hook.tell)


_install()
