from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from holdfast.serve.http.meter import Meter


def test_queries_are_counted_by_how_they_ended() -> None:
    meter = Meter()
    meter.open_queries = lambda: 4
    registry = CollectorRegistry()
    registry.register(meter)
    meter.ended("pull", "done", 1, 0.004)
    meter.ended("pull", "done", 2, 0.04)
    meter.ended("pull", "StoreBehind", 0, 60.0)
    meter.ended("push", "left", 7, 3600.0)
    text = generate_latest(registry).decode()
    for line in (
        'holdfast_serve_queries_total{ended="done",kind="pull"} 2.0',
        'holdfast_serve_queries_total{ended="StoreBehind",kind="pull"} 1.0',
        'holdfast_serve_queries_total{ended="left",kind="push"} 1.0',
        'holdfast_serve_rows_total{kind="pull"} 3.0',
        'holdfast_serve_rows_total{kind="push"} 7.0',
        'holdfast_serve_pull_seconds_bucket{le="0.0025"} 0.0',
        'holdfast_serve_pull_seconds_bucket{le="0.005"} 1.0',
        'holdfast_serve_pull_seconds_bucket{le="0.05"} 2.0',
        'holdfast_serve_pull_seconds_bucket{le="+Inf"} 3.0',
        "holdfast_serve_pull_seconds_sum 60.044",
        "holdfast_serve_open_queries 4.0",
    ):
        assert line in text.splitlines(), line
