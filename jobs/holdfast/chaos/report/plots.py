"""The report's plots: a run over time, and how long recoveries took.

Drawn twice: as SVG in the page's text and grid colors, and as one PNG.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from holdfast.chaos.report.summary import RecoveryStats, RunSummary, Series, series
from holdfast.judge.verdict import Verdict
from holdfast.pages.plots import INK, STYLE, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdfast.chaos.history.strikes import Strike

__all__ = ["VERDICT_COLORS", "recovery_svg", "timeline_svg", "write_png"]

VERDICT_COLORS = {
    Verdict.VALID: "#23915a",
    Verdict.UNKNOWN: "#b97b10",
    Verdict.INVALID: "#d0423f",
}
_COMPONENTS = {"driver": "#8a63d2", "executor": "#3d82d6", "broker": "#dd7a2b",
               "server": "#b0517f"}  # fmt: skip
_OTHER = "#2a9d8f"
_ARRIVING, _COMMITTED, _LAG, _RESTORE, _SILENT = (
    "#8b98a9", "#2b9a66", "#d05c79", "#c2a21d", "#8b98a9",
)  # fmt: skip
_RESTORES, _DRIVER_SILENT = "restores", "driver silent"
_LABEL_CHARACTERS = 140  # that fit beside each other in the width of a plot
_LABELS_MAX = 24  # more faults leave no room for numbers, and lines would hide the rest
_TICKS_S = (5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)


def timeline_svg(summary: RunSummary) -> str:
    """Throughput, lag, faults and restores over time."""
    lanes = len(_lanes(summary, series(summary)))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 4.3 + 0.32 * lanes), layout="constrained")
        heights = [2.0, 1.2, 0.35 * lanes + 0.1]
        _draw_timeline(figure.subplots(3, 1, sharex=True, height_ratios=heights), summary)
        return svg(figure, "timeline")


def recovery_svg(stats: Sequence[RecoveryStats]) -> str:
    """One dot per recovery, by kind of fault."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 0.9 + 0.34 * len(stats)), layout="constrained")
        _draw_recoveries(figure.subplots(), stats)
        return svg(figure, "recovery")


def write_png(summary: RunSummary, stats: Sequence[RecoveryStats], path: Path) -> None:
    """Both plots under the verdict, for chats and tickets."""
    lanes, kinds = len(_lanes(summary, series(summary))), len(stats)
    heights = [2.0, 1.2, 0.35 * lanes + 0.1, 0.3 * kinds + 0.5]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 1.6 + 1.3 * sum(heights)), layout="constrained")
        *timeline, recoveries = figure.subplots(4, 1, height_ratios=heights)
        for axes in timeline[:2]:
            axes.sharex(timeline[2])
            axes.tick_params(labelbottom=False)
        _draw_timeline(timeline, summary)
        _draw_recoveries(recoveries, stats)
        verdict = summary.verdict.verdict
        title = f"{summary.asked.get('name', '')}, run {summary.verdict.run}: {verdict.value}"
        # The second line is kept free for the text under the title.
        figure.suptitle(f"{title}\n", fontsize=15, fontweight="bold", color=VERDICT_COLORS[verdict])
        told = f"{summary.headline()}  Seed {summary.asked.get('seed')}."
        figure.text(0.5, 1.0 - 0.46 / figure.get_figheight(), told, ha="center", va="center")
        FigureCanvasAgg(figure)
        figure.savefig(path, dpi=140, facecolor="white")


def _draw_timeline(panels: Sequence[Axes], summary: RunSummary) -> None:
    throughput, lag, lanes = panels
    found = series(summary)
    _draw_throughput(throughput, found)
    _draw_lag(lag, found)
    _draw_lanes(lanes, summary, found)
    for axes in (throughput, lag):
        _shade(axes, summary)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    lanes.set_xlim(0, max(summary.seconds, 1.0))
    lanes.xaxis.set_major_locator(MultipleLocator(_tick_s(summary.seconds)))
    lanes.xaxis.set_major_formatter(FuncFormatter(_clock))


def _draw_throughput(axes: Axes, found: Series) -> None:
    axes.plot(found.at_s, found.arriving, color=_ARRIVING, lw=1.3, label="arriving")
    axes.plot(found.at_s, found.committed, color=_COMMITTED, lw=1.5, label="committed")
    axes.fill_between(found.at_s, 0, found.committed, color=_COMMITTED, alpha=0.15, lw=0)
    axes.set_title("Records per second", loc="left", fontsize=9.5, fontweight="bold")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2, borderaxespad=0)


