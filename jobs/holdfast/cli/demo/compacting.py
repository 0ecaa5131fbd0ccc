"""The gain of compacting the demo's changelogs, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.compaction.plan.plan import Plan
from holdfast.compaction.runs import PLAN, REPORT_PAGE, VERIFIED, newest_run, run_folder
from holdfast.compaction.verify.verified import TopicResult, Verified
from holdfast.types.words import human_bytes

__all__ = ["nothing_planned", "what_was_won"]


def nothing_planned(home: Path) -> bool:
    """Whether the plan of the newest run is empty.

    Raises:
        Refused: there is no plan.
    """
    return Plan.read(_folder(home) / PLAN).nothing


def what_was_won(home: Path) -> Iterator[str]:
    """Lines for people about the newest run.

    Raises:
        Refused: it has no plan, or its plan was not verified.
    """
    if nothing_planned(home):
        yield "no changelog is worth a cleaning: they are small, or hold little but live rows"
        return
    verified = Verified.read(_folder(home) / VERIFIED)
    for topic in verified.topics:
        if topic.partitions:
            yield from _won(topic)
    yield from verified.all_warnings
    yield f"report: {_folder(home) / REPORT_PAGE}"


def _won(topic: TopicResult) -> Iterator[str]:
    size = f"{human_bytes(topic.bytes_before)} → {human_bytes(topic.bytes_real)}"
    records = f"{topic.records_before:,} → {topic.records_real:,} records"
    yield f"{topic.topic}: {size}, a restore replays {records}"


def _folder(home: Path) -> Path:
    return run_folder(home, newest_run(home))
