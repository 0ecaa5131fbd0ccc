"""The number of one run, and why it does not count where it does not."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["METRICS", "Metric", "Outcome"]


@dataclass(frozen=True)
class Metric:
    """A measured value: its title, its unit, and whether more is better."""

    title: str
    unit: str
    more_is_better: bool


METRICS = {
    "rate": Metric("steady rate", "records/s", more_is_better=True),
    "fill_rate": Metric("rate while keys are new", "records/s", more_is_better=True),
    "rate_with_start": Metric("rate with process start", "records/s", more_is_better=True),
    "start_s": Metric("start to first commit", "s", more_is_better=False),
    "cpu_s_per_m": Metric("CPU per million records", "s", more_is_better=False),
    "cpu_all_s_per_m": Metric("the same with process start", "s", more_is_better=False),
    "broker_cpu_s_per_m": Metric("broker's CPU per million", "s", more_is_better=False),
    "peak_mb": Metric("peak memory", "MB", more_is_better=False),
    "disk_bytes_per_row": Metric("state on disk", "bytes/row", more_is_better=False),
    "disk_written_per_record": Metric("written to disk", "bytes/record", more_is_better=False),
    "p50_s": Metric("latency p50", "s", more_is_better=False),
    "p99_s": Metric("latency p99", "s", more_is_better=False),
    "restore_rate": Metric("restore", "records/s", more_is_better=True),
    "restore_s": Metric("restore", "s", more_is_better=False),
    "restore_with_start_s": Metric("restore with process start", "s", more_is_better=False),
    "recovery_s": Metric("kill to next commit", "s", more_is_better=False),
    "usual_pause_s": Metric("longest time without a commit before", "s", more_is_better=False),
    "pause_s": Metric("longest time without a commit", "s", more_is_better=False),
    "rescale_s": Metric("from the order to the next generation", "s", more_is_better=False),
}


@dataclass(frozen=True)
class Outcome:
    """One run of one peer; `wrong` is empty when its table was exact and it did not fail."""

    workload: str
    peer: str
    round: int
    records: int
    values: dict[str, float] = field(default_factory=dict)
    wrong: str = ""
