"""A survey as a table: one line per topic, and its anomalies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from holdfast.compaction.fitting import FittingTable
from holdfast.compaction.survey.facts import (
    CleanerState,
    Estimate,
    How,
    PartitionFacts,
    RestoreFacts,
    Survey,
    TopicFacts,
)
from holdfast.types.words import human_bytes, human_seconds

__all__ = ["summed", "survey_view"]

_HEADS = ("changelog", "*bytes", "*records", "*live keys", "*tombstones", "*dirty", "*segments",
          "*written", "*restore")  # fmt: skip
_WORTH_SAYING = 0.01  # an error below 1 % of its number is not shown
_NAMED_MAX = 3  # topics in one note
_BAD = (CleanerState.DEAD, CleanerState.OFF)


def survey_view(survey: Survey) -> RenderableType:
    """Tables, then notes: on topics, brokers, and unknown facts."""
    table = FittingTable(_HEADS, [_row(topic) for topic in survey.topics])
    lines = _gathered([(t.topic, note) for t in survey.topics for note in _oddities(t)])
    lines += [_broker(survey, n) for n in range(len(survey.brokers))]
    lines += _gathered([_of_topic(note) for note in survey.notes])
    lines.append(_effort(survey))
    return Group(table, *(Text(line) for line in lines)) if survey.topics else Group(*lines)


def _of_topic(note: str) -> tuple[str, str]:
    topic, colon, rest = note.partition(": ")
    return (topic, rest) if colon and " " not in topic else ("", note)


def _gathered(notes: Iterable[tuple[str, str]]) -> list[str]:
    """A line per note; a note on several topics is shown once, with the first of them."""
    topics: dict[str, list[str]] = {}
    for topic, note in notes:
        topics.setdefault(note, []).append(topic)
    return [f"{_named(of)}{note}" for note, of in topics.items()]


def _named(topics: Sequence[str]) -> str:
    shown = ", ".join(filter(None, topics[:_NAMED_MAX]))
    more = f" and {len(topics) - _NAMED_MAX} more" if len(topics) > _NAMED_MAX else ""
    return f"{shown}{more}: " if shown else ""


def summed(estimates: Iterable[Estimate]) -> Estimate:
    """The sum of all estimates, with independent errors; unknown if one of them is."""
    parts = list(estimates)
    if any(not part.known for part in parts):
        return Estimate.unknown()
    worst = max((part.how for part in parts), key=list(How).index, default=How.COUNTED)
    error = math.sqrt(sum(part.error**2 for part in parts))
    return Estimate(sum(part.value for part in parts), error, worst)


def _row(topic: TopicFacts) -> Sequence[str]:
    parts = topic.partitions
    live = summed(p.live_keys for p in parts)
    share = f" ({topic.live_keys / topic.records:.0%})" if live.known and topic.records else ""
    return (
        topic.topic,
        human_bytes(topic.bytes),
        _count(summed(p.records for p in parts)),
        _count(live) + share,
        _count(summed(p.tombstones for p in parts)),
        _dirty(parts),
        _count(summed(p.segments for p in parts)),
        f"{sum(p.write_records_per_s for p in parts):,.1f}/s",
        _restore(topic.restore),
    )


def _restore(restore: RestoreFacts) -> str:
    if restore.how is How.UNKNOWN:
        return "?"
    shown = human_seconds(restore.seconds)
    return shown if restore.how is How.COUNTED or shown.startswith("<") else f"~{shown}"


def _count(number: Estimate) -> str:
    """`1,200` counted, `~1,200 ±5%` sampled, `?` unknown."""
    if not number.known:
        return "?"
    mark = "" if number.how is How.COUNTED else "~"
    rough = number.error > _WORTH_SAYING * number.value
    if number.value < 0.5:
        return f"<{number.error:,.0f}" if number.error >= 1 else "0"
    error = f" ±{number.error / number.value:.0%}" if rough else ""
    return f"{mark}{number.value:,.0f}{error}"


def _dirty(parts: Sequence[PartitionFacts]) -> str:
    """The dirty share of all bytes outside of active segments."""
    closed = {p: max(0.0, p.bytes - p.active_bytes.value) for p in parts if p.dirty_ratio.known}
    if not closed:
        return "?"
    every = sum(closed.values())
    ratio = sum(p.dirty_ratio.value * size for p, size in closed.items()) / every if every else 0.0
    mark = "" if all(p.dirty_ratio.how is How.COUNTED for p in closed) else "~"
    return f"{mark}{ratio:.0%}"


def _oddities(topic: TopicFacts) -> list[str]:
    found = []
    if topic.orphaned:
        found.append(f"orphaned: {topic.orphaned}")
    found += [f"partition {p.partition} {why}" for p in topic.partitions if (why := _unwell(p))]
    expired = summed(p.expired for p in topic.partitions)
    if expired.known and expired.value:
        found.append(f"{_count(expired)} records of windows past retention are still kept")
    policy = topic.setting("cleanup.policy")
    if policy is not None and policy.value != "compact":
        found.append(f"cleanup.policy is {policy.value}, which deletes commit markers by time")
    if topic.readers:
        found.append(f"also read by consumer groups {', '.join(topic.readers)}")
    active = sum(p.active_bytes.value for p in topic.partitions)
    if topic.bytes and active / topic.bytes > 0.5:
        found.append(f"{active / topic.bytes:.0%} of it are active segments: no cleaner goes there")
    return found


def _unwell(partition: PartitionFacts) -> str:
    if partition.leader < 0:
        return "has no leader"
    behind = sorted(set(partition.replicas) - set(partition.in_sync))
    return f"is not in sync on broker {', '.join(map(str, behind))}" if behind else ""


def _broker(survey: Survey, number: int) -> str:
    broker = survey.brokers[number]
    free = f", {human_bytes(broker.free_bytes)} free" if broker.free_bytes >= 0 else ""
    loud = "NOT WORKING: " if broker.cleaner in _BAD else ""
    why = f" ({broker.evidence})" if broker.evidence else ""
    told = f"{loud}{broker.cleaner.value}{why}"
    return f"broker {broker.broker}: log cleaner {told}{free}"


def _effort(survey: Survey) -> str:
    many = "" if len(survey.topics) == 1 else "s"
    return (
        f"{len(survey.topics)} changelog{many}, {survey.records_read:,} records read "
        f"in {human_seconds(survey.seconds)}"
    )
