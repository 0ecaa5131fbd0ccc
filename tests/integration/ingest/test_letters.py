"""Dead letters are listed, and their records are written again once each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.config.settings import Settings
from holdfast.ingest.dead_letters import DeadLetters
from holdfast.ingest.letters import Letters, Overview
from holdfast.ingest.records import BadRecord
from holdfast.ingest.stored_letters import Counts
from holdfast.local.broker import BrokerStatus
from holdfast.runtime.topics import dead_letters
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.types.columns.schema import BIGINT, INTEGER, Column
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import Source
from tests.integration.ingest import topics
from tests.integration.transport.settling import await_settled

AT_MS = 1_700_000_000_000


class _Job:
    """A job with one source, whose bad records are set aside by one or two queries."""

    def __init__(self, servers: str) -> None:
        self.client = {"bootstrap.servers": servers}
        self.source, self.progress = topics.create(servers), topics.create(servers)
        self.id = f"app-{self.source}"
        self.settings = Settings(self.id, servers)
        self.topic = dead_letters(self.settings)
        Admin(self.client).ensure_topic(self.topic, 1)
        self.letters = Letters(self.client, self.topic, self.id)

    def set_aside(self, *values: bytes, first: int = 0, query: str = "q") -> None:
        source = Source("S", "STREAM", self.source, (Column("K", INTEGER),), (Column("N", BIGINT),))
        options = IngestOptions(
            source,
            self.client,
            ("N",),
            dead_letter_topic=self.topic,
            progress_topic=self.progress if query == "q" else topics.create(self.client[_SERVERS]),
            transactional_id_prefix=f"{self.id}-{query}",
        )
        letters = DeadLetters(options, 0)
        found = [
            BadRecord(b"k", value, first + i, AT_MS + i, "not JSON")
            for i, value in enumerate(values)
        ]
        letters.write(found)
        letters.close()
        await_settled(Admin(self.client), self.topic)

    def records(self) -> list[tuple[Any, ...]]:
        start, end = await_settled(Admin(self.client), self.source)[0]
        reader = PartitionReader(self.client, self.source, 0, headers=True)
        chunks = list(reader.read(start, end)) if start < end else []
        reader.close()
        return [
            (key, value, at, dict(headers).get("holdfast.replayed"))
            for c in chunks
            for key, value, at, headers in zip(
                c.keys, c.values, c.timestamps, c.headers, strict=True
            )
        ]


_SERVERS = "bootstrap.servers"


@pytest.fixture
def job(kafka: BrokerStatus) -> _Job:
    return _Job(kafka.bootstrap_servers)


def test_a_record_is_written_again_once_as_it_was(job: _Job) -> None:
    job.set_aside(b"{a", b"{b")
    job.set_aside(b"{a", query="other")  # another query of the job set the first one aside as well
    assert job.letters.overview(0).total == 3
    assert job.letters.replay().written == 2
    assert job.records() == [
        (b"k", b"{a", AT_MS, f"{job.source}/0/0".encode()),
        (b"k", b"{b", AT_MS + 1, f"{job.source}/0/1".encode()),
    ]
    assert job.letters.replay().written == 0
    job.set_aside(b"{c", first=7)
    assert job.letters.replay().written == 1
    assert [value for _, value, _, _ in job.records()] == [b"{a", b"{b", b"{c"]


def test_a_copy_that_fails_again_is_replayed_only_when_asked(job: _Job) -> None:
    job.set_aside(b"{a")
    assert job.letters.replay().written == 1
    job.set_aside(b"{a", first=9)  # the copy
    assert job.letters.overview(0).counts == Counts(done=1, failed_again=1)
    assert job.letters.replay().written == 0
    assert job.letters.replay(again=True).written == 1
    assert job.letters.replay(again=True).written == 0


def test_a_topic_that_was_made_anew_has_other_records_in_the_same_places(job: _Job) -> None:
    job.set_aside(b"{a")
    assert job.letters.replay().written == 1
    job.set_aside(b"{other", query="later")
    assert job.letters.replay().written == 1


def test_records_before_and_after_a_topic_was_made_anew_are_each_replayed_once(job: _Job) -> None:
    job.set_aside(b"{a", b"{b")
    job.set_aside(b"{other", query="later")
    assert job.letters.overview(0).counts == Counts(due=3)
    assert job.letters.replay().written == 3
    assert job.letters.overview(0).counts == Counts(done=3)
    assert job.letters.replay().written == 0
    assert sorted(value for _, value, _, _ in job.records()) == [b"{a", b"{b", b"{other"]


def test_what_an_older_version_replayed_is_done(job: _Job) -> None:
    """Its notes have the place alone for a key."""
    job.set_aside(b"{a", b"{b")
    (first, _), _ = job.letters.overview(2).newest
    replays = f"{job.id}-dead-letter-replays"
    Admin(job.client).ensure_topic(replays, 1)
    with TransactionalProducer(job.client, f"{job.id}-older") as producer:
        producer.init()
        producer.begin()
        producer.send_one(replays, 0, first.origin.encode(), first.digest.encode(), [])
        producer.commit()
    await_settled(Admin(job.client), replays)
    assert job.letters.overview(0).counts == Counts(due=1, done=1)
    assert job.letters.replay().written == 1
    assert job.letters.replay().written == 0


def test_letters_of_other_jobs_in_the_same_topic_are_theirs(job: _Job) -> None:
    job.set_aside(b"{a")
    assert Letters(job.client, job.topic, "another").overview(9) == Overview(Counts(), 0, ())


def test_the_newest_are_shown_the_oldest_of_them_first(job: _Job) -> None:
    job.set_aside(*(b"{%d" % n for n in range(5)))
    for limit, shown in ((0, []), (3, [2, 3, 4]), (9, [0, 1, 2, 3, 4])):
        found = job.letters.overview(limit)
        assert found.total == 5
        assert [letter.offset for letter, _ in found.newest] == shown


def test_more_than_a_transaction_holds_is_replayed_in_its_order(job: _Job) -> None:
    job.set_aside(*(b"{late %d" % n for n in range(1_500)), first=900, query="other")
    job.set_aside(*(b"{early %d" % n for n in range(900)))
    assert job.letters.replay().written == 2_400
    assert [value for _, value, _, _ in job.records()] == [
        *(b"{early %d" % n for n in range(900)),
        *(b"{late %d" % n for n in range(1_500)),
    ]
    assert job.letters.replay().written == 0


def test_the_command_shows_and_replays(job: _Job, capsys: pytest.CaptureFixture[str]) -> None:
    where = [job.id, "--set", f"bootstrap.servers={job.client[_SERVERS]}"]
    assert main(["dead-letters", *where]) == 0
    assert capsys.readouterr().out == "There are no dead letters.\n"
    job.set_aside(b"{a", b"\xff", b"\x1b[2Jgone")
    assert main(["dead-letters", *where]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\\x1b[2Jgone" in shown
    assert "not JSON" in shown
    assert "{a" in shown
    assert "0xff" in shown
    assert "3 dead letters; to be replayed: 3" in shown
    assert main(["dead-letters", *where, "--replay"]) == 0
    assert "Written to their source topics again: 3 records." in capsys.readouterr().out
    assert main(["dead-letters", *where, "--replay", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["written"], told["due"], told["replayed_before"]) == (0, 0, 3)
    assert [letter["replayed"] for letter in told["letters"]] == [True] * 3
    assert main(["dead-letters", *where, "--again"]) == 2
    capsys.readouterr()
    assert main(["dead-letters", f"{job.id}s", *where[1:]]) == 2
    assert f"did you mean {job.id}?" in capsys.readouterr().err
