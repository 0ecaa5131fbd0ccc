"""The report's plots: bytes and restores before, as predicted, and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from holdfast.compaction.verify.history import Line
from holdfast.compaction.verify.verified import OFF_SHARE, PACE_S, TopicResult, Verified
from holdfast.pages.plots import INK, STYLE, byte_ticks, svg
from holdfast.types.words import human_bytes, human_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["history_svg", "partitions_svg", "topics_svg", "write_png"]

_BEFORE, _PREDICTED, _AFTER = "#8b98a9", "#c2a21d", "#2b9a66"
_SERIES = ((_BEFORE, "before"), (_PREDICTED, "predicted"), (_AFTER, "real"))
_HEIGHT = 0.26  # of one bar; three of them make a group
_TOPICS_MAX = 20  # in plots: the largest; tables show all
_NAME_MAX = 46


@dataclass(frozen=True)
class _Panel:
    """One measure of every topic: its title, its three values, and how a value is written."""

    title: str
    values: Callable[[TopicResult], tuple[float, float, float]]
    written: Callable[[float], str]


_BYTES = _Panel(
    "Bytes of the changelog",
    lambda t: (t.bytes_before, t.bytes_predicted, t.bytes_real),
    human_bytes,
)
_RECORDS = _Panel(
    "Records that a restore replays",
    lambda t: (t.records_before, t.records_predicted, t.records_real),
    lambda count: f"{count:,.0f}",
)
_SECONDS = _Panel(
    "Restore of the whole table, at the pace of the measured one",
    lambda t: (t.restore_before_s, t.restore_predicted_s, t.restore_real_s),
    human_seconds,
)
_PANELS = (_BYTES, _RECORDS, _SECONDS)


def topics_svg(topics: Sequence[TopicResult]) -> str:
    """Bytes, records and restore of every topic."""
    shown = _largest(topics)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, _panels_inches(len(shown))), layout="constrained")
        _draw(figure, shown)
        return svg(figure, "topics")


def partitions_svg(topic: TopicResult, name: str) -> str:
    """Bytes of every partition of one topic."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 1.9), layout="constrained")
        axes = figure.subplots()
        parts = topic.partitions
        told = (
            [p.bytes_before for p in parts],
            [p.bytes_predicted + p.grown_bytes for p in parts],
            [p.bytes_real for p in parts],
        )
        for n, ((color, label), heights) in enumerate(zip(_SERIES, told, strict=True)):
            places = [i + (n - 1) * _HEIGHT for i in range(len(parts))]
            axes.bar(places, heights, width=_HEIGHT, color=color, label=label)
        axes.set_xticks(range(len(parts)), [str(p.partition) for p in parts])
        byte_ticks(axes.yaxis, max((v for heights in told for v in heights), default=0.0))
        axes.grid(visible=False, axis="x")
        axes.set_title("Bytes by partition", loc="left", fontsize=9.5, fontweight="bold")
        return svg(figure, name)


def history_svg(lines: Sequence[Line]) -> str:
    """How far predictions were off, run by run."""
    restores = [(n, line.restore_error) for n, line in enumerate(lines) if line.tells_pace]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 2.2), layout="constrained")
        axes = figure.subplots()
        axes.axhspan(-OFF_SHARE, OFF_SHARE, color=_AFTER, alpha=0.1, lw=0)
        axes.axhline(0, color=INK, lw=0.8)
        axes.plot([line.bytes_error for line in lines], "o", color=_BEFORE, label="bytes")
        places, errors = [n for n, _ in restores], [error for _, error in restores]
        if restores:
            axes.plot(places, errors, "x", color=_PREDICTED, label="restore")
        axes.set_xticks([])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:+.0%}" if y else "0%"))
        title = "Real against predicted, the oldest first; the band is 30 %"
        axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold")
        axes.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2, borderaxespad=0)
        return svg(figure, "history")


def write_png(verified: Verified, headline: str, path: Path) -> None:
    """The same plots of every topic under one sentence, for chats and tickets."""
    shown = _largest(verified.topics)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 1.2 + _panels_inches(len(shown))), layout="constrained")
        _draw(figure, shown)
        figure.suptitle(f"Compaction run {verified.run}\n", fontsize=15, fontweight="bold")
        place = 1.0 - 0.46 / figure.get_figheight()
        figure.text(0.5, place, headline, ha="center", va="center")
        FigureCanvasAgg(figure)
        figure.savefig(path, dpi=140, facecolor="white")


def _largest(topics: Sequence[TopicResult]) -> list[TopicResult]:
    cleaned = sorted((t for t in topics if t.partitions), key=lambda t: -t.bytes_before)
    return cleaned[:_TOPICS_MAX]


def _panels_inches(topics: int) -> float:
    return len(_PANELS) * (0.75 + 0.5 * max(1, topics))


def _draw(figure: Figure, topics: Sequence[TopicResult]) -> None:
    panels = figure.subplots(len(_PANELS), 1, squeeze=False)[:, 0]
    for axes, panel in zip(panels, _PANELS, strict=True):
        _draw_panel(axes, panel, topics)
    panels[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0)
    if any(max(_SECONDS.values(topic)) < PACE_S for topic in topics):
        note = (
            f"Below {PACE_S:g} s it is mostly the opening of a store, which predictions leave out."
        )
        panels[-1].set_xlabel(note, loc="left", fontsize=8)


def _draw_panel(axes: Axes, panel: _Panel, topics: Sequence[TopicResult]) -> None:
    told = [panel.values(topic) for topic in topics]
    most = max((max(values) for values in told), default=0.0) or 1.0
    for n, (color, label) in enumerate(_SERIES):
        places = [i + (n - 1) * _HEIGHT for i in range(len(topics))]
        widths = [values[n] for values in told]
        axes.barh(places, widths, height=_HEIGHT, color=color, label=label)
        for place, width in zip(places, widths, strict=True):
            axes.text(width + most / 150, place, panel.written(width), va="center", fontsize=7.5)
    axes.set_yticks(range(len(topics)), [_short(t.topic) for t in topics])
    axes.set_ylim(max(len(topics), 1) - 0.5, -0.5)
    axes.set_xlim(0, most * 1.12)
    axes.tick_params(labelbottom=False)  # each bar says its value
    axes.grid(visible=False)
    axes.set_title(panel.title, loc="left", fontsize=9.5, fontweight="bold")


def _short(topic: str) -> str:
    """Shortens long names; they keep their end, which tells them apart."""
    return topic if len(topic) <= _NAME_MAX else f"…{topic[-_NAME_MAX:]}"
