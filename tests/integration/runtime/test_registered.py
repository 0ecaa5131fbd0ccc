"""A job over topics with a real schema registry, which goes away and comes back."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from holdfast.cli.main import main
from holdfast.local.broker import BrokerStatus
from holdfast.local.registry import LocalRegistry, RegistryStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.types.ids import dead_letter_topic
from holdfast.types.status import JobStatus
from tests.support.jobs.running_job import RunningJob

pytestmark = pytest.mark.timeout(900)

SQL = """
CREATE STREAM sales (buyer STRING KEY) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='AVRO');
CREATE TABLE sold WITH (KAFKA_TOPIC='{topic}-sold', FORMAT='AVRO') AS
  SELECT title, COUNT(*) AS n, SUM(amount) AS total, COUNT_DISTINCT(currency) AS currencies
  FROM sales GROUP BY title EMIT CHANGES;
CREATE STREAM large WITH (KAFKA_TOPIC='{topic}-large') AS
  SELECT buyer, title, amount, currency FROM sales WHERE amount >= 90 EMIT CHANGES;
"""
STRICT = """
CREATE STREAM sales (buyer STRING KEY) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='AVRO');
CREATE TABLE latest
  WITH (KAFKA_TOPIC='{topic}-latest', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID={id}) AS
  SELECT title, COUNT(*) AS n, LATEST_BY_OFFSET(currency, false) AS currency
  FROM sales GROUP BY title EMIT CHANGES;
"""
TITLES, PARTITIONS = ("Aliens", "Brazil", "Ran"), 3
_TITLE = {"name": "title", "type": "string"}
_CURRENCY = {"name": "currency", "type": ["null", "string"], "default": None}
# What a topic's writers change in the course of time: types grow, fields come, move and go.
WRITERS: dict[int, list[dict[str, Any]]] = {
    1: [_TITLE, {"name": "amount", "type": "int"}],
    2: [_CURRENCY, {"name": "amount", "type": "long"}, _TITLE],
    3: [_TITLE, {"name": "note", "type": "string"}, {"name": "amount", "type": "int"}, _CURRENCY],
}
WAITS = "retrying after RegistryUnavailable: The schema registry "


@dataclass
class Sales(RunningJob):
    """A job over one topic that several writers fill."""

    url: str = ""
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.properties |= {
            "state.partitions": "4",
            "executors": "2",
            "schema.registry.url": self.url,
            "schema.registry.request.timeout.ms": "2000",
        }
        (self.home / "job.sql").write_text(SQL.format(topic=self.topic))
        Admin(self.client).ensure_topic(self.topic, PARTITIONS, -1, {})
        self.registry = SchemaRegistryClient({"url": self.url})
        self.writers = {n: self._writer(fields) for n, fields in WRITERS.items()}

    @property
    def topic(self) -> str:
        return f"{self.application_id}-sales"

    def _writer(self, fields: list[dict[str, Any]]) -> AvroSerializer:
        text = json.dumps({"type": "record", "name": "Sale", "fields": fields})
        made: AvroSerializer = AvroSerializer(self.registry, text)
        return made

    def register(self) -> None:
        """Writers register what they write with; the newest schema is that of writer 2."""
        for number in (1, 3, 2):
            self.written(number, self.sale(0, number))

    def written(self, writer: int, sale: Mapping[str, Any]) -> bytes:
        found = self.writers[writer](sale, SerializationContext(self.topic, MessageField.VALUE))
        assert isinstance(found, bytes)
        return found

    @staticmethod
    def sale(number: int, writer: int) -> dict[str, Any]:
        sale: dict[str, Any] = {"title": TITLES[number % 3], "amount": number % 100}
        if writer > 1:
            sale["currency"] = (None, "EUR", "YEN")[number % 7 % 3]
        return sale | ({"note": "x" * (number % 5)} if writer == 3 else {})

    def produce(self, count: int, *writers: int, beside: tuple[bytes, ...] = ()) -> None:
        """Records of these writers by turns, and others among them."""
        producer = Producer(self.client)
        for number in range(len(self.sent), len(self.sent) + count):
            writer = writers[number % len(writers)]
            sale, buyer = self.sale(number, writer), f"b{number % 50}"
            value = self.written(writer, sale)
            producer.send(self.topic, buyer.encode(), value, partition=number % PARTITIONS)
            self.sent.append((buyer, sale))
        for value in beside:
            producer.send(self.topic, b"bad", value, partition=0)
        producer.flush()

    def counted(self) -> Callable[[JobStatus], bool]:
        """Whether all good records are in both results."""
        wanted = len(self.sent)

        def holds(status: JobStatus) -> bool:
            queries = status.queries.values()
            return len(queries) == 2 and all(
                q.input_records - q.dead_letters >= wanted for q in queries
            )

        return holds

    def read(self, topic: str, data: bytes | None, part: MessageField) -> Any:
        return AvroDeserializer(self.registry)(data, SerializationContext(topic, part))


Make = AbstractContextManager[Sales]


@pytest.fixture
def make(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Callable[[str], Make]:
    """Makes the job, given the address of its registry; it is stopped at the end."""

    @contextmanager
    def job(url: str) -> Iterator[Sales]:
        client = {"bootstrap.servers": kafka.bootstrap_servers}
        made = Sales(tmp_path, client, kafka_topic_name("app")[-40:], url=url)
        made.register()
        with made.registry:
            yield made
        made.stop()

    return job


@pytest.fixture
def job(own_registry: LocalRegistry, make: Callable[[str], Make]) -> Iterator[Sales]:
    """Its registry may be killed."""
    with make(own_registry.start(port=0).url) as made:
        yield made


@pytest.fixture
def small(registry: RegistryStatus, make: Callable[[str], Make]) -> Iterator[Sales]:
    """Its registry is the session's, and one executor is enough for what it does."""
    with make(registry.url) as made:
        made.properties["executors"] = "1"
        yield made


