from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.bench.measure.profile_table import Profile, markdown, start_times
from tests.bench.measure.stages import stage_of, stages
from tests.bench.measure.threads import Stat, parse_stat, thread_group

_FIELDS = "S 1 1 1 0 -1 4194368 10 0 0 0 150 50 0 0 20 0 30 0 777 1000 5"
_WORKER = "<module> (daemon.py:292);manager (daemon.py:264);worker (daemon.py:90)"


def test_a_stat_line_tells_name_seconds_and_beginning() -> None:
    assert parse_stat(f"42 (rdk:broker1) {_FIELDS}", 100) == Stat("rdk:broker1", 2.0, "777")
    assert parse_stat(f"42 (a (b) c) {_FIELDS}", 100).name == "a (b) c"


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("rdk:broker1001", "librdkafka"),
        ("rocksdb:low", "RocksDB flush and compaction"),
        ("C2 CompilerThre", "JVM: compiler (JIT)"),
        ("VM Thread", "JVM: garbage collection"),
        ("Executor task l", "JVM: Spark tasks"),
        ("jemalloc_bg_thd-3", "jemalloc_bg_thd"),
        ("7", "7"),
    ],
)
def test_threads_are_grouped_by_their_names(name: str, group: str) -> None:
    assert thread_group(name) == group


@pytest.mark.parametrize(
    ("inner", "stage"),
    [
        ("Lookup.get_many (holdfast/tasks/lookup.py:17);x (y.py:1)", "RocksDB multi-get"),
        ("StateTask._produce (a.py:1);murmur2_partitions (b.py:2)", "sink partitions"),
        ("send (holdfast/transport/producer.py:1);_queue (holdfast/x.py:2)", "produce"),
        ("work (holdfast/tasks/worker.py:1);at (holdfast/tasks/w.py:2)", "Holdfast: other"),
        ("read_int (serializers.py:602)", "PySpark's own"),
    ],
)
def test_the_innermost_known_frame_names_the_stage(inner: str, stage: str) -> None:
    assert stage in stage_of(f"{_WORKER};main (worker.py:1);{inner}")


def test_what_the_daemon_does_itself_is_its_collection_of_garbage() -> None:
    assert "gc.collect" in stage_of("<module> (daemon.py:292);manager (daemon.py:275)")
    assert stage_of(_WORKER) == "PySpark's own"
    assert stage_of("main (elsewhere.py:1)") == "other"


def test_samples_of_a_stage_are_added_up() -> None:
    lines = ["a;get_many (x.py:1) 3\n", "get_many (x.py:2);pq (z.py:1) 4\n", "\n", "odd line\n"]
    assert stages(lines) == {"state: RocksDB multi-get": 7}


def test_the_tables_are_per_million_records() -> None:
    profile = Profile(
        machine={"commit": "abc"},
        workload="a",
        settings="defaults",
        records=500_000,
        seconds=10.0,
        rate=50_000.0,
        threads={"executors: JVM": {"JVM: Spark tasks": 3.0, "dust": 0.001}},
        stages={"executors: Python with the state": {"state: merge": 1.0}},
        clock={"batch_sum": 4.0, "batch_count": 2.0, "get_sum": 1.0, "get_count": 16.0},
        memory={"driver: JVM": 512.0},
        start={"it answers": 1.5},
    )
    text = markdown(profile)
    assert "| executors: JVM | JVM: Spark tasks | 6.00 | 100.0% |" in text
    assert "| executors: Python with the state | state: merge | 2.00 | 33.3% |" in text
    assert "| whole batch (driver) | 2.000 | |" in text
    assert "| get, all state partitions | 0.500 | 0.062 |" in text
    assert "| driver: JVM | 512.0 |" in text
    assert "dust" not in text


def test_the_start_is_told_by_the_log_even_past_midnight() -> None:
    log = (
        "23:59:58.500 INFO    runtime.job: Metrics at http://localhost:1/metrics\n"
        "WARNING: Using incubator modules\n"
        "00:00:04.000 INFO    runtime.scoreboard: q batch 0: 100 records in 2.00 s\n"
    )
    found = start_times(log, datetime(2026, 1, 1, 23, 59, 57, tzinfo=UTC))
    assert list(found.values()) == [1.5, 7.0]
