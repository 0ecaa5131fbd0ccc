"""Was it worth it?  A second survey against the first one and the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from holdfast.compaction.applied import Applied, AppliedTopic, Outcome
from holdfast.compaction.facts import PartitionFacts, Survey, TopicFacts
from holdfast.compaction.plan import PartitionPrediction, Plan, TopicPlan
from holdfast.compaction.preconditions import final_value
from holdfast.compaction.scratch import RestoreSample, sample_restore
from holdfast.compaction.verified import OFF_SHARE, PartitionResult, TopicResult, Verified
from holdfast.errors import Refused

__all__ = ["compare", "restores_again"]


def restores_again(
    client: Mapping[str, str],
    survey: Survey,
    applied: Applied,
    folder: Path,
    tell: Callable[[str], None],
) -> dict[str, RestoreSample]:
    """Measures the restores of before once more, by topic.

    Args:
        survey: taken after the apply.

    Raises:
        Refused, KafkaUnavailable, VolumeFull: see `sample_restore`.
    """
    found = {}
    for done in applied.topics:
        topic = survey.topic(done.topic)
        if topic is not None and done.restore is not None:
            partition = done.restore.partition
            found[done.topic] = sample_restore(client, topic, partition, folder, tell)
    return found


def compare(
    plan: Plan,
    before: Survey,
    after: Survey,
    applied: Applied,
    samples: Mapping[str, RestoreSample],
) -> Verified:
    """Predicted against real, for every topic the plan does something to.

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
    result = TopicResult(
        planned.topic,
        done.outcome.value,
        _partitions(planned, was, now, done) if done.outcome is Outcome.CLEANED else (),
        was.restore.seconds,
        planned.after.restore_s,
        now.restore.seconds,
        done.restore,
        sample,
        _settings(planned, was, now),
    )
    return _with_warnings(result, planned, now, done)


def _partitions(
    planned: TopicPlan, was: TopicFacts, now: TopicFacts, done: AppliedTopic
) -> tuple[PartitionResult, ...]:
    earlier = {p.partition: p for p in was.partitions}
    later = {p.partition: p for p in now.partitions}
    return tuple(
        _partition(p, earlier[p.partition], later[p.partition], done)
        for p in planned.partitions
        if p.partition in earlier and p.partition in later
    )


def _partition(
    planned: PartitionPrediction, was: PartitionFacts, now: PartitionFacts, done: AppliedTopic
) -> PartitionResult:
    began = (done.ends_before or {}).get(planned.partition, was.end)
    rolled = 2 if planned.partition in done.rolled else 0  # the record and its transaction's end
    grown = max(0, now.end - began - rolled)
    return PartitionResult(
        partition=planned.partition,
        bytes_before=planned.bytes_before,
        bytes_predicted=planned.bytes_after,
        bytes_real=now.bytes,
        records_before=planned.records_before,
        records_predicted=planned.records_after,
        records_real=round(now.records.value),
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
        warnings += _off("bytes", result.bytes_predicted, result.bytes_real)
        warnings += _off("records", result.records_predicted, result.records_real)
        warnings += _off("restore seconds", result.restore_predicted_s, result.restore_real_s)
    return replace(result, warnings=tuple(warnings))


def _off(what: str, predicted: float, real: float) -> list[str]:
    """A sentence when a prediction was off by more than `OFF_SHARE`."""
    off = (real - predicted) / predicted if predicted > 0 else 0.0
    if abs(off) <= OFF_SHARE:
        return []
    return [f"{off:+.0%} against the prediction: {predicted:,.0f} {what} predicted, {real:,.0f}."]
