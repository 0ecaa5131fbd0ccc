"""Surveys of real changelogs on a real broker, whose every number is known."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

from holdfast.cli.compaction import command
from holdfast.compaction.survey.cleaner import CleanerView
from holdfast.compaction.survey.facts import CleanerState, Estimate, How, Survey, TopicFacts
from holdfast.compaction.survey.jobs import JobSeen
from holdfast.compaction.survey.survey import SurveyOptions, take_survey
from holdfast.errors import Refused
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.log_dirs import log_sizes
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.idempotent_producer import Producer
from holdfast.types.status import JobStatus
from tests.integration.compaction.changelogs import MadeChangelog, make_changelog

TopicNames = Callable[[str], str]
_WAIT_S = 60.0


@pytest.fixture(scope="module")
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


def _survey(
    client: Mapping[str, str], *names: str, status: JobStatus | None = None, **options: bool | int
) -> Survey:
    jobs = [] if status is None else [JobSeen(status, {})]
    return take_survey(client, lambda _: jobs, SurveyOptions("r", names, **options))  # type: ignore[arg-type]  # exact or sample_records


def _only(survey: Survey) -> TopicFacts:
    (topic,) = survey.topics
    return topic


def _near(found: Estimate, true: float) -> bool:
    """Within twice what it says, which fails by chance once in ten thousand runs."""
    return abs(found.value - true) <= 2 * found.error


def _folder(client: Mapping[str, str], topic: str) -> Path:
    """The broker's log folder."""
    (folder,) = log_sizes(client, [topic]).dirs
    return Path(folder.path)


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {_WAIT_S:g} s"
        time.sleep(0.1)


def test_a_small_changelog_is_counted(client: dict[str, str], kafka_topic_name: TopicNames) -> None:
    made = make_changelog(
        client, kafka_topic_name("app"), keys=500, updates=3_000, tombstone_share=0.2
    )
    made.close()
    survey = _survey(client, made.application_id, status=made.status(executors=2))
    topic = _only(survey)
    assert (topic.topic, topic.topic_id) == (made.topic, made.topic_id)
    assert (topic.application_id, topic.query_id) == (made.application_id, made.query_id)
    assert not topic.windowed
    assert not topic.orphaned
    assert topic.healthy
    folder = _folder(client, made.topic)
    for facts in topic.partitions:
        rows = made.rows[facts.partition]
        assert facts.records == Estimate(float(made.records[facts.partition]))
        assert facts.live_keys == Estimate(float(len(rows)))
        assert facts.expired == Estimate(0.0)
        assert facts.start == 0
        assert facts.end == made.ends[facts.partition] + 1  # the end of the last transaction
        files = folder / f"{made.topic}-{facts.partition}"
        assert facts.bytes == sum(f.stat().st_size for f in files.glob("*.log"))
        assert facts.active_bytes == Estimate(float(facts.bytes))
        assert facts.segments == Estimate(1.0)
        assert facts.dirty_ratio == Estimate(0.0)
        assert facts.record_bytes.value == pytest.approx(facts.bytes / facts.records.value)
        assert facts.write_records_per_s > 0
        assert facts.stream_time_ms == made.stream_time_ms
        assert abs(facts.last_write_ms - time.time() * 1000) < 60_000
    assert sum(p.tombstones.value for p in topic.partitions) == 500 - topic.live_keys
    assert topic.restore.processes == 2
    assert topic.setting("segment.bytes").source == "topic"  # type: ignore[union-attr]  # told above
    assert topic.setting("min.cleanable.dirty.ratio").source == "default"  # type: ignore[union-attr]  # the same
    (broker,) = survey.brokers
    assert broker.free_bytes > 0
    assert broker.setting("log.cleaner.threads") is not None
    assert not survey.notes


