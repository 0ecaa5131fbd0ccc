"""The survey's plot: the kinds of records in each changelog, and how long a restore takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from holdfast.compaction.survey.facts import Survey, TopicFacts
from holdfast.pages.plots import STYLE, byte_ticks, second_ticks
from holdfast.types.words import human_bytes, human_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_survey_plot"]

_TOPICS_MAX = 20  # the largest; the table shows all
_NAME_MAX = 46


@dataclass(frozen=True)
class _Part:
    """One color of a bar: its kind of records, and the bytes of a topic that they take."""

    label: str
    color: str
    bytes: Callable[[TopicFacts], float]


def _bytes(topic: TopicFacts, records: Callable[[TopicFacts], float]) -> float:
    return topic.bytes * min(1.0, records(topic) / topic.records) if topic.records else 0.0


def _superseded(topic: TopicFacts) -> float:
    known = topic.live_keys + _tombstones(topic) + _expired(topic)
    return max(0.0, topic.records - known) if _known(topic) else 0.0


def _tombstones(topic: TopicFacts) -> float:
    return sum(p.tombstones.value for p in topic.partitions)


def _expired(topic: TopicFacts) -> float:
    return sum(p.expired.value for p in topic.partitions)


def _known(topic: TopicFacts) -> bool:
    return all(p.live_keys.known for p in topic.partitions)


def _unknown(topic: TopicFacts) -> float:
    if not topic.records:
        return float(topic.bytes)
    told = sum(part.bytes(topic) for part in _PARTS[:-1])
    return max(0.0, topic.bytes - told) if not _known(topic) else 0.0


_PARTS = (
    _Part("live", "#2b9a66", lambda t: _bytes(t, lambda x: x.live_keys)),
    _Part("superseded", "#8b98a9", lambda t: _bytes(t, _superseded)),
    _Part("tombstones", "#d05c79", lambda t: _bytes(t, _tombstones)),
    _Part("of expired windows", "#c2a21d", lambda t: _bytes(t, _expired)),
    _Part("not known", "#d5dae1", _unknown),
)


def write_survey_plot(survey: Survey, path: Path) -> None:
    """One PNG: a bar per topic, the largest on top; bytes are shared out by records."""
    shown = sorted(survey.topics, key=lambda t: t.bytes)[-_TOPICS_MAX:]
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(wspace=0.05)
        figure = Figure(figsize=(11, 1.8 + 0.42 * len(shown)), layout=layout)
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=[2.2, 1])
        _draw_bytes(left, shown)
        _draw_restore(right, shown)
        left.set_yticks(range(len(shown)), [_short(t.topic) for t in shown])
        figure.suptitle(f"Changelogs, survey {survey.run}", fontsize=13, fontweight="bold")
        if shown:
            figure.legend(loc="outside lower center", ncols=len(_PARTS))
        else:
            left.text(0.5, 0.5, "no changelogs", ha="center", transform=left.transAxes)
        FigureCanvasAgg(figure)
        figure.savefig(path, dpi=140, facecolor="white")


def _draw_bytes(axes: Axes, topics: Sequence[TopicFacts]) -> None:
    left = [0.0] * len(topics)
    for part in _PARTS:
        widths = [part.bytes(topic) for topic in topics]
        if any(widths):
            axes.barh(range(len(topics)), widths, left=left, color=part.color, label=part.label)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for n, topic in enumerate(topics):
        axes.annotate(f" {human_bytes(topic.bytes)}", (left[n], n), va="center")
    most = 1.14 * max(left, default=0.0) or 1.0
    axes.set_xlim(0, most)
    byte_ticks(axes.xaxis, most)
    _titled(axes, "Bytes of one replica")


def _draw_restore(axes: Axes, topics: Sequence[TopicFacts]) -> None:
    seconds = [t.restore.seconds for t in topics]
    axes.barh(range(len(topics)), seconds, color="#3d82d6")
    for n, each in enumerate(seconds):
        axes.annotate(f" {human_seconds(each)}", (each, n), va="center")
    most = 1.4 * max(seconds, default=0.0) or 1.0
    axes.set_xlim(0, most)
    second_ticks(axes.xaxis, most)
    _titled(axes, "Restore of the whole table")


def _titled(axes: Axes, title: str) -> None:
    axes.grid(visible=False, axis="y")
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold")


def _short(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"…{name[1 - _NAME_MAX :]}"
