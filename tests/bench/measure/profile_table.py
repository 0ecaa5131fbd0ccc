"""A profile as tables: CPU by process and thread, Python by stage, a batch on the clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time

__all__ = ["EXECUTORS", "Profile", "markdown", "start_times"]

EXECUTORS = 2  # Holdfast's default
_STARTING = (
    ("it answers (imports, settings)", "Metrics at"),
    ("Spark runs, the stores are open", "state partition"),
    ("the first batch is committed", "batch 0"),
)
_LEAST = 0.05  # CPU seconds per million records; what is less is summed up
_PHASES = ("get", "merge", "produce", "commit", "put")


@dataclass(frozen=True)
class Profile:
    """One profiled stretch of a run; CPU seconds by role, then by thread group or stage.

    `clock`: seconds and counts of the job's own stopwatches in that stretch.  `memory`: MB by
    role at its end.  `start`: seconds from the command to what the log told.
    """

    machine: Mapping[str, str]
    workload: str
    settings: str
    records: int
    seconds: float
    rate: float
    threads: Mapping[str, Mapping[str, float]]
    stages: Mapping[str, Mapping[str, float]]
    clock: Mapping[str, float]
    memory: Mapping[str, float]
    start: Mapping[str, float]


def markdown(profile: Profile) -> str:
    """Three tables."""
    total = sum(sum(parts.values()) for parts in profile.threads.values())
    head = [f"# Profile of ({profile.workload})\n"]
    head += [f"* {name}: {value}" for name, value in profile.machine.items()]
    head.append(f"* {profile.settings}")
    head.append(
        f"* {profile.records:,} records in {profile.seconds:.1f} s, {profile.rate:,.0f} records/s, "
        f"{_per_million(profile, total):.1f} CPU s per million\n"
    )
    return "\n".join(
        [
            *head,
            "## CPU by process and thread, CPU seconds per million records\n",
            _table(profile, profile.threads, total, "threads"),
            "## Python code by stage (py-spy's shares of it), CPU seconds per million records\n",
            _table(profile, profile.stages, total, "stage"),
            "## A batch on the clock, seconds\n",
            _clock(profile.clock),
            "## The start, seconds since the command was given\n",
            _pairs(profile.start),
            "## Memory at the end, MB\n",
            _pairs(profile.memory),
        ]
    )


def _per_million(profile: Profile, seconds: float) -> float:
    return seconds / profile.records * 1e6


def _table(
    profile: Profile, parts: Mapping[str, Mapping[str, float]], total: float, what: str
) -> str:
    lines = [f"| process | {what} | CPU s | of all |", "|---|---|---|---|"]
    for role in sorted(parts, key=lambda r: -sum(parts[r].values())):
        whole = sum(parts[role].values())
        rows = sorted(parts[role].items(), key=lambda part: -part[1])
        large = [row for row in rows if _per_million(profile, row[1]) >= _LEAST]
        rest = whole - sum(seconds for _, seconds in large)
        shown = [("**all**", whole), *large, ("the rest", rest)]
        lines += [
            f"| {role} | {name} | {_per_million(profile, seconds):.2f} | {seconds / total:.1%} |"
            for name, seconds in shown
        ]
    return "\n".join(lines) + "\n"


def _clock(clock: Mapping[str, float]) -> str:
    batches = clock.get("batch_count", 0.0)
    if not batches:
        return "No batch ended.\n"
    lines = ["| phase | per batch | per batch and state partition |", "|---|---|---|"]
    lines.append(f"| whole batch (driver) | {clock['batch_sum'] / batches:.3f} | |")
    for phase in _PHASES:
        seconds, count = clock.get(f"{phase}_sum", 0.0), clock.get(f"{phase}_count", 0.0)
        mean = seconds / count if count else 0.0
        lines.append(f"| {phase}, all state partitions | {seconds / batches:.3f} | {mean:.3f} |")
    note = f"{batches:.0f} batches, {EXECUTORS} executors, each at some state partitions at a time."
    return "\n".join(lines) + f"\n\n{note}\n"


def _pairs(values: Mapping[str, float]) -> str:
    rows = [f"| {name} | {value:,.1f} |" for name, value in values.items()]
    return "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def start_times(log: str, spawned: datetime) -> dict[str, float]:
    """Seconds from the start of the command to the first line of each kind in its log."""
    found = {}
    for what, text in _STARTING:
        match = re.search(rf"^(\d\d:\d\d:\d\d\.\d+) .*{text}", log, re.MULTILINE)
        if match:
            told = datetime.combine(spawned, time.fromisoformat(match[1]), spawned.tzinfo)
            found[what] = (told - spawned).total_seconds() % 86_400
    return found
