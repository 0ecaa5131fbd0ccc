"""bench.png: a panel per metric, a group of bars per workload, a color per peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tests.bench.measure.measure import Spread
from tests.bench.report.outcome import METRICS
from tests.bench.report.report import Report, spreads

__all__ = ["drawn", "write_png"]

_SHOWN = ("rate", "cpu_s_per_m", "peak_mb", "p99_s", "restore_rate", "recovery_s")
_COLORS = {
    "holdfast": "#23915a",
    "kafka-streams": "#3d82d6",
    "quix": "#b97b10",
    "spark": "#8a63d2",
}
_WIDTH = 0.8


def write_png(report: Report, path: Path) -> None:
    """Draws what was measured, if anything was."""
    figure = drawn(report)
    if figure is not None:
        figure.savefig(path, dpi=120)


def drawn(report: Report) -> Figure | None:
    """A panel for each metric with a value; None without any."""
    found = spreads(report.outcomes)
    metrics = [m for m in _SHOWN if any(key[1] == m for key in found)]
    if not metrics:
        return None
    rows = -(-len(metrics) // 2)
    figure = Figure(figsize=(11, 3.2 * rows + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    what = "medians, with lines from the least to the most; report.md says what the letters mean"
    figure.suptitle(f"{report.machine['commit']} on {report.machine['cpu']}\n{what}", fontsize=9)
    for place, metric in enumerate(metrics, start=1):
        _panel(figure.add_subplot(rows, 2, place), report, found, metric)
    _legend(figure)
    return figure


def _panel(
    axes: Axes, report: Report, found: Mapping[tuple[str, str, str], Spread], metric: str
) -> None:
    workloads = sorted({w for w, m, _ in found if m == metric})
    peers = [p for p in report.peers if any(k[1:] == (metric, p) for k in found)]
    width = _WIDTH / len(peers)
    for number, peer in enumerate(peers):
        at = [i for i, w in enumerate(workloads) if (w, metric, peer) in found]
        bars = [found[workloads[i], metric, peer] for i in at]
        left = number * width - _WIDTH / 2 + width / 2
        _bars(axes, [i + left for i in at], bars, width, (report.peers[peer][0], _COLORS[peer]))
    about = METRICS[metric]
    axes.set_title(f"{about.title}, {about.unit}", fontsize=10)
    long = any(len(workload) > 1 for workload in workloads)
    names = [f"({workload})" for workload in workloads]
    axes.set_xticks(
        range(len(workloads)), names, rotation=45 * long, ha="right" if long else "center"
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{round(y, 6):,.9g}"))
    axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure) -> None:
    """One for all panels, beside the bars."""
    shown: dict[Any, Any] = {}
    for axes in figure.axes:
        bars, labels = axes.get_legend_handles_labels()
        shown |= dict(zip(labels, bars, strict=True))
    figure.legend(
        list(shown.values()),
        list(shown),
        loc="outside lower center",
        ncols=len(shown),
        frameon=False,
    )


def _bars(
    axes: Axes, at: Sequence[float], bars: Sequence[Spread], width: float, look: tuple[str, str]
) -> None:
    label, color = look
    heights = [b.median for b in bars]
    errors = [[b.median - b.least for b in bars], [b.most - b.median for b in bars]]
    axes.bar(at, heights, width, yerr=errors, label=label, color=color, ecolor="#444", capsize=2)
