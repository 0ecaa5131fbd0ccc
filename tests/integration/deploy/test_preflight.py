"""`holdfast check`, `topics` and `smoke` on a real broker, without a running job."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast.cli.main import main
from holdfast.cli.statements.options import Sql, load_job
from holdfast.local.broker import BrokerStatus
from holdfast.state.changelog import FORMAT_VERSION, MARKER_KEY, CommitMarker
from holdfast.state.markers import last_markers
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.partitioner import PARTITIONER
from holdfast.transport.producer import Producer, TransactionalProducer
from holdfast.types.ids import OffsetRange, changelog_topic, consumer_group, progress_topic
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.topology import Query
from tests.integration.transport.settling import await_settled

PARTITIONS = 2


@dataclass
class Case:
    """One job that is yet to be deployed."""

    servers: str
    source: str
    application_id: str
    capsys: pytest.CaptureFixture[str]

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.servers}

    @property
    def changelog(self) -> str:
        return changelog_topic(self.application_id, self.query().id)

    @property
    def progress(self) -> str:
        return progress_topic(self.application_id, self.query().id)

    @property
    def sink(self) -> str:
        return f"{self.source}-t"

    def sql(self, aggregate: str = "COUNT(*)", more: str = "PARTITIONS=1") -> str:
        return (
            f"CREATE STREAM s (k STRING, v INT) WITH (KAFKA_TOPIC='{self.source}', "
            f"VALUE_FORMAT='JSON'{', ' * bool(more)}{more}); CREATE TABLE t WITH "
            f"(KAFKA_TOPIC='{self.sink}') AS SELECT k, {aggregate} AS n FROM s GROUP BY k;"
        )

    def arguments(self, sql: str) -> list[str]:
        properties = {
            "application.id": self.application_id,
            "bootstrap.servers": self.servers,
            "state.partitions": PARTITIONS,
        }
        return ["--sql", sql, *(p for k, v in properties.items() for p in ("--set", f"{k}={v}"))]

    def query(self) -> Query:
        _, _, *overrides = self.arguments("")
        sets = [text for text in overrides if text != "--set"]
        return load_job(Sql(given=self.sql()), None, sets, None).topology.queries[0]

    def run(self, command: str, *more: str, sql: str | None = None) -> tuple[int, dict[str, Any]]:
        """(exit status, what was printed as JSON)"""
        status = main([command, *self.arguments(sql or self.sql()), "--json", *more])
        found: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return status, found

    def produce(self, records: int) -> None:
        producer = Producer(self.client)
        for n in range(records):
            producer.send(self.source, b"k", orjson.dumps({"k": f"k{n}", "v": n}))
        producer.flush()

    def commit(self, state_partition: int, end: int) -> None:
        """Writes the records of a state task's commit to the changelog and the sink."""
        query = self.query()
        marker = CommitMarker(
            FORMAT_VERSION, self.application_id, query.id, state_partition, PARTITIONS,
            PARTITIONER, query.fingerprint(), query.canonical(),
            OffsetRange.of(self.source, {0: 0}, {0: end}), 0, 0, records=end,
            facts=statement_facts(query),
        )  # fmt: skip
        name = f"{self.application_id}-{state_partition}"
        producer = TransactionalProducer(self.client, name, 20_000)
        producer.init()
        producer.begin()
        producer.send(self.sink, [0], [b"k0"], [b'{"N": 1}'])
        producer.send_marker(self.changelog, state_partition, MARKER_KEY, marker.to_bytes())
        producer.commit()
        producer.close()
        for topic in (self.changelog, self.sink):
            await_settled(Admin(self.client), topic)


