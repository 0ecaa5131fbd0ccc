"""Puts the fakes in the place of what the engine and its judge import."""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.settings import RocksDbSettings
from holdfast.runtime import cluster
from holdfast.runtime.queries import micro_batch, query_run
from holdfast.state import backends, segments
from holdfast.tasks import state_task, steps, worker
from holdfast.tasks.processors.kinds import processor_of
from holdfast.transport.cluster import admin_cache as shared
from holdfast.types.steps import Step
from tests.simulation.clock import VirtualTime
from tests.simulation.fake_clients import clients
from tests.simulation.fake_disk import Disk, FakeStore
from tests.simulation.fake_kafka import FakeKafka
from tests.simulation.fake_spark import FakeSpark
from tests.simulation.sides import Current

__all__ = ["install"]

Observer = Callable[[Step, str, int], None]

_LAYERS = (
    "holdfast.tasks", "holdfast.state", "holdfast.runtime", "holdfast.judge", "holdfast.ingest",
    "holdfast.transport.cluster.admin_cache",
)  # fmt: skip
# It holds no data between calls, but a connection that takes longer to make than a batch to run.
_processor = cache(processor_of)
atexit.register(_processor.cache_clear)


def install(
    patch: pytest.MonkeyPatch, clock: VirtualTime, kafka: FakeKafka, disk: Disk,
    spark: FakeSpark | Current, observer: Observer,
) -> None:  # fmt: skip
    """Everything below the engine is fake from here on, until `patch` is undone."""
    bound = clients(kafka)
    fakes: dict[str, Any] = {
        "TransactionalProducer": bound.producer,
        "PartitionReader": bound.reader,
        "Admin": bound.admin,
        "shared_admin": bound.admin,
        "executors": spark.executors,
        "located": spark.located,
        "on_owners": spark.on_owners,
        "on_state_workers": spark.on_state_workers,
    }
    for name, module in list(sys.modules.items()):
        if not name.startswith(_LAYERS) or name.endswith("spark_internals"):
            continue
        for attribute, fake in fakes.items():
            if hasattr(module, attribute):
                patch.setattr(module, attribute, fake)
        if getattr(module, "time", None) is time:
            patch.setattr(module, "time", clock)
    patch.setattr(shared, "shared_admin", bound.admin)  # planners import it when they ask
    _stores(patch, kafka, disk)
    for name in ("_state_tasks", "_stream_tasks", "_volume", "_processes"):
        patch.setattr(worker, name, getattr(worker, name))  # the fake Spark changes them
    patch.setattr(state_task, "processor_of", _processor)
    # One of an executor's process; here all executors are in one, and a zombie never lets go.
    patch.setattr(state_task, "_RESTORING", nullcontext())
    patch.setattr(steps, "_observer", observer)


def _stores(patch: pytest.MonkeyPatch, kafka: FakeKafka, disk: Disk) -> None:
    def opened(path: Path, settings: RocksDbSettings) -> FakeStore:
        return disk.open(path, kafka.current)

    def peek(path: Path, key: bytes, settings: RocksDbSettings) -> bytes | None:
        return disk.peek(path, key)

    patch.setattr(backends, "RocksDbStore", opened)
    patch.setattr(backends, "peek", peek)
    # Histories are seconds long, and rows of joins are to leave in them.
    patch.setattr(segments, "SEGMENT_MS", 1 << 10)


_ENGINE = (cluster, micro_batch, query_run)  # imported, so that the loop above finds them