def _kill(registry: LocalRegistry) -> int:
    status = registry.status()
    assert status is not None
    os.kill(status.pid, signal.SIGKILL)
    psutil.Process(status.pid).wait(60)
    return status.port


def _exact_tables(job: Sales) -> None:
    by_title: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, sale in job.sent:
        by_title[sale["title"]].append(sale)
    expected = {
        title: {
            "N": len(sales),
            "TOTAL": sum(s["amount"] for s in sales),
            "CURRENCIES": len({s.get("currency") for s in sales} - {None}),
        }
        for title, sales in by_title.items()
    }
    topic = f"{job.topic}-sold"
    found = {
        job.read(topic, k, MessageField.KEY): job.read(topic, v, MessageField.VALUE)
        for k, v in job.records(topic)
    }
    assert found == expected


def _exact_stream(job: Sales) -> None:
    topic = f"{job.topic}-large"
    found = Counter(
        ((k or b"").decode(), json.dumps(job.read(topic, v, MessageField.VALUE), sort_keys=True))
        for k, v in job.records(topic)
    )
    expected = Counter(
        (buyer, json.dumps({"AMOUNT": s["amount"], "CURRENCY": s.get("currency"),
                            "TITLE": s["title"]}, sort_keys=True))
        for buyer, s in job.sent if s["amount"] >= 90
    )  # fmt: skip
    assert found == expected


def test_tables_are_exact_while_schemas_change_and_the_registry_goes(
    job: Sales, own_registry: LocalRegistry
) -> None:
    cut = job.written(1, job.sale(1, 1))[:-1]
    bad = (b"no id", b"\0\0\1", cut, b"\0" + (987_654_321).to_bytes(4, "big") + b"x")
    job.produce(3_000, 1, 2, beside=bad)
    job.start()
    first = job.until(job.counted(), "the first records")
    assert all(q.dead_letters == len(bad) for q in first.queries.values())
    letters = Counter(v for _, v in job.records(dead_letter_topic(job.application_id)))
    assert letters == Counter(2 * bad), "each query keeps each bad record once"

    port = _kill(own_registry)
    job.produce(1_000, 2, 1)
    job.until(job.counted(), "records with known ids, without a registry")
    job.produce(1_000, 3)
    job.until(lambda _: WAITS in job.log_text(), "the job says that it waits")
    job.kill_executor(first.executors[0])
    own_registry.start(port=port)
    job.until(job.counted(), "records with an id that was not known")
    _exact_tables(job)
    _exact_stream(job)
    assert main(["verify", *job.command()[4:]]) == 0
    assert job.stop() == 0