@pytest.fixture
def case(
    kafka: BrokerStatus,
    kafka_topic_name: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> Case:
    source, application = kafka_topic_name("in")[-40:], kafka_topic_name("app")[-40:]
    return Case(kafka.bootstrap_servers, source, application, capsys)


def topics_of(found: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    return {t["name"]: (t["role"], t["exists"]) for t in found["topics"]}


def test_check_creates_nothing_and_topics_creates_all(case: Case) -> None:
    status, found = case.run("check")
    assert (status, found["ok"]) == (0, True)
    planned = topics_of(found)
    assert planned == {
        case.source: ("source", False),
        case.sink: ("sink", False),
        f"{case.application_id}-dead-letter": ("dead letters", False),
        case.changelog: ("changelog", False),
        case.progress: ("progress", False),
    }
    assert all(Admin(case.client).describe(name) is None for name in planned)
    assert found["queries"][0]["committed"] == 0
    assert found["bootstrap_servers"] == case.servers
    (of,) = found["lineage"]
    assert [relation["topic"] for relation in of["inputs"]] == [case.source]
    assert of["output"]["topic"] == case.sink
    assert all(each["topic"] == case.source for each in of["rows"])
    status, made = case.run("topics")
    assert status == 0
    assert {t["name"]: t["created"] for t in made["topics"]} == dict.fromkeys(planned, True)
    assert all(Admin(case.client).describe(name) is not None for name in planned)
    _, again = case.run("topics")
    assert not any(t["created"] for t in again["topics"])


def test_a_source_that_nobody_makes_is_missing(case: Case) -> None:
    status, found = case.run("check", sql=case.sql(more=""))
    assert status == 2
    assert found["error"]["kind"] == "TopicMissing"
    assert "PARTITIONS" in found["error"]["action"]


def test_state_of_another_statement_is_found_before_a_deployment(case: Case) -> None:
    case.run("topics")
    case.produce(5)
    case.commit(0, 5)
    status, found = case.run("check")
    assert status == 0
    assert (found["queries"][0]["committed"], found["queries"][0]["records"]) == (1, 5)
    for command in ("check", "smoke"):
        status, refused = case.run(command, sql=case.sql("SUM(v)"))
        assert status == 2
        assert refused["error"]["kind"] == "IncompatibleStatement"
        assert "written by another statement" in refused["error"]["fact"]


def test_a_renamed_output_column_is_found_before_a_deployment(case: Case) -> None:
    case.run("topics")
    case.produce(5)
    case.commit(0, 5)
    status, refused = case.run("check", sql=case.sql().replace("AS n", "AS m"))
    assert (status, refused["error"]["kind"]) == (2, "IncompatibleStatement")
    assert "the output columns differ: M is new; N is gone" in (refused["error"]["fact"])


def test_another_number_of_state_partitions_is_refused(case: Case) -> None:
    case.run("topics")
    status, found = case.run("check", "--set", "state.partitions=3")
    assert status == 2
    assert "has 2 partitions, state.partitions is 3" in found["error"]["fact"]


def test_a_changelog_that_forgets_is_refused(case: Case) -> None:
    Admin(case.client).ensure_topic(case.changelog, PARTITIONS, config={})
    status, found = case.run("check")
    assert status == 2
    assert "cleanup.policy=delete, not compact" in found["error"]["fact"]


def test_progress_without_a_changelog_is_refused(case: Case) -> None:
    case.run("topics")
    case.produce(5)
    admin = Admin(case.client)
    admin.commit_group(consumer_group(case.application_id, case.query().id), case.source, {0: 5})
    status, found = case.run("check")
    assert (status, found["error"]["kind"]) == (2, "ChangelogLost")
    status, _ = case.run("check", "--set", "on.changelog.loss=rebuild")
    assert status == 0


def test_source_records_that_are_gone_are_refused(case: Case) -> None:
    case.run("topics")
    case.commit(0, 50)  # beyond the end of a topic that was made anew
    status, found = case.run("check")
    assert (status, found["error"]["kind"]) == (2, "DataLoss")
    status, _ = case.run("check", "--set", "fail.on.data.loss=false")
    assert status == 0


def test_smoke_waits_for_markers_and_reads_results(case: Case) -> None:
    case.run("topics")
    status, empty = case.run("smoke", "--timeout", "0")
    assert status == 0
    assert empty["queries"][0]["note"] == f"its source topic {case.source} is empty"
    case.produce(5)
    case.commit(0, 5)
    status, found = case.run("smoke", "--timeout", "0")
    assert status == 1
    assert "1 of 2 state partitions have committed nothing ([1])" in found["error"]["fact"]
    case.commit(1, 5)
    status, found = case.run("smoke")
    assert status == 0
    query = found["queries"][0]
    assert (query["committed"], query["decoded"]) == (2, 2)
    assert query["sample"] == {"key": ["k0"], "value": {"N": 1}}
    poison = Producer(case.client)
    poison.send(case.sink, b"k0", b"garbage")
    poison.flush()
    status, found = case.run("smoke", "--timeout", "0")
    assert status == 1
    assert "cannot be decoded" in found["error"]["fact"]


def test_the_last_marker_is_found_behind_many_records(case: Case) -> None:
    case.run("topics")
    case.commit(0, 5)
    producer = Producer(case.client)
    for n in range(1_000):  # more than the first look takes in
        producer.send(case.changelog, b"\x01k%d" % n, b"row", partition=0)
    producer.flush()
    found = last_markers(case.client, case.changelog, PARTITIONS)
    assert found[0] is not None
    assert list(found[0].source.ends().values()) == [5]
    assert found[1] is None


def test_a_missing_file_is_told_as_json_too(tmp_path: Path, case: Case) -> None:
    assert main(["check", str(tmp_path / "no.sql"), "--json"]) == 2
    assert "cannot be read" in json.loads(case.capsys.readouterr().out)["error"]["fact"]
