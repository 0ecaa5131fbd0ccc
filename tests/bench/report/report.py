"""The results of a benchmark: medians over rounds, ratios to Holdfast, as JSON and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.bench.measure.measure import Spread
from tests.bench.report.outcome import METRICS, Outcome
from tests.bench.workloads import WORKLOADS

__all__ = ["OURS", "Report", "markdown", "ratio", "spreads"]

OURS = "holdfast"


@dataclass(frozen=True)
class Report:
    """One benchmark: the machine, what was asked for, the peers' notes by name, every run."""

    machine: Mapping[str, str]
    asked: Mapping[str, Any]
    peers: Mapping[str, tuple[str, str]]  # name: (title, notes)
    outcomes: Sequence[Outcome]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """JSON values; `summary` is by workload, metric and peer."""
        found = spreads(self.outcomes)
        summary: dict[str, Any] = {}
        for (workload, metric, peer), spread in found.items():
            times = ratio(found, workload, metric, peer)
            by_peer = summary.setdefault(workload, {}).setdefault(metric, {})
            by_peer[peer] = {**asdict(spread), "holdfast_is_better": times}
        return {
            "machine": dict(self.machine),
            "asked": dict(self.asked),
            "peers": {name: {"title": t, "notes": n} for name, (t, n) in self.peers.items()},
            "seconds": self.seconds,
            "summary": summary,
            "outcomes": [asdict(o) for o in self.outcomes],
        }


_Key = tuple[str, str, str]


def spreads(outcomes: Sequence[Outcome]) -> dict[_Key, Spread]:
    """By (workload, metric, peer), of the runs whose tables were exact."""
    values: dict[_Key, list[float]] = {}
    for outcome in outcomes:
        if not outcome.wrong:
            for metric, value in outcome.values.items():
                values.setdefault((outcome.workload, metric, outcome.peer), []).append(value)
    return {key: Spread.of(found) for key, found in values.items()}


def ratio(found: Mapping[_Key, Spread], workload: str, metric: str, peer: str) -> float | None:
    """How many times better Holdfast's median is than the peer's; None when one is missing."""
    ours, theirs = found.get((workload, metric, OURS)), found.get((workload, metric, peer))
    if ours is None or theirs is None or not ours.median or not theirs.median:
        return None
    times = ours.median / theirs.median
    return times if METRICS[metric].more_is_better else 1 / times


def markdown(report: Report) -> str:
    """A table per workload: a row per metric, a column per peer."""
    found = spreads(report.outcomes)
    workloads = sorted({o.workload for o in report.outcomes})
    parts = ["# Benchmark\n", _header(report)]
    parts += [_section(report, found, workload) for workload in workloads]
    wrong = [o for o in report.outcomes if o.wrong]
    if wrong:
        lines = [f"* {o.workload}, {o.peer}, round {o.round}: {_line(o.wrong)}" for o in wrong]
        parts.append("## Not counted\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _header(report: Report) -> str:
    facts = {**report.machine, **{k: str(v) for k, v in report.asked.items()}}
    goals = [f"({w.name}) {w.goal:g}" for w in WORKLOADS.values() if w.goal is not None]
    facts["goals"] = f"{', '.join(goals)} times Kafka Streams' steady rate"
    facts["took"] = f"{report.seconds / 60:.1f} min"
    lines = [f"* {name}: {value}" for name, value in facts.items()]
    lines += [f"* {title}: {notes}" for title, notes in report.peers.values()]
    return "\n".join(lines) + (
        "\n\nMedians of the rounds (least to most); in brackets how many times better Holdfast is."
        " The steady rate and its CPU leave out the first eighth of the records, for every peer,"
        " and in (a1) and (a100) each key's first record;"
        " CPU is that of the peer's whole process tree, without the broker; memory is"
        " proportional (PSS).\n"
    )


def _section(report: Report, found: Mapping[_Key, Spread], workload: str) -> str:
    peers = [p for p in report.peers if any(k[0] == workload and k[2] == p for k in found)]
    runs = {p: [o for o in report.outcomes if (o.workload, o.peer) == (workload, p)] for p in peers}
    head = "".join(f" {report.peers[p][0]} |" for p in peers)
    lines = [f"## ({workload}) {WORKLOADS[workload].title}\n", f"| |{head}"]
    lines.append("|---|" + "---|" * len(peers))
    counts = "".join(f" {runs[p][0].records:,} × {len(runs[p])} |" for p in peers)
    lines.append(f"| records × rounds |{counts}")
    for metric, about in METRICS.items():
        cells = [_cell(found, workload, metric, p) for p in peers]
        if any(cells):
            row = "".join(f" {cell} |" for cell in cells)
            lines.append(f"| {about.title}, {about.unit} |{row}")
    return "\n".join(lines) + "\n"


def _cell(found: Mapping[_Key, Spread], workload: str, metric: str, peer: str) -> str:
    spread = found.get((workload, metric, peer))
    if spread is None:
        return ""
    text = _number(spread.median)
    if spread.least != spread.most:
        text += f" ({_number(spread.least)}–{_number(spread.most)})"
    times = ratio(found, workload, metric, peer)
    return text if peer == OURS or times is None else f"{text} **[{times:.2f}×]**"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _line(text: str) -> str:
    return " ".join(text.split())[-300:]
