"""Spark's own stateful aggregation, for the price of the state alone; see apps/spark_app.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.systems.peers import Case, Command, Restored
from tests.bench.workloads import TABLES

__all__ = ["Spark"]

ROOT = Path(__file__).parents[3]


class Spark:
    """Structured Streaming with the RocksDB state store on the same local cluster."""

    name = "spark"
    title = "Spark"
    can_restore = False
    rescaling = None
    reads_registered = False
    queries = TABLES
    notes = (
        "same Spark, executors and Kafka source as Holdfast; RocksDB state store with changelog "
        "checkpointing; sink at least once; no changelog topic, state on a local disk that "
        "executors must share; not (h) to (k)"
    )

    def prepare(self, report: Callable[[str], None]) -> None:
        """Nothing: it is the environment's own."""

    def commands(self, case: Case) -> list[Command]:
        argv = [sys.executable, "-m", "tests.bench.systems.apps.spark_app", case.bootstrap]
        argv += [case.application, case.input_topic, case.sink_topic, case.query.value]
        paths = os.pathsep.join([str(ROOT), str(ROOT / "jobs")])
        return [Command([*argv, str(case.folder), str(case.batch)], {"PYTHONPATH": paths})]

    def group(self, case: Case) -> str:
        return case.application

    def state_folders(self, case: Case) -> list[Path]:
        return [case.folder / "checkpoint"]

    def restored(self, case: Case) -> Restored | None:
        """Not measured: its state is no changelog topic."""
        return None

    def volume_of(self, case: Case, pid: int) -> Path:
        return self.state_folders(case)[0]

    def victim(self, case: Case, pids: Sequence[int]) -> tuple[int, bool]:
        return pids[0], True
