"""Was it worth it?  A second survey against the first one and the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.compaction.apply.applied import Applied, AppliedTopic, Outcome
from holdfast.compaction.apply.preconditions import final_value
from holdfast.compaction.apply.scratch import RestoreSample, sample_restore
from holdfast.compaction.plan.plan import PartitionPrediction, Plan, TopicPlan
from holdfast.compaction.survey.facts import PartitionFacts, Survey, TopicFacts
from holdfast.compaction.verify.verified import OFF_SHARE, PartitionResult, TopicResult, Verified
from holdfast.errors import Refused, VolumeFull
from holdfast.types.words import human_bytes, human_seconds

__all__ = ["compare", "restores_again"]

# Smaller differences are noise, whatever their share: batch headers, a machine's load.
_BYTES_MIN, _RECORDS_MIN, _SECONDS_MIN = 64 << 10, 1_000, 5.0
_PERCENT_MAX = 10.0  # beyond it a percentage tells nobody anything


def restores_again(
    client: Mapping[str, str],
    survey: Survey,
    applied: Applied,
    folder: Path,
    tell: Callable[[str], None],
) -> dict[str, RestoreSample]:
    """Measures the earlier restores again, by topic; leaves out topics where that is not possible.

    Args:
        survey: taken after the apply.

    Raises:
        KafkaUnavailable: no broker answered.
    """
    found = {}
    for done in applied.topics:
        topic = survey.topic(done.topic)
        if topic is not None and done.restore is not None:
            with suppress(VolumeFull, Refused):
                found[done.topic] = sample_restore(
                    client, topic, done.restore.partition, folder, tell
                )
    return found


def compare(
    plan: Plan,
    before: Survey,
    after: Survey,
    applied: Applied,
    samples: Mapping[str, RestoreSample],
) -> Verified:
    """Predicted against real, for every topic that the plan changes.

    Raises:
        Refused: the plan was not applied.
    """
    if applied.plan_hash != plan.hash:
        raise Refused(
            f"Run {plan.run} has plan {plan.hash}, applied was {applied.plan_hash}.",
            cause="the plan was made again after the apply",
            action="apply the new plan, then verify",
        )
    topics = tuple(
        _topic(planned, before, after, applied.topic(planned.topic), samples.get(planned.topic))
        for planned in plan.topics
        if not planned.nothing
    )
    cut = f"The apply was cut off: {applied.cut_off}"
    warnings = (cut,) if applied.cut_off else ()
    return Verified(plan.run, plan.hash, plan.cluster_id, after.taken_ms, topics, warnings)


def _topic(
    planned: TopicPlan,
    before: Survey,
    after: Survey,
    done: AppliedTopic | None,
    sample: RestoreSample | None,
) -> TopicResult:
    was, now = before.topic(planned.topic), after.topic(planned.topic)
    if was is None or now is None or done is None:
        why = "it was not reached by the apply" if done is None else done.note or "it is gone"
        outcome = Outcome.FAILED if done is None else done.outcome
        return TopicResult(planned.topic, outcome.value, warnings=(f"Not verified: {why}.",))
    cleaned = done.outcome is Outcome.CLEANED
    result = TopicResult(
        planned.topic,
        done.outcome.value,
        _partitions(planned, was, now, done, sample) if cleaned else (),
        restore_predicted_s=planned.after.restore_s,
        sample_before=done.restore,
        sample_after=sample,
        settings=_settings(planned, was, now),
    )
    result = replace(
        result,
        restore_before_s=_whole_s(done.restore, result.records_before, was),
        restore_real_s=_whole_s(sample, result.records_real, now),
    )
    return _with_warnings(result, planned, now, done)


def _whole_s(sample: RestoreSample | None, records: int, topic: TopicFacts) -> float:
    """Seconds of a restore of the whole topic, at the measured rate, else at the survey's."""
    if sample is None or sample.records == 0:
        return topic.restore.seconds
    return sample.seconds * records / sample.records / max(1, topic.restore.processes)


