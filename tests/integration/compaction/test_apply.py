"""Plans carried out on a real broker: the log gets small, the settings come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.compaction.apply.applied import Outcome
from holdfast.compaction.apply.apply import apply_plan
from holdfast.compaction.apply.ledger import Ledger
from holdfast.compaction.apply.scratch import median_partition
from holdfast.compaction.plan.plan import Change, Plan, TopicPlan
from holdfast.compaction.verify.verified import TopicResult
from holdfast.compaction.verify.verify import compare, restores_again
from holdfast.errors import CleanerIdle, PreconditionsChanged
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.log_dirs import log_sizes
from holdfast.transport.cluster.topic_settings import TopicSettings
from tests.integration.compaction.applying import (
    QUICK,
    applied,
    applying,
    only,
    own_settings,
    planned,
    surveyed,
)
from tests.integration.compaction.changelogs import MadeChangelog, make_changelog

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def small(
    client: dict[str, str], kafka_topic_name: Callable[[str], str]
) -> Callable[[], MadeChangelog]:
    """Makes changelogs that are quick to write and worth a cleaning."""

    def make() -> MadeChangelog:
        made = make_changelog(client, kafka_topic_name("app")[-60:], keys=500, updates=30_000)
        made.close()
        return made

    return make


def test_a_large_changelog_and_a_windowed_one_shrink_to_what_is_alive(
    client: dict[str, str], kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    app = kafka_topic_name("app")[-60:]
    large = make_changelog(client, f"{app}-l", keys=50_000, updates=2_000_000)
    windowed = make_changelog(client, f"{app}-w", keys=12_000, updates=300_000, windowed=True)
    made = [large, windowed]
    before = {one.topic: own_settings(client, one.topic) for one in made}
    survey = surveyed(client, made)
    plan = planned(survey)
    done = applied(plan, survey, applying(client, tmp_path))

    assert [t.outcome for t in done.topics] == [Outcome.CLEANED] * 2
    assert all(t.exact for t in done.topics), "the broker's files are on this machine"
    again = surveyed(client, made)
    samples = restores_again(client, again, done, tmp_path, lambda _: None)
    verified = compare(plan, survey, again, done, samples)
    for one in made:
        result = next(t for t in verified.topics if t.topic == one.topic)
        _shrank(result, one)
        _settings_are_back(client, plan, before[one.topic], one)
    assert not verified.all_warnings
    for one in made:  # and the tables live on
        key, row = next(iter(one.rows[0].items()))
        one.commit(0, {key: row})
        one.close()
    assert list(tmp_path.iterdir()) == [], "scratch stores are gone"

    second = applied(plan, survey, applying(client, tmp_path), earlier=done)
    assert second.topics == done.topics
    assert all(topic.nothing for topic in planned(surveyed(client, made)).topics)


def _shrank(result: TopicResult, made: MadeChangelog) -> None:
    """Bytes by 80 % of what could go, and a restore reads as much less as there are records."""
    assert result.removed_share >= 0.8
    before, after = result.sample_before, result.sample_after
    assert before is not None
    assert after is not None
    rows = len(made.rows[before.partition])
    assert before.rows == after.rows == rows
    assert before.records == made.records[before.partition]
    planned_records = next(
        p.records_predicted for p in result.partitions if p.partition == before.partition
    )
    assert rows < after.records <= planned_records * 1.1


def _settings_are_back(
    client: dict[str, str], plan: Plan, before: dict[str, str], made: MadeChangelog
) -> None:
    topic = next(t for t in plan.topics if t.topic == made.topic)
    stays = {c.name: c.after for c in topic.changes if c.after is not None}
    assert own_settings(client, made.topic) == before | stays
    assert Ledger(client, made.application_id).open_entries() == []


def test_a_topic_that_was_deleted_is_said_and_the_others_are_done(
    client: dict[str, str], small: Callable[[], MadeChangelog], tmp_path: Path
) -> None:
    made = [small(), small()]
    survey = surveyed(client, made)
    plan = only(planned(survey), _settings_only)
    gone, other = made
    Admin(client).delete_topic(gone.topic)
    done = applied(plan, survey, applying(client, tmp_path))
    outcomes = {t.topic: t.outcome for t in done.topics}
    assert outcomes == {gone.topic: Outcome.GONE, other.topic: Outcome.CHANGED}
    assert own_settings(client, other.topic)["segment.bytes"] == "33554432"


def test_nothing_is_done_when_anything_is_not_as_surveyed(
    client: dict[str, str], small: Callable[[], MadeChangelog], tmp_path: Path
) -> None:
    made = [small(), small(), small()]
    survey = surveyed(client, made)
    plan = only(planned(survey), _settings_only)
    remade, changed, other = made
    Admin(client).delete_topic(remade.topic)
    Admin(client).ensure_topic(remade.topic, 2)
    TopicSettings(client).alter(changed.topic, {"segment.bytes": "12345678"})
    with pytest.raises(PreconditionsChanged) as refused:
        applied(plan, survey, applying(client, tmp_path))
    assert f"{remade.topic} was remade" in refused.value.fact
    assert f"{changed.topic} has segment.bytes=12345678, surveyed was 67108864" in str(
        refused.value
    )
    assert own_settings(client, other.topic)["segment.bytes"] == "67108864"


def test_another_plan_than_the_approved_one_is_refused(
    client: dict[str, str], small: Callable[[], MadeChangelog], tmp_path: Path
) -> None:
    survey = surveyed(client, [small()])
    plan = planned(survey)
    with pytest.raises(PreconditionsChanged, match="Plan 0123456789abcdef was approved"):
        apply_plan(plan, survey, applying(client, tmp_path), approved="0123456789abcdef")
    later = replace(survey, taken_ms=survey.taken_ms + 1)
    with pytest.raises(PreconditionsChanged, match="stands on a survey of"):
        applied(plan, later, applying(client, tmp_path))


def test_a_cleaner_that_does_nothing_is_an_error_and_settings_come_back(
    client: dict[str, str], small: Callable[[], MadeChangelog], tmp_path: Path
) -> None:
    made = small()
    before = own_settings(client, made.topic)
    survey = surveyed(client, [made])
    plan = only(planned(survey), _never_cleaned)
    with pytest.raises(CleanerIdle, match=r"did nothing for \d+ ms to topic") as idle:
        applied(plan, survey, applying(client, tmp_path, replace(QUICK, idle_s=4.0)))
    assert "removable" in idle.value.fact
    assert "uncleanable" in idle.value.cause
    assert own_settings(client, made.topic) == before
    assert Ledger(client, made.application_id).open_entries() == []


def test_a_log_that_the_cleaner_gives_up_ends_the_wait_and_is_named(
    client: dict[str, str], small: Callable[[], MadeChangelog], tmp_path: Path
) -> None:
    made = small()
    before = own_settings(client, made.topic)
    survey = surveyed(client, [made])
    plan = only(planned(survey), lambda t: replace(t, changes=()))
    (topic,) = survey.topics
    (damaged,) = {p.partition for p in topic.partitions} - {median_partition(topic)}
    _damage(client, made.topic, damaged)
    with pytest.raises(CleanerIdle) as idle:
        applied(plan, survey, applying(client, tmp_path, replace(QUICK, idle_s=200.0)))
    assert f"it gave up {made.topic}-{damaged}" in idle.value.cause
    assert own_settings(client, made.topic) == before
    Admin(client).delete_topic(made.topic)


def _damage(client: dict[str, str], topic: str, partition: int) -> None:
    """Turns bits in the middle of the log, as a failing disk does."""
    folder = log_sizes(client, [topic]).dirs[0].path
    (log,) = (Path(folder) / f"{topic}-{partition}").glob("*.log")
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2)
        file.write(b"\xff" * 64)


def _settings_only(topic: TopicPlan) -> TopicPlan:
    """Quick to do: one setting that stays."""
    change = Change("segment.bytes", "67108864", "33554432")
    before = replace(topic.precondition, settings={"segment.bytes": "67108864"})
    return replace(topic, changes=(change,), temporary=(), roll=False, precondition=before)


def _never_cleaned(topic: TopicPlan) -> TopicPlan:
    """Its dirty ratio asks for more than there can be."""
    never = (Change("min.cleanable.dirty.ratio", None, "1.0"), Change("segment.ms", None, "1000"))
    before = replace(topic.precondition, settings={change.name: None for change in never})
    return replace(topic, changes=(), temporary=never, roll=True, precondition=before)
