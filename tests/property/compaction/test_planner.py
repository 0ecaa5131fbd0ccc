"""Whatever was surveyed: a plan costs nothing, endangers nothing, and is enough once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.compaction.plan.plan import Plan, TopicPlan
from holdfast.compaction.plan.planner import make_plan
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.survey.facts import (
    CleanerState,
    Estimate,
    How,
    PartitionFacts,
    RestoreFacts,
    Setting,
    Survey,
    TopicFacts,
)
from holdfast.errors import Refused
from tests.unit.compaction.surveys import TAKEN_MS, a_broker, a_survey, changelog_settings

DAY_MS = 86_400_000

shares = st.floats(0, 1)
estimated = st.sampled_from([How.COUNTED, How.SAMPLED, How.DERIVED])


def rarely(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """One of the others once in ten times."""
    return st.integers(0, 9).flatmap(
        lambda n: st.sampled_from(others) if n == 9 else st.just(usual)
    )


@st.composite
def partitions(draw: st.DrawFn, number: int) -> PartitionFacts:
    records = draw(st.integers(0, 10_000_000))
    each = draw(st.floats(20, 2_000))
    live = draw(st.integers(0, records)) // draw(st.sampled_from([1, 2, 10, 100]))
    size = round(records * each) + draw(st.integers(0, 100_000))
    rate = draw(st.sampled_from([0.0, 0.1, 10.0, 1_000.0, 100_000.0]))
    markers = draw(st.integers(0, records - live)) // draw(st.sampled_from([1, 1_000]))
    tombstones = draw(st.integers(0, records - live)) // draw(st.sampled_from([1, 10, 1_000]))

    def told(value: float, error: float = 0.0) -> Estimate:
        if draw(rarely(False, True)):
            return Estimate.unknown()
        return Estimate(value, error, draw(estimated))

    return PartitionFacts(
        partition=number,
        leader=1,
        replicas=(1, 2),
        in_sync=draw(rarely((1, 2), (1,))),
        bytes=size,
        start=0,
        end=records + markers,
        records=Estimate(records),
        live_keys=told(live, draw(st.floats(0, 0.2)) * live),
        tombstones=Estimate(tombstones),
        expired=Estimate(0),
        record_bytes=told(each),
        dirty_ratio=told(draw(shares)),
        segments=told(1),
        active_bytes=told(draw(shares) * size),
        write_records_per_s=rate,
        write_bytes_per_s=rate * each,
        rate_window_s=draw(st.sampled_from([3_600.0, 20.0])) if rate else 0.0,
        last_write_ms=TAKEN_MS - draw(st.integers(0, 10_000_000)),
        markers=told(markers),
        marker_bytes=told(draw(st.floats(50, 2_000))),
        unstable=draw(rarely(0, 5)),
    )


@st.composite
def settings(draw: st.DrawFn) -> tuple[Setting, ...]:
    return changelog_settings(
        {
            "cleanup.policy": draw(st.sampled_from(["compact", "compact,delete", "delete"])),
            "delete.retention.ms": str(draw(st.integers(0, 30 * DAY_MS))),
            "min.compaction.lag.ms": draw(st.sampled_from(["0", "0", "60000", str(DAY_MS)])),
            "min.cleanable.dirty.ratio": repr(draw(shares)),
            "segment.bytes": str(draw(st.integers(1 << 20, 1 << 30))),
            "segment.ms": str(draw(st.integers(1, 30 * DAY_MS))),
        }
        if draw(st.booleans())
        else {}
    )


@st.composite
def topics(draw: st.DrawFn, number: int) -> TopicFacts:
    count = draw(st.integers(1, 3))
    found = tuple(draw(partitions(n)) for n in range(count))
    processes, rate = draw(st.integers(1, 4)), draw(st.floats(1_000, 1_000_000))
    records = [p.records.value for p in found]
    modelled = max(sum(records) / processes, *records) / rate
    return TopicFacts(
        topic=f"app-q{number}-changelog",
        topic_id=f"id-{number}",
        application_id="app",
        query_id=f"q{number}",
        windowed=draw(st.booleans()),
        retention_ms=0,
        settings=draw(settings()),
        partitions=found,
        restore=RestoreFacts(rate, processes, draw(st.sampled_from([modelled, 0.0, modelled * 3]))),
        orphaned=draw(rarely("", "its source is gone")),
        readers=draw(rarely((), ("audit",))),
        longest_absence_ms=draw(st.integers(0, 20 * DAY_MS)),
        owner=draw(st.sampled_from(["", "kafkatopic/ns/name"])),
    )


@st.composite
def surveys(draw: st.DrawFn) -> Survey:
    state = rarely(CleanerState.RUNNING, *CleanerState)
    brokers = tuple(
        a_broker(n, cleaner=draw(state), threads=draw(st.integers(1, 4)),
                 dedupe_buffer_size=draw(st.sampled_from([1 << 20, 128 << 20])))
        for n in (1, 2)
    )  # fmt: skip
    count = draw(st.integers(1, 3))
    return a_survey(*(draw(topics(n)) for n in range(count)), brokers=brokers)


policies = st.builds(
    Policy,
    target_restore_s=st.sampled_from([0.0, 0.0, 0.0, 0.1, 5.0, 60.0]),
    disk_budget_bytes=st.sampled_from([0, 0, 0, 1, 1 << 26, 1 << 33]),
    growth_max=st.sampled_from([1.1, 4.0, 100.0]),
    topics=rarely(("*",), ("app-q1-*",)),
    min_gain=st.sampled_from([0.2, 0.0, 1.0]),
    min_gain_bytes=st.sampled_from([64 << 20, 0, 1 << 20]),
    max_store_absence_ms=st.integers(0, 10 * DAY_MS),
    allow_roll=st.booleans(),
)


def _pairs(survey: Survey, plan: Plan) -> list[tuple[TopicFacts, TopicPlan]]:
    by_name = {t.topic: t for t in survey.topics}
    assert sorted(by_name) == sorted(t.topic for t in plan.topics)
    return [(by_name[t.topic], t) for t in plan.topics]


@given(surveys(), policies)
def test_a_plan_never_raises_what_a_changelog_costs(survey: Survey, policy: Policy) -> None:
    unplanned = make_plan(survey, replace(policy, topics=("none",)))
    left_alone = {t.topic: t.steady for t in unplanned.topics}
    for topic, planned in _pairs(survey, make_plan(survey, policy)):
        assert planned.before.bytes == topic.bytes
        assert planned.after.bytes <= planned.before.bytes
        assert planned.after.restore_s <= planned.before.restore_s
        assert planned.steady.bytes <= left_alone[topic.topic].bytes
        assert planned.steady.restore_s <= left_alone[topic.topic].restore_s
        for p in planned.partitions:
            assert 0 <= p.bytes_after <= p.bytes_before
            assert 0 <= p.records_after <= p.records_before


@given(surveys(), policies)
def test_a_plan_never_lowers_what_keeps_data(survey: Survey, policy: Policy) -> None:
    for topic, planned in _pairs(survey, make_plan(survey, policy)):
        absence = max(topic.longest_absence_ms, policy.max_store_absence_ms)
        for change in (*planned.changes, *planned.temporary):
            assert change.name in {
                "cleanup.policy", "delete.retention.ms", "min.cleanable.dirty.ratio",
                "segment.bytes", "segment.ms",
            }  # fmt: skip
            if change.name == "cleanup.policy":
                assert change.after == "compact"
            if change.name == "delete.retention.ms":
                assert absence <= int(change.after or 0) < int(change.value_before)
                assert not topic.readers
        if topic.orphaned or not topic.healthy:
            assert planned.nothing


@given(surveys(), policies)
def test_what_is_temporary_can_always_be_put_back(survey: Survey, policy: Policy) -> None:
    for topic, planned in _pairs(survey, make_plan(survey, policy)):
        named = (*planned.changes, *planned.temporary)
        assert planned.precondition.topic_id == topic.topic_id
        assert planned.precondition.settings == {c.name: c.before for c in named}
        for change in named:
            found = topic.setting(change.name)
            assert found is not None
            assert change.value_before == found.value
            assert change.before == (found.value if found.source == "topic" else None)
            assert change.after not in (None, found.value)
            assert change.why.endswith(".")
        assert planned.why.endswith(".")
        assert bool(planned.patch) == bool(planned.owner and planned.changes)


def _carried_out(survey: Survey, plan: Plan) -> Survey:
    """The survey of a world in which the plan did just what it predicts."""
    pairs = {t.topic: p for t, p in _pairs(survey, plan)}
    return replace(survey, topics=tuple(_changed(t, pairs[t.topic]) for t in survey.topics))


def _changed(topic: TopicFacts, planned: TopicPlan) -> TopicFacts:
    after = {c.name: c.after for c in planned.changes}
    own = tuple(
        Setting(s.name, str(after[s.name]), "topic") if s.name in after else s
        for s in topic.settings
    )
    if not planned.temporary:
        return replace(topic, settings=own)
    sizes = {p.partition: (p.bytes_after, p.records_after) for p in planned.partitions}
    found = tuple(_cleaned(p, *sizes[p.partition], roll=planned.roll) for p in topic.partitions)
    seconds = planned.after.restore_s
    return replace(
        topic, settings=own, partitions=found, restore=replace(topic.restore, seconds=seconds)
    )


def _cleaned(p: PartitionFacts, size: int, records: int, *, roll: bool) -> PartitionFacts:
    if size == p.bytes:
        return p
    active = 0.0 if roll else min(size, p.active_bytes.value)
    return replace(
        p,
        bytes=size,
        records=Estimate(records),
        live_keys=replace(p.live_keys, value=min(p.live_keys.value, records)),
        tombstones=Estimate(min(p.tombstones.value, records)),
        dirty_ratio=Estimate(0),
        active_bytes=Estimate(active),
        markers=replace(p.markers, value=min(p.markers.value, 1)),
    )


@given(surveys(), policies)
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(survey: Survey, policy: Policy) -> None:
    plan = make_plan(survey, policy)
    assume(not plan.nothing)
    again = make_plan(_carried_out(survey, plan), policy)
    assert [(t.topic, t.changes, t.temporary) for t in again.topics if not t.nothing] == []


@given(surveys(), policies)
def test_a_plan_is_the_same_each_time_and_after_a_file(survey: Survey, policy: Policy) -> None:
    plan = make_plan(survey, policy)
    assert make_plan(survey, policy) == plan
    assert len(plan.hash) == 16


@given(surveys(), policies, st.data())
def test_no_edit_of_a_plan_file_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, survey: Survey, policy: Policy, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    plan = make_plan(survey, policy)
    path.write_bytes(plan.to_json())
    assert Plan.read(path) == plan
    edited = json.loads(path.read_bytes())
    _edit(edited, data)
    path.write_text(json.dumps(edited))
    with pytest.raises(Refused, match=r"says hash|is no plan"):
        Plan.read(path)


def _edit(document: dict[str, Any], data: st.DataObject) -> None:
    """Changes one leaf."""
    places = list(_leaves(document))
    holder, key = data.draw(st.sampled_from(places))
    old = holder[key]
    if isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, int | float):
        holder[key] = old + 1
    else:
        holder[key] = f"{old}x"


def _leaves(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from _leaves(inner)
        else:
            yield value, key


def test_the_file_of_another_plan_is_not_this_one(tmp_path: Path) -> None:
    one = make_plan(a_survey(), Policy())
    other = make_plan(a_survey(), Policy(allow_roll=False))
    assert one.hash != other.hash
