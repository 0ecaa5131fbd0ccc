"""Replaces the imports of the engine and its judge by the fakes."""

from __future__ import annotations

import atexit
import sys
import time
from collections import OrderedDict
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.config.settings import RemoteSettings, RocksDbSettings
from holdfast.errors import HoldfastError
from holdfast.ingest import reading
from holdfast.ingest.formats.json import decoder as json
from holdfast.runtime import cluster
from holdfast.runtime.queries import feeds, query_run, stateful, stateless, stores
from holdfast.runtime.queries.batches import shuffled as shuffled_batch
from holdfast.runtime.queries.batches import unshuffled as unshuffled_batch
from holdfast.runtime.queries.batches import workers
from holdfast.runtime.rescaling import attempt as rescale_attempt
from holdfast.runtime.rescaling import rescaler
from holdfast.runtime.savepoints import attempt, first_start, frozen, offsets, taking
from holdfast.state import backends, markers, segments
from holdfast.state.remote.store import RemoteStore
from holdfast.state.topics import orders
from holdfast.tasks import snapshots, standbys, state_task, steps, worker
from holdfast.tasks.evaluate import outputs
from holdfast.tasks.functions import in_duckdb
from holdfast.tasks.pack import packing
from holdfast.tasks.processors.kinds import processor_of
from holdfast.tasks.rescaling import copier, switch
from holdfast.transport.cluster import admin_cache as shared
from tests.simulation.fakes.clients import Clients, clients
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.fakes.database import Database, FakeStores
from tests.simulation.fakes.disk import Disk, FakeStore
from tests.simulation.fakes.kafka import FakeKafka
from tests.simulation.fakes.spark import FakeSpark
from tests.simulation.histories.drivers import Current

__all__ = ["install"]

_LAYERS = (
    "holdfast.tasks", "holdfast.state", "holdfast.runtime", "holdfast.judge", "holdfast.ingest",
    "holdfast.transport.cluster.admin_cache",
)  # fmt: skip
# It holds no data between calls, but takes longer to make than a batch to run.
_processor = cache(processor_of)
# DuckDB's connection: here every task may have a thread of its own, but one of them runs at a time.
_thread = SimpleNamespace()
atexit.register(_processor.cache_clear)
atexit.register(vars(_thread).clear)
_SMALL = 3  # records
_failures = {module: module._failed for module in (snapshots, standbys)}


class _NoLetters:
    """`DeadLetters` that writes none."""

    def __init__(self, *_: object) -> None:
        """Nothing is held."""

    def write(self, bad: object) -> int:
        return 0

    def close(self) -> None:
        """Nothing is held."""


def install(
    patch: pytest.MonkeyPatch, clock: VirtualTime, kafka: FakeKafka, disk: Disk,
    spark: FakeSpark | Current, observer: steps.Observer, database: Database | None = None,
) -> None:  # fmt: skip
    """Everything below the engine is fake from here on, until `patch` is undone."""
    bound = clients(kafka)
    fakes: dict[str, Any] = {
        "TransactionalProducer": bound.producer,
        "PartitionReader": bound.reader,
        "Admin": bound.admin,
        "shared_admin": bound.admin,
        "ended_executors": spark.ended_executors,
        "executors": spark.executors,
        "located": spark.located,
        "shuffled": spark.shuffled,
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
    patch.setattr(orders, "Producer", bound.plain)
    patch.setattr(shared, "shared_admin", bound.admin)  # planners import it when they ask
    _stores(patch, kafka, disk, database or Database())
    _reading(patch, bound)
    for name in (
        "_state_tasks",
        "_stream_tasks",
        "_standbys",
        "_snapshots",
        "_copies",
        "_copiers",
        "_volume",
        "_processes",
    ):
        patch.setattr(worker, name, getattr(worker, name))  # the fake Spark changes them
    patch.setattr(state_task, "processor_of", _processor)
    # One of an executor's process; here all executors are in one, and a zombie never lets go.
    patch.setattr(state_task, "_RESTORING", nullcontext())
    patch.setattr(steps, "_observer", observer)
    for module, failed in _failures.items():
        patch.setattr(module, "_failed", partial(_failed, failed))


def _reading(patch: pytest.MonkeyPatch, bound: Clients) -> None:
    patch.setattr(reading, "PartitionReader", bound.source_reader)
    patch.setattr(reading, "DeadLetters", _NoLetters)
    patch.setattr(reading, "_readers", OrderedDict())
    # A few records at a time are decoded sooner one by one than by Arrow's parser.
    patch.setattr(json, "fast_json", lambda wanted: None)
    patch.setattr(packing, "_ROWS", _SMALL)  # many blobs of few records
    # What one process freezes is never freed, and here all workers are in one.
    for module in (reading, workers):
        patch.setattr(
            module, "gc", SimpleNamespace(freeze=_nothing, disable=_nothing, enable=_nothing)
        )
    for module in (outputs, in_duckdb):
        patch.setattr(module, "_THREAD", _thread)


def _failed(failed: Any, store: Any, error: Exception, fact: str) -> None:
    if not isinstance(error, HoldfastError):
        raise error  # an executor's thread would go on
    failed(store, error, fact)


def _nothing() -> None:
    """Does nothing."""


def _stores(patch: pytest.MonkeyPatch, kafka: FakeKafka, disk: Disk, database: Database) -> None:
    def opened(path: Path, settings: RocksDbSettings) -> FakeStore:
        return disk.open(path, kafka.current)

    def peek(path: Path, key: bytes, settings: RocksDbSettings) -> bytes | None:
        return disk.peek(path, key)

    def opened_remote(settings: RemoteSettings, name: str, *, warms: bool = False) -> RemoteStore:
        return database.open(name, kafka.current, warms=warms)

    patch.setattr(backends, "open_remote", opened_remote)
    patch.setattr(backends, "RemoteStores", partial(FakeStores, database))
    patch.setattr(backends, "RocksDbStore", opened)
    patch.setattr(backends, "peek", peek)
    for module in (markers, stateless):
        patch.setattr(module, "_AT_ONCE", 1)
    # Histories are seconds long, and rows of joins are to leave in them.
    patch.setattr(segments, "SEGMENT_MS", 1 << 10)


# Imported, so that the loop above finds them.
_ENGINE = (
    attempt, cluster, copier, feeds, first_start, frozen, offsets, query_run, rescale_attempt,
    rescaler, shuffled_batch, stateful, stateless, stores, switch, taking, unshuffled_batch,
)  # fmt: skip