def _partitions(
    planned: TopicPlan,
    was: TopicFacts,
    now: TopicFacts,
    done: AppliedTopic,
    sample: RestoreSample | None,
) -> tuple[PartitionResult, ...]:
    earlier = {p.partition: p for p in was.partitions}
    later = {p.partition: p for p in now.partitions}
    counted = _counter(sample, later)
    return tuple(
        _partition(p, earlier[p.partition], later[p.partition], done, counted)
        for p in sorted(planned.partitions, key=lambda p: p.partition)
        if p.partition in earlier and p.partition in later
    )


def _counter(
    sample: RestoreSample | None, later: Mapping[int, PartitionFacts]
) -> Callable[[PartitionFacts], int]:
    """Counts a partition's records by its bytes: the restore counted one partition exactly.

    After a cleaning records lie unevenly over the offsets, and a survey's sample says little.
    """
    one = later.get(sample.partition) if sample is not None else None
    if sample is None or one is None or one.bytes == 0:
        return lambda partition: round(partition.records.value)
    per_byte = sample.records / one.bytes
    return lambda partition: round(partition.bytes * per_byte)


def _partition(
    planned: PartitionPrediction,
    was: PartitionFacts,
    now: PartitionFacts,
    done: AppliedTopic,
    counted: Callable[[PartitionFacts], int],
) -> PartitionResult:
    began = (done.ends_before or {}).get(planned.partition, was.end)
    rolled = 2 if planned.partition in done.rolled else 0  # the record and its abort marker
    grown = max(0, now.end - began - rolled)
    return PartitionResult(
        partition=planned.partition,
        bytes_before=planned.bytes_before,
        bytes_predicted=planned.bytes_after,
        bytes_real=now.bytes,
        records_before=planned.records_before,
        records_predicted=planned.records_after,
        records_real=counted(now),
        grown_records=grown,
        grown_bytes=round(grown * was.record_bytes.value),
    )


def _settings(
    planned: TopicPlan, was: TopicFacts, now: TopicFacts
) -> tuple[tuple[str, str | None, str | None], ...]:
    names = dict.fromkeys(c.name for c in (*planned.changes, *planned.temporary))
    return tuple((name, _own(was, name), _own(now, name)) for name in names)


def _own(topic: TopicFacts, name: str) -> str | None:
    found = topic.setting(name)
    return found.value if found is not None and found.source == "topic" else None


def _with_warnings(
    result: TopicResult, planned: TopicPlan, now: TopicFacts, done: AppliedTopic
) -> TopicResult:
    warnings = [done.note] if done.note else []
    for name in dict.fromkeys(c.name for c in (*planned.changes, *planned.temporary)):
        wanted, found = final_value(planned, name), _own(now, name)
        if wanted != found:
            warnings.append(f"{name} is {found}, the plan leaves it at {wanted}.")
    if result.partitions:
        warnings += _off(human_bytes, result.bytes_predicted, result.bytes_real, _BYTES_MIN)
        warnings += _off(_records, result.records_predicted, result.records_real, _RECORDS_MIN)
        seconds = (result.restore_predicted_s, result.restore_real_s)
        warnings += _off(_restore, *seconds, _SECONDS_MIN)
    return replace(result, warnings=tuple(warnings))


def _records(count: float) -> str:
    return f"{count:,.0f} records"


def _restore(seconds: float) -> str:
    return f"a restore of {human_seconds(seconds)}"


def _off(written: Callable[[float], str], predicted: float, real: float, least: float) -> list[str]:
    """A sentence when a prediction is off by more than `OFF_SHARE` and by more than `least`."""
    off = (real - predicted) / predicted if predicted > 0 else 0.0
    if abs(off) <= OFF_SHARE or abs(real - predicted) <= least:
        return []
    much = f"{off:+.0%}" if off < _PERCENT_MAX else f"{1 + off:,.0f} times as much"
    told = f"{written(predicted)} predicted, {written(real)} found"
    return [f"{much} against the prediction: {told}."]