def _draw_lag(axes: Axes, found: Series) -> None:
    axes.plot(found.at_s, found.lag, color=_LAG, lw=1.3)
    axes.fill_between(found.at_s, 0, found.lag, color=_LAG, alpha=0.18, lw=0)
    axes.set_title("Lag, records of all queries", loc="left", fontsize=9.5, fontweight="bold")


def _lanes(summary: RunSummary, found: Series) -> list[str]:
    """The rows of the plot: components that were hit, then the observations."""
    hit = {s.injection.component for s in summary.history.strikes}
    known = [c for c in _COMPONENTS if c in hit]
    seen = [_RESTORES] * bool(found.restoring) + [_DRIVER_SILENT] * bool(found.silent)
    return [*known, *sorted(hit - set(known)), *seen]


def _draw_lanes(axes: Axes, summary: RunSummary, found: Series) -> None:
    lanes = _lanes(summary, found)
    labels = _labels(summary) if len(summary.history.strikes) <= _LABELS_MAX else {}
    least = max(summary.seconds, 1.0) / 250
    for strike, recovery in zip(summary.history.strikes, summary.recoveries, strict=True):
        start = summary.since(strike.at_s)
        width = max(summary.end_of(strike, recovery) - start, least)
        y = lanes.index(strike.injection.component)
        color = _COMPONENTS.get(strike.injection.component, _OTHER)
        axes.barh(y, width, left=start, height=0.62, color=color, alpha=0.45, lw=0)
        axes.barh(y, least, left=start, height=0.62, color=color, lw=0)
        if label := labels.get(strike.injection.number):
            axes.text(start + least, y, f" {label}", va="center", fontsize=8, clip_on=True)
    for lane, spans, color in (
        (_RESTORES, found.restoring, _RESTORE),
        (_DRIVER_SILENT, found.silent, _SILENT),
    ):
        for start, end in spans:
            axes.barh(lanes.index(lane), end - start, left=start, height=0.5, color=color, lw=0)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(max(len(lanes), 1) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_title("Faults, each until the job commits again", loc="left", fontsize=9.5,
                   fontweight="bold")  # fmt: skip


def _labels(summary: RunSummary) -> dict[int, str]:
    """By the number of a fault its number and kind; the number alone where the next one is near."""
    by_lane: dict[str, list[Strike]] = {}
    for strike in sorted(summary.history.strikes, key=lambda s: s.at_s):
        by_lane.setdefault(strike.injection.component, []).append(strike)
    found = {}
    for strikes in by_lane.values():
        ends = [*(summary.since(s.at_s) for s in strikes[1:]), summary.seconds]
        for strike, end in zip(strikes, ends, strict=True):
            number = f"{strike.injection.number + 1}"
            full = f"{number} {strike.injection.fault.value}"
            share = (end - summary.since(strike.at_s)) / max(summary.seconds, 1.0)
            found[strike.injection.number] = (
                full if len(full) + 2 <= _LABEL_CHARACTERS * share else number
            )
    return found


def _shade(axes: Axes, summary: RunSummary) -> None:
    for strike, recovery in zip(summary.history.strikes, summary.recoveries, strict=True):
        color = _COMPONENTS.get(strike.injection.component, _OTHER)
        start = summary.since(strike.at_s)
        axes.axvspan(start, summary.end_of(strike, recovery), color=color, alpha=0.09, lw=0)
        if len(summary.history.strikes) <= _LABELS_MAX:
            axes.axvline(start, color=color, lw=0.8, alpha=0.7)


def _draw_recoveries(axes: Axes, stats: Sequence[RecoveryStats]) -> None:
    for y, kind in enumerate(stats):
        color = _COMPONENTS.get(kind.kind.split()[0], _OTHER)
        axes.plot([min(kind.seconds), kind.max_s], [y, y], color=color, lw=5, alpha=0.2,
                  solid_capstyle="round")  # fmt: skip
        axes.plot([kind.median_s] * 2, [y - 0.3, y + 0.3], color=INK, lw=2)
        axes.plot(kind.seconds, [y] * len(kind.seconds), "o", color=color, ms=5.5, alpha=0.8, mew=0)
    axes.set_yticks(range(len(stats)), [f"{k.kind}  ({len(k.seconds)})" for k in stats])
    axes.set_ylim(max(len(stats), 1) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    title = "Seconds from a fault to the next commit: each one, and the median"
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold")


def _tick_s(seconds: float) -> int:
    """Seconds between two ticks, a step as on a clock, at most twelve of them."""
    return next((s for s in _TICKS_S if seconds <= 12 * s), _TICKS_S[-1])


def _clock(seconds: float, _: object) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
