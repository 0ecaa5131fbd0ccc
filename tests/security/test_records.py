"""Bad records through a real job: what is a row of them is exact, and the job goes on."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.idempotent_producer import Producer
from holdfast.transport.reader import Chunk
from holdfast.types.ids import changelog_topic, dead_letter_topic
from holdfast.types.status import JobStatus
from tests.integration.ingest import topics
from tests.integration.transport.settling import await_settled
from tests.security.odd_records import COLUMNS, Odd, odd_records
from tests.support.jobs.running_job import WAIT_S, RunningJob

pytestmark = pytest.mark.timeout(900)


class Job(RunningJob):
    """One application and its process."""

    def chunks(self, topic: str) -> Iterator[Chunk]:
        await_settled(Admin(self.client), topic)
        yield from super().chunks(topic)


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[[str], Job]]:
    made: list[Job] = []

    def make(sql: str) -> Job:
        name = kafka_topic_name("app")[-40:]
        (tmp_path / "job.sql").write_text(sql)
        client = {"bootstrap.servers": kafka.bootstrap_servers}
        made.append(Job(tmp_path, client, name, properties={"state.partitions": "4"}))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def send(client: dict[str, str], topic: str, *records: tuple[bytes | None, bytes]) -> None:
    producer = Producer(client)
    for key, value in records:
        producer.send(topic, key, value, partition=0)
    producer.flush()


EACH = ", ".join(f"LATEST_BY_OFFSET({c}) AS {c}" for c in ("n", "d", "c", "s", "a", "m", "st"))
SQL = f"""
CREATE STREAM events (id STRING KEY, {COLUMNS})
  WITH (KAFKA_TOPIC='{{topic}}', VALUE_FORMAT='JSON', TIMESTAMP='ts');
CREATE TABLE people (id STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='{{topic}}-people', VALUE_FORMAT='JSON');
CREATE STREAM visits (id STRING KEY, v INT)
  WITH (KAFKA_TOPIC='{{topic}}-visits', VALUE_FORMAT='JSON');
CREATE STREAM copied WITH (KAFKA_TOPIC='{{topic}}-copied') AS SELECT * FROM events;
CREATE TABLE latest WITH (KAFKA_TOPIC='{{topic}}-latest') AS
  SELECT id, COUNT(*) AS counted, {EACH} FROM events GROUP BY id;
CREATE STREAM named WITH (KAFKA_TOPIC='{{topic}}-named') AS
  SELECT visits.id AS id, v, name FROM visits JOIN people ON visits.id = people.id;
"""


def test_odd_records_are_rows_or_dead_letters_and_the_job_goes_on(
    job: Callable[[str], Job], kafka: BrokerStatus
) -> None:
    topic = topics.create(kafka.bootstrap_servers)
    for name in ("people", "visits"):
        topics.create(kafka.bootstrap_servers, name=f"{topic}-{name}")
    odd = odd_records()
    assert len(odd) == 103
    running = job(SQL.format(topic=topic))
    client = running.client
    # The user's own, which takes less than the source: three letters do not fit.
    letters = dead_letter_topic(running.application_id)
    narrow = {"max.message.bytes": "500000"}
    topics.create(kafka.bootstrap_servers, name=letters, config=narrow)
    send(client, f"{topic}-people", (b"ann", b'{"name": "Ann"}'), (b"ann", b'{"name": ["Ann"'))
    send(client, topic, *((o.key, o.value) for o in odd))
    bad = sum(not o.good for o in odd)
    running.start()
    each = ("csas_copied", "ctas_latest", "csas_named")
    running.until(
        lambda s: [s.queries[q].dead_letters for q in each] == [bad, bad, 1], "all dead letters"
    )
    # It lives, and takes what comes after.
    send(client, topic, (b"after", b'{"n": 5, "ts": 1700000000000}'))
    send(client, f"{topic}-visits", (b"ann", b'{"v": 1}'))
    after = Odd(b"after", b"", good=True)
    good = Counter(o.key for o in [*odd, after] if o.good)
    counts = [len(odd) + 1, good.total(), 2]
    status = running.until(
        lambda s: [s.queries[q].records_total for q in each] == counts, "all records"
    )
    assert status.queries["ctas_latest"].dropped_null_key == 1
    assert running.stop() == 0, running.log()
    copied = Counter(key for key, _ in running.records(f"{topic}-copied"))
    assert copied == good
    table = {key: orjson.loads(value or b"") for key, value in running.records(f"{topic}-latest")}
    assert {key: row["COUNTED"] for key, row in table.items()} == {
        key: 1 for key in good if key is not None
    }
    named = [orjson.loads(value or b"") for _, value in running.records(f"{topic}-named")]
    assert named == [{"V": 1, "NAME": "Ann"}]
    check_letters(topics.letters(kafka.bootstrap_servers, letters), topic, odd)


def check_letters(found: list[topics.Letter], topic: str, odd: list[Odd]) -> None:
    """Each query has set aside each bad record once, unchanged where it fits."""
    of_events = [letter for letter in found if letter.headers["holdfast.topic"] == topic]
    places = Counter(
        (le.headers["holdfast.query"], le.headers["holdfast.offset"]) for le in of_events
    )
    assert set(places.values()) == {1}
    assert len({query for query, _ in places}) == 2
    wanted = Counter(str(n) for n, o in enumerate(odd) if not o.good)
    assert Counter(offset for _, offset in places) == wanted + wanted
    assert len(found) == len(of_events) + 1
    for letter in of_events:
        record = odd[int(letter.headers["holdfast.offset"])]
        assert letter.headers["holdfast.reason"]
        if len(record.value) + len(record.key or b"") < 400_000:
            assert (letter.key, letter.value) == (record.key, record.value)
        else:
            assert letter.headers["holdfast.value.sha256"] == sha256(record.value).hexdigest()
            assert letter.headers["holdfast.value.bytes"] == str(len(record.value))
            assert letter.value == record.value[:1_024]


LISTS = """
CREATE STREAM events (id STRING KEY, v STRING) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');
CREATE TABLE lists WITH (KAFKA_TOPIC='{topic}-lists') AS
  SELECT id, COLLECT_LIST(v) AS vs FROM events GROUP BY id;
