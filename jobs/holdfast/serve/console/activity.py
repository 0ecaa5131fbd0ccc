"""Samples over time: throughput of jobs, duration of commits, lag of servers.

Counters are kept as reported; rates are computed on request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isinf
from typing import Any

from holdfast.serve.console.drivers import Driver
from holdfast.serve.contract import Member, MemberState

__all__ = ["KEPT", "Activity", "QuerySample", "Sample", "TableSample", "sample_of"]

KEPT = 1_800  # an hour, one sample every two seconds


@dataclass(frozen=True)
class QuerySample:
    """A query's counters since the job's start (`records`: since its first start), and its lag."""

    records: int
    lag: int | None
    batch_s: float = 0.0
    batches: float = 0.0
    commits: tuple[tuple[float, float], ...] = ()  # see `Counters`


@dataclass(frozen=True)
class TableSample:
    """A served table's changelog offsets, summed over the best holder of each partition.

    `lag`: the sum over all partitions, 0 when the best holders are caught up.
    """

    end: int
    position: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)


@dataclass(frozen=True)
class Sample:
    """All counters at one moment: queries by `application id/query id`, tables by name."""

    at_ms: int
    queries: Mapping[str, QuerySample] = field(default_factory=dict)
    tables: Mapping[str, TableSample] = field(default_factory=dict)


class Activity:
    """Owns the samples of the last hour."""

    def __init__(self, kept: int = KEPT) -> None:
        self._samples: deque[Sample] = deque(maxlen=kept)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    def since(
        self, after_ms: int = 0, sees: Callable[[str], bool] = lambda _: True
    ) -> dict[str, Any]:
        """Series with one value per sample after `after_ms`; None where nothing is known.

        `sees`: whether to include a table's name or a query's id.
        Per query: records/s, source lag, mean batch seconds since the previous sample, median and
        |99th percentile of commit seconds.  Per table: changelog offsets/s and lag.
        """
        pairs = [(a, b) for a, b in pairwise(self._samples) if b.at_ms > after_ms]
        queries = [n for n in _names(b.queries for _, b in pairs) if sees(n.rpartition("/")[2])]
        tables = list(filter(sees, _names(b.tables for _, b in pairs)))
        return {
            "at_ms": [b.at_ms for _, b in pairs],
            "queries": {name: _query_series(name, pairs) for name in queries},
            "tables": {name: _table_series(name, pairs) for name in tables},
        }


def sample_of(at_ms: int, drivers: Iterable[Driver], members: Sequence[Member]) -> Sample:
    """A sample of all drivers and servers; those that do not answer are left out."""
    queries = {
        f"{driver.application_id}/{query_id}": _query(driver, query_id, told)
        for driver in drivers
        if driver.answers
        for query_id, told in driver.queries.items()
    }
    return Sample(at_ms, queries, _tables(members))


def _query(driver: Driver, query_id: str, told: Mapping[str, Any]) -> QuerySample:
    counters = driver.counters.get(query_id)
    records, lag = int(told.get("records_total", 0)), told.get("lag")
    if counters is None:
        return QuerySample(records, lag)
    return QuerySample(
        records,
        lag,
        counters.batch_sum,
        counters.batch_count,
        counters.commits,
    )


def _tables(members: Sequence[Member]) -> dict[str, TableSample]:
    best: dict[tuple[str, int], tuple[int, int]] = {}
    for member in members:
        if member.state is MemberState.GONE:
            continue
        for held in member.shown:
            place = held.table, held.partition
            position, end = best.get(place, (0, 0))
            best[place] = max(position, held.state.position), max(end, held.state.end)
    found: dict[str, TableSample] = {}
    for (table, _), (position, end) in best.items():
        known = found.get(table, TableSample(0, 0))
        found[table] = TableSample(known.end + end, known.position + min(position, end))
    return found


def _names(samples: Iterable[Mapping[str, object]]) -> list[str]:
    return sorted({name for one in samples for name in one})


_Pairs = Sequence[tuple[Sample, Sample]]


def _query_series(name: str, pairs: _Pairs) -> dict[str, list[float | None]]:
    series: dict[str, list[float | None]] = {
        "records_s": [], "lag": [], "batch_s": [], "commit_p50_s": [], "commit_p99_s": []
    }  # fmt: skip
    for before, now in pairs:
        a, b = before.queries.get(name), now.queries.get(name)
        series["lag"].append(b.lag if b else None)
        seconds = (now.at_ms - before.at_ms) / 1000
        series["records_s"].append(_ratio(b.records - a.records, seconds) if a and b else None)
        mean = _ratio(b.batch_s - a.batch_s, b.batches - a.batches) if a and b else None
        series["batch_s"].append(mean)
        commits = _between(a.commits, b.commits) if a and b else []
        series["commit_p50_s"].append(_quantile(commits, 0.5))
        series["commit_p99_s"].append(_quantile(commits, 0.99))
    return series


_Buckets = Sequence[tuple[float, float]]


def _between(before: _Buckets, now: _Buckets) -> list[tuple[float, float]]:
    """Cumulative histogram buckets of the commits between two samples; empty after a restart."""
    seen = dict(before)
    found = [(bound, count - seen.get(bound, 0.0)) for bound, count in now]
    return [] if any(count < 0 for _, count in found) else found


def _quantile(buckets: _Buckets, share: float) -> float | None:
    """A quantile as Prometheus computes it: linear within a bucket, at most the last bound."""
    wanted = share * buckets[-1][1] if buckets else 0.0
    low, below = 0.0, 0.0
    for bound, count in buckets:
        if wanted > 0 and count >= wanted:
            inside = 0.0 if isinf(bound) else (bound - low) * (wanted - below) / (count - below)
            return round(low + inside, 6)
        low, below = bound, count
    return None


def _table_series(name: str, pairs: _Pairs) -> dict[str, list[float | None]]:
    rates: list[float | None] = []
    lags: list[float | None] = []
    for before, now in pairs:
        a, b = before.tables.get(name), now.tables.get(name)
        seconds = (now.at_ms - before.at_ms) / 1000
        rates.append(_ratio(b.end - a.end, seconds) if a and b else None)
        lags.append(b.lag if b else None)
    return {"changes_s": rates, "lag": lags}


def _ratio(part: float, whole: float) -> float | None:
    """The quotient; None if nothing happened or a counter was reset."""
    return round(part / whole, 6) if whole > 0 and part >= 0 else None
