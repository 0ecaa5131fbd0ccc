"""The checkers of streams: every output record exactly once."""

from __future__ import annotations

from collections import Counter

from holdfast.judge.checkers.checking import Checker, finding, unjudged
from holdfast.judge.checkers.places import (
    dead_letters_agree,
    group_agrees,
    hanging_transactions,
    markers_agree,
    markers_go_on,
)
from holdfast.judge.evidence import StreamEvidence
from holdfast.judge.values import EXAMPLES_MAX, Key, show_key
from holdfast.judge.verdict import Finding, Verdict

__all__ = [
    "STREAM_CHECKERS",
    "duplicated_records",
    "lost_records",
    "phantom_records",
    "stream_times",
    "vacuous_stream",
]


def lost_records(stream: StreamEvidence) -> Finding:
    """Output records that are there too seldom."""
    if stream.expected is None:
        return unjudged("lost_records", stream.unjudged)
    lost = stream.expected - stream.actual
    fact = f"{lost.total()} of {stream.expected.total()} expected records are missing"
    return _differences("lost_records", stream, lost, fact)


def duplicated_records(stream: StreamEvidence) -> Finding:
    """Right records that are there too often."""
    allowed = stream.allowed
    if allowed is None:
        return unjudged("duplicated_records", stream.unjudged)
    more = stream.actual - allowed
    doubled = Counter({k: n for k, n in more.items() if k in allowed})
    fact = f"{doubled.total()} of {stream.actual.total()} records are there too often"
    return _differences("duplicated_records", stream, doubled, fact)


def phantom_records(stream: StreamEvidence) -> Finding:
    """Records that no input record makes."""
    allowed = stream.allowed
    if allowed is None:
        return unjudged("phantom_records", stream.unjudged)
    phantom = Counter({k: n for k, n in stream.actual.items() if k not in allowed})
    fact = f"{phantom.total()} of {stream.actual.total()} records come from no input record"
    return _differences("phantom_records", stream, phantom, fact)


def stream_times(stream: StreamEvidence) -> Finding:
    """Every record has the event time of an input record."""
    bad = stream.strange_times
    fact = f"{len(bad)} times of the sink's records are no input record's"
    if not bad:
        return Finding("stream_times", Verdict.VALID, fact)
    verdict = Verdict.UNKNOWN if stream.doubtful else Verdict.INVALID
    return finding("stream_times", verdict, fact, bad)


def vacuous_stream(stream: StreamEvidence) -> Finding:
    """A comparison of nothing proves nothing."""
    if stream.expected is None:
        return unjudged("vacuous_stream", stream.unjudged)
    compared = ((stream.allowed or stream.expected) & stream.actual).total()
    fact = f"{stream.input_records} input records read, {compared} records compared"
    nothing = not stream.input_records or not compared
    return Finding("vacuous_stream", Verdict.UNKNOWN if nothing else Verdict.VALID, fact)


STREAM_CHECKERS: tuple[Checker[StreamEvidence], ...] = (
    lost_records,
    duplicated_records,
    phantom_records,
    dead_letters_agree,
    stream_times,
    markers_agree,
    markers_go_on,
    group_agrees,
    hanging_transactions,
    vacuous_stream,
)


def _differences(name: str, stream: StreamEvidence, found: Counter[Key], fact: str) -> Finding:
    if not found:
        return Finding(name, Verdict.VALID, fact)
    verdict = Verdict.UNKNOWN if stream.doubtful else Verdict.INVALID
    doubt = f"; {stream.doubtful}" if stream.doubtful else ""
    examples = tuple(show_key(k) for k, _ in found.most_common(EXAMPLES_MAX))
    return Finding(name, verdict, fact + doubt, examples)
