"""Which stage of a batch a Python stack belongs to: facts for those who make it faster."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["stage_of", "stages"]

# The innermost frame that one of these names decides.
_STAGES = (
    ("get_many (", "state: RocksDB multi-get"),
    ("scan_many (", "state: RocksDB scans"),
    ("scan_apart (", "state: RocksDB scans"),
    ("in_time (", "state: RocksDB scans"),
    ("in_segments (", "state: RocksDB scans"),
    ("encode (holdfast/tasks/pack/rows", "state: rows to bytes"),
    ("decode (holdfast/tasks/pack/rows", "state: bytes to rows"),
    ("row_keys (", "state: keys to bytes"),
    ("ranges_of (", "state: keys to bytes"),
    ("by_time (", "state: keys to bytes"),
    ("meetings (", "state: who meets whom"),
    ("settle (", "state: rows that wait"),
    ("emitted (", "state: results to JSON"),
    ("of_batch (", "state: bounds of sessions"),
    ("sink_rows (", "state: results to JSON"),
    ("arrival_order (", "state: order of arrival"),
    ("_columns (holdfast/transport", "ingest: messages to columns"),
    ("_fill (", "ingest: fetch"),
    ("decode (holdfast/ingest", "ingest: decode to Arrow"),
    ("murmur2_partitions (", "state: sink partitions (murmur2)"),
    ("from_arrow (", "state: payload to Arrow"),
    ("read_packed (", "ingest: pack"),
    ("_state_keys (", "state: keys to bytes"),
    ("_emit (", "state: results to JSON"),
    ("_merge (", "state: merge"),
    ("key_order (", "state: sort keys"),
    ("_by_key (", "state: sort keys"),
    ("process (holdfast/tasks/processors", "state: other columns work"),
    ("send (holdfast/transport", "state: produce"),
    ("send_marker (", "state: produce"),
    ("_produce (", "state: produce"),
    ("deliver (holdfast/transport", "state: wait for deliveries"),
    ("commit (holdfast/transport", "state: commit"),
    ("begin (holdfast/transport", "state: commit"),
    ("expired (holdfast/tasks", "state: expire windows"),
    ("apply (holdfast/state", "state: RocksDB write"),
    ("_apply (", "state: RocksDB write"),
    ("open (holdfast/tasks", "state: open and restore"),
    ("_report (", "state: statistics"),
    ("_read (holdfast/ingest", "ingest: other"),
    ("_guarded (", "driver: batch"),
    ("observe (holdfast/runtime/watching/watch", "driver: watching lags"),
    ("show_progress (", "driver: group's offsets"),
    ("latestOffset (", "driver: plan a batch"),
    ("latest_offset (", "driver: plan a batch"),
    ("partitions_func (", "driver: plan a batch"),
)
# Where none of them is in the stack, the innermost frame of these.
_ELSEWHERE = (
    ("holdfast/", "Holdfast: other"),
    ("load_stream (", "worker: read from JVM"),
    ("dump_stream (", "worker: write to JVM"),
    ("py4j/", "driver: calls into Spark"),
    ("pyspark/", "PySpark's own"),
    ("(worker.py", "PySpark's own"),
    ("worker (daemon.py", "PySpark's own"),
    # It collects garbage after every task, over all that the worker keeps open.
    ("manager (daemon.py", "worker: gc.collect() after each task (PySpark)"),
)


def stage_of(stack: str) -> str:
    """The stage of a stack: frames separated by `;`, the innermost last."""
    frames = stack.split(";")[::-1]
    for names in (_STAGES, _ELSEWHERE):
        for frame in frames:
            for part, stage in names:
                if part in frame:
                    return stage
    return "other"


def stages(lines: Iterable[str]) -> dict[str, int]:
    """Samples by stage, of py-spy's raw lines (`stack count`)."""
    found: dict[str, int] = {}
    for line in lines:
        stack, _, count = line.strip().rpartition(" ")
        if stack and count.isdigit():
            stage = stage_of(stack)
            found[stage] = found.get(stage, 0) + int(count)
    return found
