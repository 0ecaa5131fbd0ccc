"""The content of every form of a run's report: facts, recoveries, series over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from pydantic import TypeAdapter

from holdfast.chaos.history.events import read_history
from holdfast.chaos.history.strikes import RunHistory, Sample, Strike, recovery_seconds, summarize
from holdfast.errors import Refused
from holdfast.judge.verdict import RunVerdict, Verdict
from holdfast.types.words import counted

__all__ = [
    "RecoveryStats",
    "RunSummary",
    "Series",
    "read_summary",
    "recovery_stats",
    "series",
]

_RATE_SPAN_S = 2.0  # rates are means over this long, or
_RATE_SHARE = 1 / 150  # over this share of a long run, so that there is a line to see
_GAP_S = 2.0  # samples further apart leave a gap: the broker could not be asked
_VERDICT = TypeAdapter(RunVerdict)


@dataclass(frozen=True)
class RecoveryStats:
    """Recoveries from one kind of fault; seconds."""

    kind: str
    seconds: tuple[float, ...]
    median_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True)
class Series:
    """Samples as columns of equal length; NaN where a value is unknown.

    Attributes:
        at_s: seconds since the run's first sample.
        arriving: records per second that come into the input topics.
        committed: records per second that the job processes, a mean over its queries.
        lag: input offsets not yet processed, over all queries.
        restoring: (from, to) in seconds, of stores being restored.
        silent: (from, to) in seconds, of a driver that does not answer.
    """

    at_s: Sequence[float]
    arriving: Sequence[float]
    committed: Sequence[float]
    lag: Sequence[float]
    restoring: tuple[tuple[float, float], ...]
    silent: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RunSummary:
    """One judged run.

    Attributes:
        asked: `run.json`.
        recoveries: seconds by strike, in the history's order; None: no commit was seen.
        began_s: the first sample or strike, in seconds since the epoch.
    """

    asked: Mapping[str, Any]
    verdict: RunVerdict
    history: RunHistory
    recoveries: tuple[float | None, ...]
    began_s: float

    @property
    def seconds(self) -> float:
        """From the first sample to the last."""
        samples = self.history.samples
        return samples[-1].at_s - self.began_s if samples else 0.0

    def since(self, at_s: float) -> float:
        """A moment as seconds of the run."""
        return at_s - self.began_s

    def end_of(self, strike: Strike, recovery: float | None) -> float:
        """When a fault was over, in seconds of the run."""
        if recovery is not None:
            return self.since(strike.at_s) + recovery
        end = strike.recovered_s if strike.recovered_s is not None else strike.at_s
        return self.since(end)

    def headline(self) -> str:
        """The outcome in one sentence."""
        landed = sum(s.landed for s in self.history.strikes)
        tables = len(self.verdict.job.tables)
        judged = "1 table or stream" if tables == 1 else f"{tables} tables and streams"
        what = f"{counted(landed, 'fault')}, {judged}"
        if self.verdict.verdict is Verdict.VALID:
            return f"{what}: nothing was lost, doubled or different."
        if self.verdict.job.verdict is Verdict.INVALID:
            return f"{what}: something is lost, doubled or different."
        if any(s.refusal for s in self.history.strikes):
            return f"{what}: the job has refused to go on."
        if self.verdict.job.verdict is Verdict.VALID:
            return f"{what}: every table is exact, but the run is not what was asked for."
        return f"{what}: not everything could be judged."


def read_summary(folder: Path) -> RunSummary:
    """A judged run from its folder.

    Raises:
        Refused: the run was not judged, or its files cannot be read.
    """
    try:
        asked = orjson.loads((folder / "run.json").read_bytes())
        verdict = _VERDICT.validate_json((folder / "verdict.json").read_bytes())
    except (OSError, ValueError) as error:
        raise Refused(
            f"{folder} holds no judged run: {error}.",
            cause="`holdfast chaos verify` has not ended yet, or ended with an error",
            action="run `holdfast chaos verify`, then the report again",
        ) from error
    history = summarize(read_history(folder))
    moments = [s.at_s for s in history.samples[:1]] + [s.at_s for s in history.strikes[:1]]
    return RunSummary(
        asked, verdict, history, tuple(recovery_seconds(history)), min(moments, default=0.0)
    )


def recovery_stats(recovery_s: Mapping[str, Sequence[float]]) -> list[RecoveryStats]:
    """Recoveries by kind of fault; the last entry covers all when there are several kinds."""
    kinds = dict(recovery_s)
    if len(kinds) > 1:
        kinds["all"] = [s for seconds in recovery_s.values() for s in seconds]
    return [
        RecoveryStats(
            kind,
            tuple(seconds),
            float(np.median(seconds)),
            float(np.percentile(seconds, 95)),
            max(seconds),
        )
        for kind, seconds in kinds.items()
        if seconds
    ]


def series(summary: RunSummary) -> Series:
    """The samples as columns."""
    samples = _with_gaps(summary.history.samples)
    at = np.array([summary.since(s.at_s) for s in samples])
    ends = np.array([float(s.input_end) or np.nan for s in samples])
    committed = np.array([np.nan if s.committed is None else s.committed for s in samples])
    span_s = max(_RATE_SPAN_S, summary.seconds * _RATE_SHARE)
    restoring = [bool(s.restoring) for s in samples]
    silent = [s.restoring is None for s in samples]
    return Series(
        at.tolist(),
        _rates(at, ends, span_s),
        _rates(at, committed, span_s),
        [float("nan") if s.lag is None else float(s.lag) for s in samples],
        _spans(at, restoring),
        _spans(at, silent),
    )


def _with_gaps(samples: Sequence[Sample]) -> list[Sample]:
    """The samples, with an unknown one inserted wherever sampling paused."""
    found = list(samples[:1])
    for before, sample in pairwise(samples):
        if sample.at_s - before.at_s > _GAP_S:
            nothing = Sample(before.at_s + _GAP_S / 2, 0, 0, restoring=before.restoring)
            found.append(nothing)
        found.append(sample)
    return found


def _rates(at: Any, totals: Any, span_s: float) -> list[float]:
    """Growth per second over the last `span_s`; NaN where the total is not known."""
    known = ~np.isnan(totals)
    if known.sum() < 2:
        return [float("nan")] * len(at)
    first = at[known][0]
    growing = np.maximum.accumulate(totals[known])
    now, before = (np.interp(at - back, at[known], growing) for back in (0.0, span_s))
    rates = (now - before) / np.clip(at - first, 1e-9, span_s)
    rates[~known | (at - first < span_s / 2)] = np.nan
    found: list[float] = rates.tolist()
    return found


def _spans(at: Any, flags: Sequence[bool]) -> tuple[tuple[float, float], ...]:
    """The spans in which the flags are set, each up to the sample after its last one."""
    spans: list[tuple[float, float]] = []
    start: float | None = None
    for moment, flag in zip(at.tolist(), flags, strict=True):
        if flag and start is None:
            start = moment
        elif not flag and start is not None:
            spans.append((start, moment))
            start = None
    if start is not None:
        spans.append((start, float(at[-1])))
    return tuple(spans)
