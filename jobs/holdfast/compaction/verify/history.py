"""The predictions and outcomes of all runs: one line of JSON per topic and run.

The file is only ever appended to.  A run that is verified again appends again; a topic's last line
of a run counts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter, ValidationError

from holdfast.compaction.verify.verified import PACE_S, TopicResult, Verified

__all__ = ["Judgement", "Line", "append", "judge", "read_history"]


@dataclass(frozen=True)
class Line:
    """One prediction and its outcome; seconds are for a restore of the whole topic."""

    run: str
    plan_hash: str
    at_ms: int
    topic: str
    bytes_before: int
    bytes_predicted: int
    bytes_real: int
    records_predicted: int
    records_real: int
    restore_predicted_s: float
    restore_real_s: float

    @property
    def bytes_error(self) -> float:
        """Real against predicted, relative: 0.1 is a tenth more than predicted."""
        return _error(self.bytes_predicted, self.bytes_real)

    @property
    def records_error(self) -> float:
        return _error(self.records_predicted, self.records_real)

    @property
    def tells_pace(self) -> bool:
        """Whether the restore was long enough to measure a rate."""
        return max(self.restore_predicted_s, self.restore_real_s) >= PACE_S

    @property
    def restore_error(self) -> float:
        return _error(self.restore_predicted_s, self.restore_real_s)


@dataclass(frozen=True)
class Judgement:
    """The accuracy of past predictions: medians of the absolute relative errors, None without any.

    Restores of a few seconds are left out: opening a store takes about as long.
    """

    topics: int
    bytes: float | None
    records: float | None
    restore: float | None


_ADAPTER = TypeAdapter(Line)


def append(file: Path, verified: Verified) -> None:
    """Adds a line for every topic that was cleaned; the lines are on disk when this returns."""
    lines = [_ADAPTER.dump_json(_line(verified, t)) for t in verified.topics if t.partitions]
    if not lines:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        out.write(b"".join(line + b"\n" for line in lines))
        out.flush()
        os.fsync(out.fileno())


def read_history(file: Path) -> list[Line]:
    """Every verified prediction, the oldest first; unreadable lines are skipped."""
    try:
        texts = file.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found: dict[tuple[str, str], Line] = {}
    for text in texts:
        try:
            line = _ADAPTER.validate_json(text)
        except ValidationError:
            continue  # torn by a full disk, or written by another version
        found.pop((line.run, line.topic), None)
        found[line.run, line.topic] = line
    return list(found.values())


def judge(lines: Sequence[Line]) -> Judgement:
    """The accuracy of the predictions in these lines."""
    return Judgement(
        len(lines),
        _typical([line.bytes_error for line in lines]),
        _typical([line.records_error for line in lines]),
        _typical([line.restore_error for line in lines if line.tells_pace]),
    )


def _typical(errors: Sequence[float]) -> float | None:
    return median(map(abs, errors)) if errors else None


def _line(verified: Verified, topic: TopicResult) -> Line:
    return Line(
        run=verified.run,
        plan_hash=verified.plan_hash,
        at_ms=verified.taken_ms,
        topic=topic.topic,
        bytes_before=topic.bytes_before,
        bytes_predicted=topic.bytes_predicted,
        bytes_real=topic.bytes_real,
        records_predicted=topic.records_predicted,
        records_real=topic.records_real,
        restore_predicted_s=topic.restore_predicted_s,
        restore_real_s=topic.restore_real_s,
    )


def _error(predicted: float, real: float) -> float:
    return (real - predicted) / predicted if predicted > 0 else 0.0
