"""Each rule of the planner, on a survey made for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.compaction.plan.plan import Plan, TopicPlan
from holdfast.compaction.plan.planner import make_plan
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.survey.facts import CleanerState, Estimate, How, Survey, TopicFacts
from tests.unit.compaction.surveys import (
    MIB,
    TAKEN_MS,
    a_broker,
    a_partition,
    a_survey,
    a_topic,
    own_settings,
)

DAY_MS = 86_400_000


def _planned(topic: TopicFacts, policy: Policy | None = None, **broker: Any) -> TopicPlan:
    survey = a_survey(topic, brokers=(a_broker(**broker),) if broker else ())
    (planned,) = make_plan(survey, policy or Policy()).topics
    return planned


def _busy(**facts: Any) -> TopicFacts:
    """A table of 12,500 keys a partition that writes 6 kB/s into each of four."""
    rate = {"write_bytes_per_s": 6_000, "write_records_per_s": 100, "rate_window_s": 3_600}
    return a_topic(**{**rate, **facts})


def _settings(planned: TopicPlan) -> dict[str, str | None]:
    return {change.name: change.after for change in planned.changes}


def _temporary(planned: TopicPlan) -> dict[str, tuple[str | None, str | None]]:
    return {change.name: (change.before, change.after) for change in planned.temporary}


# -- cleaning ---------------------------------------------------------------------------------


def test_a_changelog_of_superseded_rows_is_cleaned_once() -> None:
    planned = _planned(a_topic())
    assert planned.roll
    assert _temporary(planned) == {
        "segment.ms": (None, "10000"),
        "min.cleanable.dirty.ratio": (None, "0.0"),
    }
    assert not planned.changes
    assert planned.before.bytes == 120_000_000
    assert planned.after.bytes == pytest.approx(4 * 12_500 * 60, rel=0.02)
    assert planned.after.restore_s == pytest.approx(5 / 40, rel=0.02)
    assert planned.why.startswith("111.5 MiB of 114.4 MiB are superseded or removed rows")
    assert planned.cleaner_read_bytes == 240_000_000
    assert planned.cleaner_s == pytest.approx(
        (planned.cleaner_read_bytes + planned.cleaner_write_bytes) / (20 * MIB), abs=0.1
    )


def test_closed_segments_need_no_roll() -> None:
    planned = _planned(a_topic(active_bytes=10_000))
    assert not planned.roll
    assert list(_temporary(planned)) == ["min.cleanable.dirty.ratio"]


def test_a_roll_may_be_forbidden() -> None:
    planned = _planned(a_topic(), Policy(allow_roll=False))
    assert planned.nothing
    assert "would win 0 B" in planned.why


def test_the_topics_own_temporary_settings_go_back_to_what_they_were() -> None:
    settings = own_settings(segment_ms="3600000", min_cleanable_dirty_ratio="0.3")
    planned = _planned(a_topic(settings=settings))
    assert _temporary(planned) == {
        "segment.ms": ("3600000", "10000"),
        "min.cleanable.dirty.ratio": ("0.3", "0.0"),
    }
    assert planned.precondition.settings == {
        "segment.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.3",
    }


def test_what_is_clean_is_left_alone_and_that_is_said() -> None:
    planned = _planned(a_topic(dirty_ratio=0, active_bytes=0))
    assert planned.nothing
    assert planned.why == "A cleaning would win 0 B (0%), which is not worth it."
    assert planned.before == planned.after == planned.steady


def test_where_the_cleaner_comes_by_itself_nothing_is_done() -> None:
    settings = own_settings(min_cleanable_dirty_ratio="0.0")
    planned = _planned(a_topic(active_bytes=0, settings=settings))
    assert planned.nothing
    assert "the cleaner comes for them by itself" in planned.why


def test_without_live_keys_nothing_is_promised() -> None:
    planned = _planned(a_topic(live_keys=Estimate.unknown()))
    assert planned.nothing
    assert "How many keys live is not known" in planned.why


def test_a_sample_has_to_be_worth_it_at_its_worst() -> None:
    unsure = Estimate(400_000, 100_000, How.SAMPLED)
    planned = _planned(a_topic(live_keys=unsure))
    assert planned.nothing
    assert planned.why.endswith("(20%, 0 B for sure), which is not worth it.")
    surer = Estimate(300_000, 10_000, How.SAMPLED)
    risks = _planned(a_topic(live_keys=surer)).risks
    assert any("Live keys are an estimate, 1,200,000 ± 40,000" in risk for risk in risks)


# -- what is left alone -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        (a_topic(orphaned="its source topic in is gone"), "Orphaned: its source topic in is gone"),
        (a_topic(leader=-1), "Partition 0, 1, 2, 3 has no leader"),
        (a_topic(replicas=(1, 2, 3)), "is not in sync on broker 2, 3"),
        (a_topic(partitions=()), "It has no partitions"),
        (
            a_topic(unstable=7, last_write_ms=TAKEN_MS - 3_600_000),
            "Partition 0 holds a transaction that nobody ends",
        ),
    ],
)
def test_what_is_not_well_is_left_alone(topic: TopicFacts, why: str) -> None:
    planned = _planned(topic)
    assert planned.nothing
    assert why in planned.why
    assert planned.before == planned.after


def test_a_running_jobs_open_transaction_is_no_obstacle() -> None:
    assert not _planned(a_topic(unstable=7)).nothing


@pytest.mark.parametrize("state", [CleanerState.DEAD, CleanerState.OFF])
def test_without_a_cleaner_nothing_is_cleaned_and_the_broker_is_named(state: CleanerState) -> None:
    broker = a_broker(1, cleaner=state, evidence="its log says so")
    plan = make_plan(a_survey(a_topic(), brokers=(broker,)), Policy())
    assert plan.nothing
    told = f"The log cleaner of broker 1 is {state} (its log says so)"
    assert plan.topics[0].why.startswith(told)
    assert len(plan.advice) == 1
    assert "1 of 1 changelogs there only grow" in plan.advice[0]


def test_only_the_changelog_that_the_cleaner_gave_up_is_left_alone() -> None:
    broker = a_broker(1, cleaner=CleanerState.DEAD, evidence="it gave up bad-0", given_up=("bad",))
    plan = make_plan(a_survey(a_topic("bad"), a_topic("good"), brokers=(broker,)), Policy())
    assert {t.topic: t.nothing for t in plan.topics} == {"bad": True, "good": False}
    assert "has given this changelog up (it gave up bad-0)" in plan.topics[1].why
    assert "1 of 2 changelogs there only grow" in plan.advice[0]


def test_a_cleaner_elsewhere_does_not_matter() -> None:
    brokers = (a_broker(1), a_broker(2, cleaner=CleanerState.DEAD))
    assert not make_plan(a_survey(a_topic(), brokers=brokers), Policy()).nothing


def test_a_cleaner_nobody_can_see_is_no_obstacle_but_is_said() -> None:
    unseen = a_broker(cleaner=CleanerState.UNKNOWN)
    plan = make_plan(a_survey(a_topic(), brokers=(unseen,)), Policy())
    assert not plan.nothing
    assert any("broker 1 runs cannot be seen from here" in advice for advice in plan.advice)


def test_what_the_policy_leaves_out_is_left_alone() -> None:
    planned = _planned(a_topic(), Policy(topics=("movies-*",)))
    assert planned.nothing
    assert planned.why == "Left out: the policy's topics are movies-*."


# -- settings that stay -----------------------------------------------------------------------


@pytest.mark.parametrize("found", ["compact,delete", "delete"])
def test_a_changelog_is_only_compacted(found: str) -> None:
    planned = _planned(a_topic(dirty_ratio=0, active_bytes=0,
                               settings=own_settings(cleanup_policy=found)))  # fmt: skip
    assert _settings(planned) == {"cleanup.policy": "compact"}
    assert "deletes commit markers" in planned.changes[0].why
    assert not planned.temporary
    assert planned.why.startswith("Only settings change.")
    assert planned.precondition.settings == {"cleanup.policy": found}


def test_large_segments_of_a_small_busy_table_become_smaller() -> None:
    planned = _planned(_busy())
    assert list(_settings(planned)) == ["segment.bytes"]
    assert int(planned.changes[0].after or 0) < 64 * MIB
    assert planned.steady.bytes <= 64 * MIB
    assert "instead of 261.8 MiB" in planned.changes[0].why


def test_a_table_that_nobody_writes_to_keeps_its_settings() -> None:
    assert not _planned(a_topic()).changes


def test_a_ratio_that_never_lets_the_cleaner_come_is_lowered() -> None:
    settings = own_settings(min_cleanable_dirty_ratio="0.95", segment_bytes=str(MIB))
    planned = _planned(_busy(settings=settings, bytes=600_000_000, live_keys=400_000,
                             active_bytes=MIB))  # fmt: skip
    assert list(_settings(planned)) == ["min.cleanable.dirty.ratio"]
    assert float(planned.changes[0].after or 0) == 0.5
    assert planned.changes[0].before == "0.95"


def test_tombstones_that_nobody_needs_may_go_sooner() -> None:
    settings = own_settings(delete_retention_ms=str(30 * DAY_MS))
    topic = a_topic(tombstones=100_000, settings=settings, longest_absence_ms=2 * DAY_MS)
    planned = _planned(topic)
    assert _settings(planned) == {"delete.retention.ms": str(2 * DAY_MS)}
    assert any("away for longer than 2.0 d is restored in full" in r for r in planned.risks)
    longer = _planned(topic, Policy(max_store_absence_ms=10 * DAY_MS))
    assert _settings(longer) == {"delete.retention.ms": str(10 * DAY_MS)}


@pytest.mark.parametrize(
    "facts",
    [
        {"tombstones": 10},  # there is nothing to win
        {"readers": ("audit",)},  # somebody may need them
        {"longest_absence_ms": 40 * DAY_MS},
        {"settings": own_settings()},  # a day is what volumes are given anyway
    ],
)
def test_tombstones_that_somebody_may_need_stay(facts: dict[str, Any]) -> None:
    settings = own_settings(delete_retention_ms=str(30 * DAY_MS))
    planned = _planned(a_topic(**{"tombstones": 100_000, "settings": settings, **facts}))
    assert not planned.changes


def test_a_disk_that_hardly_holds_a_cleaned_log_is_a_risk() -> None:
    topic = a_topic()
    largest = max(p.bytes for p in topic.partitions)
    for free, told in ((largest - 1, True), (largest, False), (-1, False)):
        plan = make_plan(a_survey(topic, brokers=(a_broker(free_bytes=free),)), Policy())
        assert any("of disk left" in risk for risk in plan.topics[0].risks) is told


def test_a_store_that_was_away_for_too_long_is_a_risk() -> None:
    risks = _planned(a_topic(longest_absence_ms=2 * DAY_MS)).risks
    assert any("was away for 2.0 d, longer than tombstones are kept (1.0 d)" in r for r in risks)


def test_readers_and_a_job_that_is_behind_are_risks() -> None:
    topic = a_topic(readers=("audit", "copy"), caught_up=False, lag=12_345)
    risks = " ".join(_planned(topic).risks)
    assert "audit, copy have not read yet" in risks
    assert "12,345 offsets behind" in risks


def test_a_readers_compaction_lag_is_respected() -> None:
    settings = own_settings(min_compaction_lag_ms=str(7 * DAY_MS))
    planned = _planned(_busy(settings=settings))
    assert planned.after == planned.before
    assert not planned.temporary


def test_the_resource_that_keeps_the_settings_gets_a_patch() -> None:
    planned = _planned(replace(_busy(), owner="kafkatopic/kafka/app"))
    assert planned.owner == "kafkatopic/kafka/app"
    assert planned.patch == {"spec": {"config": _settings(planned)}}
    assert planned.changes


# -- targets ----------------------------------------------------------------------------------


def test_within_its_target_nothing_needs_to_be_done() -> None:
    planned = _planned(a_topic(), Policy(target_restore_s=5))
    assert planned.nothing
    assert planned.why == "Within its limits: 114.4 MiB on disk, a restore of 5.0 s."


def test_above_its_target_a_changelog_is_cleaned_and_stays_below_it() -> None:
    planned = _planned(_busy(), Policy(target_restore_s=1.0))
    assert planned.temporary
    assert planned.changes
    assert max(planned.after.restore_s, planned.steady.restore_s) <= 1.0


def _unmet(survey: Survey, policy: Policy) -> str:
    (told,) = make_plan(survey, policy).unmet
    return told


def test_a_restore_that_live_keys_alone_make_too_long_needs_more_executors() -> None:
    told = _unmet(a_survey(a_topic()), Policy(target_restore_s=0.08))
    assert "what no cleaning removes (50,000 live keys, and tombstones) needs 0.1 s" in told
    assert "at 200,000 records/s with 2 processes; 4 executors would do." in told
    told = _unmet(a_survey(a_topic()), Policy(target_restore_s=0.01))
    assert "more state partitions would" in told


def test_a_target_that_only_what_is_left_alone_misses_is_said() -> None:
    told = _unmet(a_survey(a_topic(orphaned="gone")), Policy(target_restore_s=1))
    assert "left alone, it takes 5.0 s at its worst moment and 0.1 s at its best" in told


def test_a_budget_that_holds_asks_for_nothing() -> None:
    plan = make_plan(a_survey(a_topic("a"), a_topic("b")), Policy(disk_budget_bytes=240_000_000))
    assert plan.nothing
    assert not plan.unmet


def test_a_budget_is_shared_by_what_each_needs() -> None:
    large = a_topic("large", bytes=120_000_000, records=2_000_000, end=2_000_400,
                    live_keys=1_500_000, active_bytes=1_000)  # fmt: skip
    plan = make_plan(a_survey(large, a_topic("small")), Policy(disk_budget_bytes=550_000_000))
    found = {t.topic: bool(t.temporary) for t in plan.topics}
    assert found == {"large": False, "small": True}
    assert not plan.unmet


def test_a_budget_below_what_must_stay_is_said_with_numbers() -> None:
    told = _unmet(a_survey(a_topic()), Policy(disk_budget_bytes=1_000_000))
    assert told.startswith("All changelogs: 976.6 KiB are asked for; what cannot be removed takes")
    assert told.endswith("no plan can hold the budget.")


# -- order and advice -------------------------------------------------------------------------


def test_the_most_won_per_second_comes_first_and_nothing_last() -> None:
    half = a_topic("b-half", live_keys=250_000)
    fine = a_topic("a-fine", dirty_ratio=0, active_bytes=0)
    plan = make_plan(a_survey(fine, half, a_topic("c-most")), Policy())
    assert [(t.topic, t.order) for t in plan.topics] == [
        ("c-most", 0),
        ("b-half", 1),
        ("a-fine", 2),
    ]


def test_partitions_stand_in_the_order_of_their_gains() -> None:
    parts = (a_partition(0, live_keys=400_000), a_partition(1), a_partition(2, live_keys=200_000))
    planned = _planned(replace(a_topic(), partitions=parts))
    assert [p.partition for p in planned.partitions] == [1, 2, 0]


def _advice(topic: TopicFacts, **broker: Any) -> tuple[str, ...]:
    plan: Plan = make_plan(a_survey(topic, brokers=(a_broker(**broker),)), Policy())
    return plan.advice


def test_a_map_too_small_is_advised_about() -> None:
    (told,) = _advice(a_topic(), dedupe_buffer_size=262_144)
    assert "12,500 keys, and a cleaner thread's map holds 9,829: it goes over the log 2" in told
    assert "log.cleaner.dedupe.buffer.size=333334 would do" in told
    assert _advice(a_topic(), dedupe_buffer_size=333_400) == ()


def test_a_long_cleaning_is_advised_about() -> None:
    huge = a_topic(bytes=30_000_000_000, active_bytes=30_000_000_000, record_bytes=60_000)
    (told,) = _advice(huge)
    assert "log.cleaner.threads=2 instead of 1 would make it" in told
    (told,) = _advice(huge, io_max_bytes_per_second="1000000.0")
    assert "bounded by log.cleaner.io.max.bytes.per.second=1000000" in told


def test_a_sleepy_cleaner_is_advised_about() -> None:
    (told,) = _advice(a_topic(), backoff_ms=600_000)
    assert "lets its cleaner sleep for 10.0 min between looks" in told
