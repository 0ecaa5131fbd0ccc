"""One job in AVRO, PROTOBUF and JSON_SR, while its registry fails and its topics hold garbage."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from holdfast.deploy.local.processes import tree_of
from holdfast.local.broker import BrokerStatus
from holdfast.local.registry import RegistryStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.types.ids import dead_letter_topic
from holdfast.types.status import JobStatus
from tests.support.jobs.running_job import RunningJob
from tests.support.servers.faulty_registry import Fault, FaultyRegistry
from tests.support.values.registered_writers import (
    FORMATS,
    bad_payloads,
    decoded,
    encoded,
    schema_text,
)

pytestmark = pytest.mark.timeout(1_200)

_SQL = """
CREATE STREAM {form}_sales (k STRING KEY)
  WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='{form}');
CREATE TABLE {form}_sold WITH (KAFKA_TOPIC='{topic}-sold', FORMAT='{form}') AS
  SELECT title, COUNT(*) AS n, SUM(amount) AS total, SUM(price) AS prices, MAX(LEN(note)) AS longest
  FROM {form}_sales GROUP BY title;
"""
_TITLES, _PARTITIONS = ("Aliens", "Brazil", "Ran"), 2
_LONG = 25_000_000  # letters of one record's text, of two bytes each
_UNKNOWN = 987_654_321
_RECORD_MAX = {"max.message.bytes": "80000000"}
_GROWTH_MAX = 400 << 20  # bytes of all executors and their workers, over all faults
_WAITS = re.compile(
    r": (?:retrying after RegistryUnavailable|its stream starts again after): The schema registry "
)
_TOLD = {  # tests of the client try all faults
    Fault.HTML: "answers with something that is not JSON",
    Fault.ERROR: "answers 500",
    Fault.HANG: "does not answer",
}


@dataclass
class Sales(RunningJob):
    """A job of a query for each format; `behind` is the registry itself, not the proxy."""

    url: str = ""
    behind: str = ""
    sent: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {f: [] for f in FORMATS})
    ids: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.properties |= {
            "state.partitions": "2",
            "executors": "1",  # ids are known to an executor
            "schema.registry.url": self.url,
            "schema.registry.request.timeout.ms": "1000",
        }
        self.registry = SchemaRegistryClient({"url": self.behind})
        self.producer = Producer(self.client | {"message.max.bytes": "80000000"})
        statements = [_SQL.format(form=form, topic=self.topic(form)) for form in FORMATS]
        (self.home / "job.sql").write_text("".join(statements))
        for form in FORMATS:
            Admin(self.client).ensure_topic(self.topic(form), _PARTITIONS, -1, _RECORD_MAX)
            self.register(form, 0)

    def topic(self, form: str) -> str:
        return f"{self.application_id}-{form.lower()}"

    def register(self, form: str, number: int) -> None:
        schema = Schema(schema_text(form, number), FORMATS[form])
        subject = f"{self.topic(form)}-value"
        self.ids[form, number] = self.registry.register_schema(subject, schema)

    def others(self) -> dict[str, int]:
        """Ids of schemas whose `amount` is text, by format."""
        texts = {
            "AVRO": '{"type":"record","name":"R","fields":[{"name":"amount","type":"string"}]}',
            "PROTOBUF": 'syntax = "proto3"; message R { string amount = 1; }',
            "JSON_SR": '{"type":"object","properties":{"amount":{"type":"string"}}}',
        }
        made = {
            form: self.registry.register_schema(f"{self.topic(form)}-other", Schema(text, kind))
            for (form, kind), text in zip(FORMATS.items(), texts.values(), strict=True)
        }
        return made | {"unknown": _UNKNOWN}

    def payload(self, form: str, number: int, sale: dict[str, Any]) -> bytes:
        return encoded(form, number, self.ids[form, number], sale)

    def produce(self, form: str, count: int, number: int = 0, *, note: str = "") -> None:
        sent = self.sent[form]
        for place in range(len(sent), len(sent) + count):
            sale = {
                "title": _TITLES[place % 3],
                "amount": place % 100,
                "price": Decimal(place % 700) / 100,
                "note": note or "x" * (place % 4),
            }
            sent.append(sale)
            self.send(form, self.payload(form, number, sale), place)
        self.producer.flush()

    def send(self, form: str, value: bytes, place: int = 0) -> None:
        self.producer.send(self.topic(form), b"k", value, partition=place % _PARTITIONS)

    def counted(self, forms: Collection[str]) -> Callable[[JobStatus], bool]:
        """Whether all good records of these formats are in the results."""

        def holds(status: JobStatus) -> bool:
            return all(self.done(status, form) == len(self.sent[form]) for form in forms)

        return holds

    @staticmethod
    def done(status: JobStatus, form: str) -> int:
        query = status.queries.get(f"ctas_{form.lower()}_sold")
        return 0 if query is None else query.input_records - query.dead_letters

    def memory_bytes(self, status: JobStatus) -> int:
        found = 0
        for process in (p for each in status.executors for p in tree_of(each.jvm_pid)):
            with suppress(psutil.NoSuchProcess):  # a worker that has just ended
                found += process.memory_info().rss
        return found

    def expected(self, form: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for title in _TITLES:
            of = [sale for sale in self.sent[form] if sale["title"] == title]
            found[title] = {
                "N": len(of),
                "TOTAL": sum(sale["amount"] for sale in of),
                "PRICES": sum(sale["price"] for sale in of),
                "LONGEST": max(len(sale["note"]) for sale in of),
            }
        return found

    def found(self, form: str) -> dict[str, dict[str, Any]]:
        def read(payload: bytes | None, *, key: bool) -> Any:
            assert payload is not None
            text = self.registry.get_schema(int.from_bytes(payload[1:5], "big")).schema_str
            return decoded(form, str(text), payload, key=key)

        records = self.records(f"{self.topic(form)}-sold")
        return {read(key, key=True): read(value, key=False) for key, value in records}


@pytest.fixture
def proxy(registry: RegistryStatus) -> Iterator[FaultyRegistry]:
    with FaultyRegistry(registry.url) as made:
        yield made


@pytest.fixture
def job(
    registry: RegistryStatus,
    proxy: FaultyRegistry,
    kafka: BrokerStatus,
    kafka_topic_name: Callable[[str], str],
    tmp_path: Path,
) -> Iterator[Sales]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    name = kafka_topic_name("app")[-40:]
    made = Sales(tmp_path, client, name, url=proxy.url, behind=registry.url)
    with made.registry:
        yield made
    made.stop()


def test_nothing_is_lost_or_counted_twice_while_the_registry_fails(
    job: Sales, proxy: FaultyRegistry
) -> None:
    for form in FORMATS:
        job.produce(form, 300)
    job.start()
    began = job.memory_bytes(job.until(job.counted(FORMATS), "the first records"))
    for number, fault in enumerate(_TOLD, 1):
        waiting = [*FORMATS][number % 3]
        job.register(waiting, number)
        told = len(_WAITS.findall(job.log_text()))
        proxy.begin(fault)
        for form in FORMATS:
            job.produce(form, 50)
        job.until(job.counted(FORMATS), f"known ids while it {fault}")
        known = len(job.sent[waiting])
        job.produce(waiting, 100, number)
        for form in {*FORMATS} - {waiting}:
            job.produce(form, 100)
        job.until(
            lambda _, told=told: len(_WAITS.findall(job.log_text())) > told,  # type: ignore[misc]
            f"the job says that it waits while the registry {fault}",
        )
        status = job.until(job.counted({*FORMATS} - {waiting}), f"the others while it {fault}")
        assert proxy.hits > 0
        assert job.done(status, waiting) == known
        last = _WAITS.split(job.log_text())[-1]
        assert _TOLD[fault] in last, last[:500]
        proxy.heal()
        job.until(job.counted(FORMATS), f"the records that waited while the registry {fault}")
    grown = job.memory_bytes(job.until(lambda _: True, "a status")) - began
    assert job.stop() == 0
    assert grown < _GROWTH_MAX
    for form in FORMATS:
        assert job.found(form) == job.expected(form)
    assert not list(job.records(dead_letter_topic(job.application_id)))


def test_garbage_is_a_dead_letter_with_its_reason_and_its_neighbours_count(job: Sales) -> None:
    reasons: dict[tuple[str, bytes], str] = {}
    others = job.others()
    for form in FORMATS:
        job.produce(form, 100)
        good = job.payload(form, 0, job.sent[form][-1])
        bad = bad_payloads(form, good, others)
        for place, payload in enumerate(bad):
            job.send(form, payload, place)
        reasons |= {(job.topic(form), payload): why for payload, why in bad.items()}
        job.produce(form, 100)
        job.produce(form, 1, note="é" * _LONG)
    ended = job.finish()
    assert ended.returncode == 0, ended.stderr
    for form in FORMATS:
        assert job.found(form) == job.expected(form)
    letters: Counter[tuple[str, bytes]] = Counter()
    for chunk in job.chunks(dead_letter_topic(job.application_id)):
        for value, headers in zip(chunk.values, chunk.headers, strict=True):
            told = {name: (data or b"").decode() for name, data in headers}
            letter = (told["holdfast.topic"], value or b"")
            assert reasons[letter] in told["holdfast.reason"], (letter, told)
            letters[letter] += 1
    assert letters == Counter(dict.fromkeys(reasons, 1))