def test_check_tells_which_schemas_are_missing_and_topics_registers_them(
    job: Sales, capsys: pytest.CaptureFixture[str]
) -> None:
    """The registry is the one that the home has: nobody names it."""
    del job.properties["schema.registry.url"]
    options = [*job.command()[4:], "--home", str(job.home / "registry"), "--json"]
    subjects = [f"{job.topic}-{part}" for part in ("sold-key", "sold-value", "large-value")]

    def printed(command: str) -> Any:
        assert main([command, *options]) == 0
        return json.loads(capsys.readouterr().out)["schemas"]

    missing = [{"subject": subject, "id": None} for subject in subjects]
    assert printed("check") == missing
    assert printed("check") == missing, "it registers nothing"
    made = printed("topics")
    there = [{"subject": s, "id": job.registry.get_latest_version(s).schema_id} for s in subjects]
    assert made == [{**each, "registered": True} for each in there]
    assert printed("check") == there
    assert printed("topics") == [{**each, "registered": False} for each in there]
    text = json.dumps({"type": "record", "name": "R", "fields": WRITERS[1]})
    job.registry.register_schema(subjects[-1], Schema(text, "AVRO"))
    assert printed("check") == there, "an older version counts"


def test_a_sink_that_does_not_fit_its_subject_is_refused_at_the_start(
    small: Sales, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '{"type": "record", "name": "R", "fields": [{"name": "other", "type": "int"}]}'
    small.registry.set_compatibility(f"{small.topic}-sold-value", "FULL")
    small.registry.register_schema(f"{small.topic}-sold-value", Schema(text, "AVRO"))
    for command in ("check", "topics"):
        assert main([command, *small.command()[4:]]) == 2
        assert f"refuses a schema for {small.topic}-sold-value" in capsys.readouterr().err
    assert f"{small.topic}-sold-key" not in small.registry.get_subjects(), "all or none"
    ended = small.finish()
    assert ended.returncode == 2
    assert "refuses a schema" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert Admin(small.client).describe(f"{small.topic}-sold") is None, "nothing was made"


def test_a_value_that_the_sink_s_schema_does_not_take_is_told_and_costs_nothing(
    small: Sales,
) -> None:
    fields = [{"name": "N", "type": "long"}, {"name": "CURRENCY", "type": "string"}]
    text = json.dumps({"type": "record", "name": "Latest", "fields": fields})
    topic = f"{small.topic}-latest"
    number = small.registry.register_schema(f"{topic}-value", Schema(text, "AVRO"))
    (small.home / "job.sql").write_text(STRICT.format(topic=small.topic, id=number))
    small.produce(300, 2)
    producer = Producer(small.client)

    def sold(title: str, currency: str | None) -> None:
        sale = {"title": title, "amount": 1, "currency": currency}
        producer.send(small.topic, b"b1", small.written(2, sale), partition=0)
        producer.flush()

    sold("Ran", None)
    refused = small.finish()
    assert refused.returncode == 2
    assert "CURRENCY is NULL in " in refused.stderr
    assert "but the schema's string takes no null" in refused.stderr
    assert "Traceback" not in refused.stderr

    mended = STRICT.replace("CREATE TABLE", "CREATE OR REPLACE TABLE").replace(
        "LATEST_BY_OFFSET(currency, false)", "COALESCE(LATEST_BY_OFFSET(currency, false), 'none')"
    )
    (small.home / "job.sql").write_text(mended.format(topic=small.topic, id=number))
    sold("Aliens", "USD")
    ended = small.finish()
    assert ended.returncode == 0, ended.stderr
    found = {k: small.read(topic, v, MessageField.VALUE) for k, v in small.records(topic)}
    assert {k: row["N"] for k, row in found.items()} == {
        b"Aliens": 101,
        b"Brazil": 100,
        b"Ran": 101,
    }
    assert (found[b"Aliens"]["CURRENCY"], found[b"Ran"]["CURRENCY"]) == ("USD", "none")
