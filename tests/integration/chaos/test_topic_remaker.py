"""A topic that is deleted and made again under load, on a real broker: what is kept and judged."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.chaos.faults.topic_remaker import TopicRemaker
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.history.events import HistoryWriter, read_history
from holdfast.chaos.load.load_gate import LoadGate
from holdfast.chaos.load.records import LoadShape
from holdfast.chaos.load.workload import HEADER, Load, Workload
from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, TopicMissing
from holdfast.judge.oracle import Oracle, OracleOptions
from holdfast.judge.read.archived import ArchivedObserver
from holdfast.judge.read.incarnations import numbered
from holdfast.judge.read.observe import Observer
from holdfast.judge.read.topic_archive import archives, keep
from holdfast.judge.verdict import TableVerdict, Verdict
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.types.components import DRIVER
from holdfast.types.ids import consumer_group
from holdfast.types.statements.topology import Topology
from tests.integration.chaos.jobs import Job, Kafka
from tests.unit.chaos.test_nemesis import Place

WAIT_S = 60.0


@pytest.fixture
def job(kafka: Kafka) -> Iterator[Job]:
    made = Job(kafka.bootstrap_servers)
    yield made
    made.producer.close()


@dataclass
class Committing(Place):
    """A place whose job commits when somebody waits for it.

    Attributes:
        broken: why it does not.
    """

    job: Job | None = None
    broken: str = ""
    there: list[bool] = field(default_factory=list)

    def refusal(self) -> str:
        assert self.job is not None
        if not self.broken:
            _commit(self.job)
        return self.broken

    def heal(self, victim: Any, fault: Fault) -> None:
        assert self.job is not None
        self.there.append(self.job.admin.describe(self.job.query.source.topic) is not None)
        super().heal(victim, fault)


def _commit(job: Job) -> None:
    group, topic = consumer_group(job.application_id, job.query.id), job.query.source.topic
    job.admin.commit_group(group, topic, job.admin.end_offsets(topic))


@contextmanager
def _loaded(job: Job, folder: Path) -> Iterator[None]:
    """Under a load that has begun."""
    done, began = threading.Event(), threading.Event()

    def ended() -> bool:
        began.set()
        return done.is_set()

    with HistoryWriter(folder, "workload") as history:
        load = Load(folder.name, 3, 500, LoadShape(keys=40, garbage=0.05, tombstones=0.05))
        gate = LoadGate(folder, WAIT_S)
        workload = Workload(load, [job.query.source], job.client, history, gate=gate)
        thread = threading.Thread(target=workload.run, args=(ended, WAIT_S))
        thread.start()
        try:
            assert began.wait(WAIT_S)
            deadline = time.monotonic() + WAIT_S
            while sum(job.admin.end_offsets(job.query.source.topic).values()) < 50:
                assert time.monotonic() < deadline, "nothing was sent"
                time.sleep(0.02)
            yield
        finally:
            done.set()
            thread.join(WAIT_S)


def _settings(job: Job) -> Settings:
    return Settings(job.application_id, job.client["bootstrap.servers"])


def test_nothing_is_lost_of_a_topic_that_is_made_again_twice(job: Job, tmp_path: Path) -> None:
    topic, source = job.query.source.topic, TopicSettings(job.client)
    source.alter(topic, {"retention.ms": "86400000"})
    ids = [job.admin.look(topic).topic_id]
    place = Committing(job=job)
    remaker = TopicRemaker(tmp_path, Topology((job.query,)), _settings(job))
    ends = []
    with _loaded(job, tmp_path):
        for _ in range(2):
            told = remaker.remake(place, topic)
            look = job.admin.look(topic)
            ids.append(look.topic_id)
            ends.append(sum(end for _, end in look.bounds.values()))
            assert f"(id {look.topic_id})" in told
            assert not remaker.landed(topic, ids[-2]).landed, "nobody has committed any of it"
    kept = archives(tmp_path)
    assert [each.topic.topic_id for each in kept] == ids[:2]
    before = [sum(end for _, end in each.topic.bounds.values()) for each in kept]
    assert ends[0] > before[0], "more at once than there were before"
    assert ends[1] < before[1], "or else old offsets would always be in range"
    assert len(set(ids)) == 3
    assert place.log == ["pause driver", "heal driver"] * 2
    assert place.there == [True] * 2, "a driver that goes on finds a topic"
    assert source.of([topic])[topic]["retention.ms"].value == "86400000"
    observer = ArchivedObserver(job.client, job.application_id, kept)
    numbers = Counter(observer.header_values(topic, HEADER))
    (totals,) = [e.data for e in read_history(tmp_path) if e.what == "produced"]
    assert numbers == Counter(f"{tmp_path.name}/{n}".encode() for n in range(totals["sent"]))
    assert totals["acked"] == totals["sent"]


def test_a_job_that_does_not_commit_keeps_its_topic(job: Job, tmp_path: Path) -> None:
    topic = job.query.source.topic
    job.read()
    job.admin.commit_group(consumer_group(job.application_id, job.query.id), topic, {0: 1})
    before = job.admin.look(topic)
    remaker = TopicRemaker(tmp_path, Topology((job.query,)), _settings(job))
    with _loaded(job, tmp_path), pytest.raises(HoldfastError, match="the topic is as it was"):
        remaker.remake(Committing(job=job, broken="it is broken"), topic)
    assert job.admin.look(topic).topic_id == before.topic_id
    assert archives(tmp_path) == []
    assert not LoadGate(tmp_path).closed, "the load goes on"


# -- what the judge makes of it ----------------------------------------------------------------


@dataclass
class Remade:
    """A job whose topic had 3 and 2 records, was made again, and got 6 and 5."""

    job: Job
    folder: Path
    ids: list[str] = field(default_factory=list)

    def make(self) -> None:
        job, topic = self.job, self.job.query.source.topic
        self._write("abcab")
        look = job.admin.look(topic)
        observer = Observer(job.client, job.application_id)
        keep(self.folder, observer, topic, look.topic_id, look.bounds)
        job.admin.delete_topic(topic)
        job.admin.ensure_topic(topic, 2)
        self._write("bcdbcdbcdbc")
        self.ids = [look.topic_id, job.admin.look(topic).topic_id]
        _commit(job)

    def _write(self, titles: str) -> None:
        for i, title in enumerate(titles):
            value = json.dumps({"title": title, "ts": 1}).encode()
            self.job.producer.send(self.job.query.source.topic, None, value, partition=i % 2)
        self.job.producer.flush()

    def mark(self, turn: int, starts: Sequence[int], ends: Sequence[int], home: int = 0) -> None:
        source = {"topic": self.job.query.source.topic, "topic_id": self.ids[turn]}
        edges = {"start": list(enumerate(starts)), "end": list(enumerate(ends))}
        value = json.dumps({"source": {**source, **edges}, "dropped_late": 0}).encode()
        key = b"\x00holdfast.commit"
        self.job.producer.send(self.job.changelog, key, value, partition=home)
        self.job.producer.flush()

    def mark_well(self) -> None:
        for home in (0, 1):
            self.mark(0, (0, 0), (2, 2), home)
            self.mark(0, (2, 2), (3, 2), home)
            self.mark(1, (0, 0), (6, 5), home)

    def emit(self, titles: str) -> None:
        for title, n in Counter(titles).items():
            for count in range(1, n + 1):
                value = json.dumps({"N": count}).encode()
                self.job.producer.send(self.job.query.sink.topic, title.encode(), value, 1)
            self.job.producer.send(self.job.changelog, b"\x01" + title.encode(), b"row", 1, 0)
        self.job.producer.flush()

    def judged(self) -> TableVerdict:
        job, kept = self.job, archives(self.folder)
        observer = ArchivedObserver(job.client, job.application_id, kept)
        options = OracleOptions(10.0, quiet_s=1.0)
        oracle = Oracle(job.application_id, observer, options=options)
        return oracle.judge(Topology((job.query,))).tables[0]


EVERY = "abcab" + "bcdbcdbcdbc"


@pytest.fixture
def remade(job: Job, tmp_path: Path) -> Remade:
    made = Remade(job, tmp_path)
    made.make()
    return made


def _bad(verdict: TableVerdict) -> Mapping[str, Verdict]:
    return {f.checker: f.verdict for f in verdict.findings if f.verdict is not Verdict.VALID}


def test_the_table_of_both_topics_is_valid(remade: Remade) -> None:
    remade.mark_well()
    remade.emit(EVERY)
    verdict = remade.judged()
    assert _bad(verdict) == {}
    assert (verdict.input_records, verdict.rows) == (len(EVERY), 4)


def test_the_judge_tells_the_topics_apart(remade: Remade) -> None:
    """Two records at the same offset of the old and the new topic have different places."""
    topic, kept = remade.job.query.source.topic, archives(remade.folder)
    observer = ArchivedObserver(remade.job.client, remade.job.application_id, kept)
    bounds = observer.bounds(topic)
    assert bounds == {0: (0, 6), 1: (0, 5), numbered(0, 0): (0, 3), numbered(0, 1): (0, 2)}
    found = [(r.partition, r.offset) for r in observer.records(topic, bounds)]
    assert len(set(found)) == len(EVERY)
    assert found[0] == (numbered(0, 0), 0)
    assert [r.offset for r in observer.records(topic, {numbered(0, 0): (1, 3)})] == [1, 2]


def test_records_of_the_old_topic_that_are_not_in_the_table_are_lost(remade: Remade) -> None:
    remade.mark_well()
    remade.emit(EVERY[1:])
    found = _bad(remade.judged())
    assert found["diverged_values"] is Verdict.INVALID


def test_records_of_the_old_topic_that_are_counted_twice_are_found(remade: Remade) -> None:
    remade.mark_well()
    remade.emit("abcab" + EVERY)
    assert _bad(remade.judged())["diverged_values"] is Verdict.INVALID


def test_a_new_topic_read_on_from_the_old_offsets_is_invalid(remade: Remade) -> None:
    """Its records 0 to 2 were never read, whatever the table says."""
    for home in (0, 1):
        remade.mark(0, (0, 0), (3, 2), home)
        remade.mark(1, (3, 2), (6, 5), home)
    remade.emit("abcab" + EVERY[5 + 5 :])
    verdict = remade.judged()
    assert _bad(verdict)["diverged_values"] is Verdict.INVALID
    (told,) = [f for f in verdict.findings if f.checker == "markers_go_on"]
    assert told.verdict is Verdict.INVALID
    assert any("at 3, its log begins at 0" in text for text in told.examples)


def test_an_old_topic_that_was_left_too_early_is_invalid(remade: Remade) -> None:
    for home in (0, 1):
        remade.mark(0, (0, 0), (3 - home, 2), home)
        remade.mark(1, (0, 0), (6, 5), home)
    remade.emit(EVERY)
    verdict = remade.judged()
    assert _bad(verdict) == {"markers_go_on": Verdict.INVALID}
    (told,) = [f for f in verdict.findings if f.checker == "markers_go_on"]
    assert len(told.examples) == 1
    assert told.examples[0].endswith("-0 of deleted topic 1 at 2 of 3")


def test_markers_that_stay_with_the_old_topic_are_behind(remade: Remade) -> None:
    for home in (0, 1):
        remade.mark(0, (0, 0), (3, 2), home)
    remade.emit(EVERY)
    assert _bad(remade.judged())["markers_agree"] is Verdict.INVALID


def test_a_topic_that_was_not_deleted_after_all_is_read_once(job: Job, tmp_path: Path) -> None:
    job.read()
    topic, observer = job.query.source.topic, Observer(job.client, job.application_id)
    look = job.admin.look(topic)
    for _ in range(2):
        keep(tmp_path, observer, topic, look.topic_id, look.bounds)
    kept = archives(tmp_path)
    assert len(kept) == 1
    again = ArchivedObserver(job.client, job.application_id, kept)
    assert again.bounds(topic) == observer.bounds(topic)
    job.admin.delete_topic(topic)
    with pytest.raises(TopicMissing):
        ArchivedObserver(job.client, job.application_id, kept)


def test_all_of_a_record_is_kept(job: Job, tmp_path: Path) -> None:
    topic = job.query.source.topic
    headers: dict[str, str | bytes | None] = {"a": b"1", "none": None}
    job.producer.send(topic, b"k", None, 77, 1, headers=headers)
    job.producer.send(topic, None, b"", 78, 1)
    job.producer.flush()
    observer = Observer(job.client, job.application_id)
    look = job.admin.look(topic)
    archive = keep(tmp_path, observer, topic, look.topic_id, look.bounds)
    kept = list(archive.records(look.bounds))
    assert kept == list(observer.records(topic, look.bounds, headers=True))
    assert kept[0].headers == (("a", b"1"), ("none", None))
    assert archives(tmp_path) == [archive]


def test_the_driver_goes_on_where_it_could_not_be_done(job: Job, tmp_path: Path) -> None:
    place = Committing(job=job, deaf=frozenset({Fault.PAUSE}))
    remaker = TopicRemaker(tmp_path, Topology((job.query,)), _settings(job))
    place.lives = {DRIVER: 0}
    with pytest.MonkeyPatch.context() as patch, _loaded(job, tmp_path):
        patch.setattr("holdfast.chaos.faults.topic_remaker._STOPPED_S", 0.0)
        with pytest.raises(HoldfastError, match="The driver is not stopped"):
            remaker.remake(place, job.query.source.topic)
    assert place.log[-1] == "heal driver"
    assert archives(tmp_path) == []
