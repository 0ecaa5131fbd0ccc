"""The oracle on a real broker: a job's topics written by hand, right and wrong."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.judge.verdict import TableVerdict, Verdict
from holdfast.transport.producer import TransactionalProducer
from holdfast.types.stores import StoreDigest
from tests.integration.chaos.jobs import TITLES, Job, Kafka
from tests.integration.ingest.topics import open_transaction


@pytest.fixture
def servers(kafka: Kafka) -> str:
    return kafka.bootstrap_servers


@pytest.fixture
def job(servers: str) -> Iterator[Job]:
    made = Job(servers)
    made.read()
    made.mark()
    yield made
    made.producer.close()


def bad(verdict: TableVerdict) -> dict[str, Verdict]:
    return {f.checker: f.verdict for f in verdict.findings if f.verdict is not Verdict.VALID}


def test_a_right_table_is_valid(job: Job) -> None:
    job.emit_all()
    verdict = job.judged()
    assert bad(verdict) == {}
    assert (verdict.verdict, verdict.input_records, verdict.rows) == (Verdict.VALID, 5, 3)


def test_an_aborted_update_is_not_seen(job: Job) -> None:
    job.emit_all()
    producer = TransactionalProducer(job.client, job.application_id)
    producer.init()
    producer.begin()
    producer.send(job.query.sink.topic, 0, [b"Phantom"], [b'{"N":1}'])
    producer.abort()
    producer.close()
    assert bad(job.judged()) == {}


def test_a_lost_update_is_diverged(job: Job) -> None:
    for title in TITLES[:4]:
        job.emit(title, 1 + (title == "Aliens"))
    assert bad(job.judged())["diverged_values"] is Verdict.INVALID


def test_an_update_written_twice_is_found_though_the_table_ends_right(job: Job) -> None:
    job.emit_all()
    job.emit("Aliens", 3)
    wrong = ("duplicated_updates", "sink_history_legal")
    assert bad(job.judged()) == dict.fromkeys(wrong, Verdict.INVALID)


def test_a_state_partition_that_is_not_level_is_found(job: Job) -> None:
    job.emit_all()
    job.mark(behind=1)
    # The group shows the end, so it claims more than the markers do; one of them goes back.
    wrong = ("markers_agree", "markers_go_on", "group_agrees")
    assert bad(job.judged()) == dict.fromkeys(wrong, Verdict.INVALID)


@pytest.mark.parametrize(
    ("row", "wrong"),
    [(b"row", {}), (b"other", {"stores_agree": Verdict.INVALID})],
)
def test_a_store_is_compared_with_the_changelog(
    job: Job, row: bytes, wrong: dict[str, Any]
) -> None:
    job.emit_all()
    keys = [title.encode() for title in set(TITLES)]
    numbers = (hashlib.sha256(struct.pack(">I", len(k)) + k + row).digest()[:16] for k in keys)
    digest = f"{sum(int.from_bytes(n, 'big') for n in numbers) % 2**128:032x}"
    ends = job.admin.end_offsets(job.changelog)
    first = StoreDigest(job.application_id, job.query.id, 0, len(keys), ends[0], digest)
    second = StoreDigest(job.application_id, job.query.id, 1, 0, ends[1], f"{0:032x}")
    assert bad(job.judged(stores={0: [first], 1: [second]})) == wrong
    unread = {"stores_agree": Verdict.UNKNOWN}
    assert bad(job.judged(stores={0: [first]})) == (wrong or unread)


def test_a_sink_without_its_changelog_is_found(job: Job) -> None:
    job.emit("Aliens", 3)
    job.emit("Die Hard", 1)
    job.emit("Alien", 1, changelog=False)
    assert bad(job.judged()) == {"changelog_agrees": Verdict.INVALID}


def test_a_transaction_that_stays_open_is_found(job: Job) -> None:
    job.emit_all()
    record = (b"\x01x", b"row")
    producer = open_transaction(job.client["bootstrap.servers"], job.changelog, [record], 1)
    try:
        assert bad(job.judged()) == {"hanging_transactions": Verdict.INVALID}
    finally:
        producer.abort_transaction(30)


def test_a_job_that_has_not_caught_up_is_unknown(servers: str) -> None:
    job = Job(servers)
    job.read(offsets_behind=1)
    job.emit_all()
    verdict = job.judged(catch_up_s=0.5)
    assert bad(verdict) == {"catch_up": Verdict.UNKNOWN}
    assert "3 of 5 input offsets" in verdict.findings[0].fact
    job.producer.close()


@pytest.mark.parametrize(
    ("dropped", "wrong"),
    [
        (0, ["diverged_values", "late_records", "sink_times"]),
        (1, ["late_is_possible"]),  # the input is of one window
        (None, []),
    ],
)
def test_a_window_that_misses_late_records(
    servers: str, dropped: int | None, wrong: list[str]
) -> None:
    """Two records of one window are missing; each of two state partitions counts its drops."""
    job = Job(servers, windowed=True)
    job.read()
    job.emit("Aliens", 1)
    job.emit("Die Hard", 1)
    job.emit("Alien", 1)
    job.mark(dropped)
    found = bad(job.judged())
    assert [name for name, verdict in found.items() if verdict is Verdict.INVALID] == wrong
    assert ("diverged_values" in found) is (dropped != 1)
    job.producer.close()


@pytest.mark.parametrize(
    ("titles", "wrong"),
    [
        (TITLES, {}),
        (TITLES[1:], {"lost_records": Verdict.INVALID}),
        ([*TITLES, "Alien"], {"duplicated_records": Verdict.INVALID}),
        ([*TITLES, "Shrek"], {"phantom_records": Verdict.INVALID}),
    ],
)
def test_a_stateless_query(servers: str, titles: list[str], wrong: dict[str, Any]) -> None:
    job = Job(servers, stateless=True)
    job.read()
    for title in titles:
        value = json.dumps({"TITLE": title}).encode()
        job.producer.send(job.query.sink.topic, None, value, timestamp_ms=1)
    job.mark_sources()
    assert bad(job.judged()) == wrong
    job.producer.close()


def test_a_stateless_query_whose_marker_is_not_at_the_end(servers: str) -> None:
    job = Job(servers, stateless=True)
    job.read()
    for title in TITLES:
        value = json.dumps({"TITLE": title}).encode()
        job.producer.send(job.query.sink.topic, None, value, timestamp_ms=1)
    job.mark_sources(behind=1)
    wrong = dict.fromkeys(("markers_agree", "group_agrees"), Verdict.INVALID)
    assert bad(job.judged()) == wrong
    job.producer.close()


def test_a_statement_the_judge_does_not_know_is_unknown_with_the_reason(job: Job) -> None:
    statement = "CREATE TABLE t AS SELECT title, MY_OWN(ts) AS n FROM s GROUP BY title;"
    job.query = replace(job.query, statement=statement)
    verdict = job.judged()
    assert verdict.verdict is Verdict.UNKNOWN
    assert "MY_OWN" in verdict.findings[0].fact
