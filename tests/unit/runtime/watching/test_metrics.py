"""The Prometheus endpoint says what state tasks reported."""

from __future__ import annotations

from urllib.request import urlopen

from holdfast.runtime.watching.endpoint import serve
from holdfast.runtime.watching.metrics import Metrics
from holdfast.tasks.plan import Batch, StandbyState, TaskReport, Whereabouts
from holdfast.types.ids import OffsetRange
from holdfast.types.snapshots import SnapshotState
from tests.simulation.jobs.one_table import query

WHERE = Whereabouts("1", 0, 10, 11)
BATCH = Batch(7, OffsetRange.of("s", {0: 0}, {0: 10}))


def _scrape(metrics: Metrics) -> dict[str, float]:
    base = serve(0, "127.0.0.1", metrics.application(), {})
    with urlopen(f"{base}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_counts_latencies_and_sizes_are_served() -> None:
    metrics = Metrics("app")
    reports = [
        TaskReport(
            p, WHERE, rows=3, bytes=100, position=9, records=5, emitted=4, dropped_late=p,
            restored_records=2, commit_seconds=0.5,
        )
        for p in range(2)
    ]  # fmt: skip
    metrics.observe(query("T"), BATCH, reports, 1.5)
    metrics.lag(query("T"), 42)
    metrics.dead_letters(3)
    found = _scrape(metrics)
    assert found['holdfast_process_total{query="ctas_t"}'] == 10
    assert found['holdfast_dropped_records_total{query="ctas_t",reason="late"}'] == 1
    assert found['holdfast_commit_latency_seconds_sum{query="ctas_t"}'] == 1.0
    assert found['holdfast_commit_latency_seconds_count{query="ctas_t"}'] == 2
    assert found['holdfast_store_rows{query="ctas_t",state_partition="1"}'] == 3
    assert found['holdfast_restore_records_total{query="ctas_t"}'] == 4
    assert found['holdfast_records_lag{query="ctas_t"}'] == 42
    assert found['holdfast_batch_id{query="ctas_t"}'] == 7
    assert found["holdfast_dead_letter_records"] == 3
    metrics.no_lag(query("T"))
    metrics.no_lag(query("U"))
    assert not [name for name in _scrape(metrics) if "records_lag" in name]


def test_whether_the_job_is_ready_is_asked_at_each_look() -> None:
    metrics, reasons = Metrics("app"), ["restoring"]
    assert _scrape(metrics)["holdfast_ready"] == 0
    metrics.readiness(lambda: reasons[-1])
    assert _scrape(metrics)["holdfast_ready"] == 0
    reasons.append("")
    assert _scrape(metrics)["holdfast_ready"] == 1


def test_only_the_state_partitions_of_now_have_a_size() -> None:
    metrics = Metrics("app")
    for count in (3, 1):
        reports = [TaskReport(p, WHERE, rows=p + 1) for p in range(count)]
        metrics.observe(query("T"), BATCH, reports, 1.5)
    found = {name for name in _scrape(metrics) if "store_rows" in name}
    assert found == {'holdfast_store_rows{query="ctas_t",state_partition="0"}'}


def test_only_the_standbys_of_now_have_a_lag() -> None:
    metrics = Metrics("app")
    for lag, partitions in ((7, (0, 1)), (-1, (1,))):
        states = {("ctas_t", p): [(WHERE, StandbyState("ctas_t", p, 9, lag))] for p in partitions}
        metrics.standbys(states)
    found = {name: value for name, value in _scrape(metrics).items() if "standby" in name}
    assert found == {'holdfast_standby_lag{query="ctas_t",state_partition="1",volume="0"}': -1}


def test_the_newest_snapshot_is_told_where_snapshots_are_taken() -> None:
    states = {
        0: SnapshotState(90, 1_700_000_000_500, 4_096, 1_024, 2.5),
        1: SnapshotState(error="The bucket does not exist."),
        2: None,
    }
    metrics = Metrics("app")
    reports = [TaskReport(p, WHERE, snapshot=state) for p, state in states.items()]
    metrics.observe(query("T"), BATCH, reports, 1.0)
    found = {name: value for name, value in _scrape(metrics).items() if "_snapshot_" in name}
    names = ("offset", "timestamp_seconds", "bytes", "failing")
    values = ((90, 1_700_000_000.5, 4_096, 0), (-1, 0, 0, 1))
    assert found == {
        f'holdfast_snapshot_{name}{{query="ctas_t",state_partition="{p}"}}': value
        for p in (0, 1)
        for name, value in zip(names, values[p], strict=True)
    }
    metrics.observe(query("T"), BATCH, [TaskReport(1, WHERE, snapshot=states[0])], 1.0)
    later = _scrape(metrics)
    assert later['holdfast_snapshot_failing{query="ctas_t",state_partition="1"}'] == 0
    assert later['holdfast_snapshot_offset{query="ctas_t",state_partition="1"}'] == 90