def test_a_large_changelog_is_sampled_within_its_budget(
    client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    made = make_changelog(client, kafka_topic_name("app"), keys=6_000, updates=60_000)
    made.close()
    survey = _survey(client, made.application_id, sample_records=4_000)
    topic = _only(survey)
    tails = 64 * made.partitions
    assert 1_000 < survey.records_read <= 4_000 + tails
    for facts in topic.partitions:
        assert facts.records.how is How.SAMPLED
        assert _near(facts.records, made.records[facts.partition])
        assert facts.tombstones.value == 0
        assert not facts.live_keys.known
    assert any("live keys are unknown" in note for note in survey.notes)


def test_expired_windows_are_found_and_exact_counts_keys(
    client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    made = make_changelog(
        client, kafka_topic_name("app"), keys=4_800, updates=24_000, windowed=True
    )
    made.close()
    sampled = _only(
        _survey(client, made.application_id, status=made.status(), sample_records=6_000)
    )
    exact = _only(_survey(client, made.application_id, status=made.status(), exact=True))
    blind = _only(_survey(client, made.application_id, exact=True))
    assert sampled.windowed
    assert sampled.retention_ms == 24 * 3_600_000
    for about, all_of_it in zip(sampled.partitions, exact.partitions, strict=True):
        rows = made.rows[all_of_it.partition]
        assert all_of_it.records == Estimate(float(made.records[all_of_it.partition]))
        assert all_of_it.live_keys == about.live_keys == Estimate(float(len(rows)))
        assert all_of_it.expired.value > 0
        assert _near(about.expired, all_of_it.expired.value)
        assert _near(about.tombstones, all_of_it.tombstones.value)
        assert about.expired.how is How.SAMPLED
    # Half of the windows are past retention: five updates of each key, and its tombstone.
    assert sum(p.expired.value for p in exact.partitions) == 12_000
    assert sum(p.tombstones.value for p in exact.partitions) == 2_400
    assert [p.live_keys for p in blind.partitions] == [p.live_keys for p in exact.partitions]
    assert not any(p.expired.known for p in blind.partitions)


def test_what_only_looks_like_a_changelog_is_left_alone(
    client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    app = kafka_topic_name("app")
    made = make_changelog(client, app, keys=10, updates=20)
    made.close()
    foreign, empty = f"{app}-theirs-changelog", f"{app}-empty-changelog"
    admin = Admin(client)
    for topic in (foreign, empty):
        admin.ensure_topic(topic, 1)
    producer = Producer(client)
    producer.send(foreign, b"key", b"value")
    producer.flush()
    survey = _survey(client, app)
    assert _only(survey).topic == made.topic
    for topic in (foreign, empty):
        assert f"{topic} holds no commit marker: it is not Holdfast's, or empty" in survey.notes
    with pytest.raises(Refused, match=f"No changelog of {app}-nobody was found"):
        _survey(client, app, f"{app}-nobody")


def test_orphans_readers_and_absences_are_told(
    client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    made = make_changelog(client, kafka_topic_name("app"), keys=10, updates=20)
    made.close()
    group = f"{made.application_id}-audit"
    consumer = Consumer(client | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(made.topic, 0, 1)], asynchronous=False)
    consumer.close()
    stopped = replace(made.status(), updated_ms=int(time.time() * 1000) - 7_200_000)
    topic = _only(_survey(client, made.application_id, status=stopped))
    assert topic.readers == (group,)
    assert 7_200_000 <= topic.longest_absence_ms < 7_300_000
    without = _only(_survey(client, made.application_id, status=replace(stopped, queries={})))
    assert "has no query ctas_t" in without.orphaned
    Admin(client).delete_topic(made.source)
    lost = _only(_survey(client, made.application_id))
    assert lost.orphaned == f"its source topic {made.source} is gone"


def test_a_cleaned_log_and_one_that_the_cleaner_gave_up(
    client: dict[str, str], kafka_topic_name: TopicNames
) -> None:
    made = _two_segments(client, kafka_topic_name("app"))
    view = CleanerView(_folder(client, made.topic))
    before = _only(_survey(client, made.application_id))
    assert [p.dirty_ratio for p in before.partitions] == [Estimate(1.0), Estimate(1.0)]
    _corrupt(view.folder / f"{made.topic}-0")
    TopicSettings(client).alter(made.topic, {"min.compaction.lag.ms": "0"})
    _await(lambda: bool(view.given_up(made.topic, 0)), "giving partition 0 up")
    _await(lambda: (view.cleaned_to(made.topic, 1) or 0) > 0, "the cleaning of partition 1")
    survey = _survey(client, made.application_id)
    (broker,) = survey.brokers
    assert broker.cleaner is CleanerState.DEAD
    assert f"it gave up {made.topic}-0" in broker.evidence
    assert f"{made.topic}-1" not in broker.evidence
    assert broker.given_up == (made.topic,)
    bad, good = _only(survey).partitions
    assert bad.dirty_ratio == Estimate(1.0)
    assert not bad.records.known
    assert any(f"{made.topic} partition 0 cannot be read" in note for note in survey.notes)
    assert good.dirty_ratio == Estimate(0.0)
    assert good.bytes < before.partitions[1].bytes / 2
    assert good.records.value < made.records[1] / 2
    Admin(client).delete_topic(made.topic)


def _two_segments(client: Mapping[str, str], app: str) -> MadeChangelog:
    """With closed segments that the cleaner may not touch yet."""
    held_back = {
        "segment.bytes": str(1 << 20),
        "min.compaction.lag.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.1",
    }
    made = make_changelog(client, app, keys=5_000, updates=200_000, config=held_back)
    made.close()
    return made


def _corrupt(folder: Path) -> None:
    first = min(folder.glob("*.log"))
    with first.open("r+b") as file:
        file.seek(first.stat().st_size // 2)
        file.write(b"\xff" * 2_000)


def test_from_afar_dirt_is_where_no_holes_are(
    client: dict[str, str], kafka_topic_name: TopicNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _two_segments(client, kafka_topic_name("app"))
    monkeypatch.setattr("holdfast.compaction.survey.ground.views_of", lambda *_: {})
    survey = _survey(client, made.application_id, sample_records=5_000)
    for facts in _only(survey).partitions:
        assert facts.dirty_ratio.how is facts.segments.how is How.DERIVED
        assert facts.dirty_ratio.value == pytest.approx(1.0, abs=0.05)
        assert facts.segments.value == 2
        assert 0 < facts.active_bytes.value < facts.bytes
    assert survey.brokers[0].cleaner is CleanerState.UNKNOWN


def test_the_command_writes_files_and_prints_a_table(
    client: dict[str, str], kafka_topic_name: TopicNames, tmp_path: Path
) -> None:
    made = make_changelog(client, kafka_topic_name("app"), keys=300, updates=900)
    made.close()
    made.write_status(tmp_path)
    arguments = ["survey", made.application_id, "--home", str(tmp_path), "--run", "one"]
    arguments += ["--set", f"bootstrap.servers={client['bootstrap.servers']}"]
    shown = CliRunner().invoke(command, arguments)
    assert shown.exit_code == 0, shown.output
    assert "300 (33%)" in shown.stdout
    folder = tmp_path / "compaction" / "one"
    assert (folder / "survey.png").read_bytes().startswith(b"\x89PNG")
    assert _only(Survey.read(folder / "survey.json")).live_keys == 300
    told = CliRunner().invoke(command, [*arguments, "--json"])
    assert json.loads(told.stdout)["topics"][0]["topic"] == made.topic


def test_a_driver_that_does_not_answer_is_said(
    client: dict[str, str], kafka_topic_name: TopicNames, tmp_path: Path
) -> None:
    made = make_changelog(client, kafka_topic_name("app"), keys=300, updates=900)
    made.close()
    arguments = ["survey", made.application_id, "--home", str(tmp_path), "--sample-records=100"]
    arguments += ["--set", f"bootstrap.servers={client['bootstrap.servers']}"]
    wrong = CliRunner().invoke(command, [*arguments, "--status", "http://127.0.0.1:1/status"])
    assert isinstance(wrong.exception, Refused)
    assert "No driver answers at http://127.0.0.1:1/status" in wrong.exception.fact
    pattern = CliRunner().invoke(command, [*arguments, "--status", "http://127.0.0.1:1/{name}"])
    assert pattern.exit_code == 0
    assert "live keys are unknown" in " ".join(pattern.stdout.split())
