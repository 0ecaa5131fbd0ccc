"""Prometheus metrics of clients' queries."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

__all__ = ["Meter"]

_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Meter(Collector):
    """Owns the counts; `open_queries` gives the number of running queries."""

    def __init__(self) -> None:
        self.open_queries: Callable[[], int] = int
        self._ended: dict[tuple[str, str], int] = {}
        self._rows: dict[str, int] = {}
        self._counts = [0] * (len(_BOUNDS_S) + 1)
        self._seconds = 0.0

    def ended(self, kind: str, how: str, rows: int, seconds: float) -> None:
        """Count a query; `kind` is pull or push, `how` an `Ended` or the name of an error."""
        self._ended[kind, how] = self._ended.get((kind, how), 0) + 1
        self._rows[kind] = self._rows.get(kind, 0) + rows
        if kind == "pull":  # a push query's duration has no meaning
            self._counts[bisect_left(_BOUNDS_S, seconds)] += 1
            self._seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """The current metric families."""
        ended = CounterMetricFamily(
            "holdfast_serve_queries", "Queries that ended", labels=["kind", "ended"]
        )
        for (kind, how), count in sorted(self._ended.items()):
            ended.add_metric([kind, how], count)
        yield ended
        rows = CounterMetricFamily("holdfast_serve_rows", "Rows given", labels=["kind"])
        for kind, count in sorted(self._rows.items()):
            rows.add_metric([kind], count)
        yield rows
        yield self._pulls()
        under_way = GaugeMetricFamily("holdfast_serve_open_queries", "Answers under way")
        under_way.add_metric([], self.open_queries())
        yield under_way

    def _pulls(self) -> HistogramMetricFamily:
        buckets, total = [], 0
        for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        family = HistogramMetricFamily("holdfast_serve_pull_seconds", "How long pull queries took")
        family.add_metric([], buckets, self._seconds)
        return family