"""


def test_a_row_that_has_grown_too_large_is_named_and_costs_no_other_row(
    job: Callable[[str], Job], kafka: BrokerStatus
) -> None:
    topic = topics.create(kafka.bootstrap_servers)
    running = job(LISTS.format(topic=topic))
    sink, changelog = f"{topic}-lists", changelog_topic(running.application_id, "ctas_lists")
    wide = {"max.message.bytes": "3000000"}
    topics.create(kafka.bootstrap_servers, name=sink, config=wide)
    small = [(b"k%d" % n, b'{"v": "%d"}' % n) for n in range(50)]
    large = [(b"large", b'{"v": "%s"}' % os.urandom(500_000).hex().encode()) for _ in range(2)]
    send(running.client, topic, *small, *large)
    refused = running.finish()
    assert refused.returncode == 2, refused.stderr
    assert f"A record for topic {changelog} " in refused.stderr
    assert "large' has 20" in refused.stderr
    assert "max.message.bytes=1048588 of the topic" in refused.stderr
    assert f"raise max.message.bytes of the topic {changelog}" in refused.stderr
    # The other state partitions have committed; the row itself is there once its topic takes it.
    before = {key for key, _ in running.records(sink)}
    assert b"large" not in before
    assert 20 < len(before) < 50
    TopicSettings(running.client).alter(changelog, wide)
    done = running.finish()
    assert done.returncode == 0, done.stderr
    rows = list(running.records(sink))
    assert Counter(key for key, _ in rows) == Counter([k for k, _ in small] + [b"large"])
    (value,) = (value for key, value in rows if key == b"large")
    assert orjson.loads(value or b"") == {"VS": [orjson.loads(v)["v"] for _, v in large]}


def test_one_table_stands_still_while_the_others_go_on(
    job: Callable[[str], Job], kafka: BrokerStatus
) -> None:
    topic = topics.create(kafka.bootstrap_servers)
    others = f"CREATE TABLE kinds WITH (KAFKA_TOPIC='{topic}-kinds') AS SELECT id, "
    others += "COUNT_DISTINCT(v) AS n, COUNT(*) AS c FROM events GROUP BY id;"
    running = job(LISTS.format(topic=topic) + others)
    sink, changelog = f"{topic}-lists", changelog_topic(running.application_id, "ctas_lists")
    topics.create(kafka.bootstrap_servers, name=sink, config={"max.message.bytes": "9000000"})
    running.start()
    send(running.client, topic, *[(b"k%d" % n, b'{"v": "%d"}' % n) for n in range(50)])
    running.until(lambda s: _records(s) == {"ctas_lists": 50, "ctas_kinds": 50}, "the first batch")

    large = os.urandom(500_000).hex().encode()
    send(running.client, topic, *[(b"large", b'{"v": "%s%d"}' % (large, n)) for n in range(2)])
    send(running.client, topic, *[(b"k%d" % n, b'{"v": "again"}') for n in range(50)])
    running.until(lambda s: _records(s)["ctas_kinds"] == 102, "that the other table goes on")
    deadline = time.monotonic() + WAIT_S
    while "stands still, the other queries go on" not in running.log_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert f"A record for topic {changelog} " in running.log_text()
    assert {orjson.loads(v or b"")["C"] for _, v in running.records(f"{topic}-kinds")} == {1, 2}

    TopicSettings(running.client).alter(changelog, {"max.message.bytes": "9000000"})
    running.until(lambda s: _records(s)["ctas_lists"] == 102, "that the table goes on by itself")
    assert running.stop() == 0
    last = dict(running.records(sink))
    assert len(orjson.loads(last[b"large"] or b"")["VS"]) == 2
    assert all(len(orjson.loads(last[b"k%d" % n] or b"")["VS"]) == 2 for n in range(50))


def _records(status: JobStatus) -> dict[str, int]:
    return {name: query.records_total for name, query in status.queries.items()}
