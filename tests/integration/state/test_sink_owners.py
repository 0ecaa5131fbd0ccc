"""A sink has one owner: claimed in Kafka, by the order of one log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.config.settings import Settings
from holdfast.deploy.checks.preflight import make_missing
from holdfast.errors import SinkOwned
from holdfast.local.broker import BrokerStatus
from holdfast.runtime import job
from holdfast.sql import compile_text
from holdfast.state.topics.sink_owners import SinkOwners, claims_sink
from holdfast.transport.cluster.admin import Admin
from holdfast.types.statements.topology import Query

SQL = """CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');
CREATE TABLE t WITH (KAFKA_TOPIC='{0}') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
CREATE STREAM o (k STRING KEY, v INT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON', PARTITIONS=1);
INSERT INTO o SELECT * FROM s;
CREATE TABLE two AS SELECT n, COUNT(*) AS c FROM t GROUP BY n;"""


@pytest.fixture
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def query(kafka_topic_name: Callable[[str], str]) -> Query:
    return compile_text(SQL.format(kafka_topic_name("sink"))).queries[0]


def _owners(client: dict[str, str]) -> SinkOwners:
    return SinkOwners(Admin(client), client)


def test_the_first_to_claim_owns_until_it_gives_up(client: dict[str, str], query: Query) -> None:
    owners, sink = _owners(client), query.sink.topic
    owners.check(query, "id", "second")
    owners.claim(query, "id", "first")
    owners.claim(query, "id", "first")  # started again
    for ask in (owners.check, owners.claim):
        with pytest.raises(SinkOwned, match="belongs to ctas_t of the application first since 20"):
            ask(query, "id", "second")
    with pytest.raises(SinkOwned, match="ctas_other of first may not write it"):
        owners.claim(replace(query, id="ctas_other"), "id", "first")
    owners.claim(query, "made anew", "second")  # another topic of that name
    owners.give_up(query, "second")
    with pytest.raises(SinkOwned):
        owners.claim(query, "id", "second")  # the claim that lost is gone, too
    assert owners.release([sink])
    owners.claim(query, "id", "second")
    with pytest.raises(SinkOwned, match="application second"):
        owners.claim(query, "id", "first")


def test_of_many_that_start_at_once_one_owns(client: dict[str, str], query: Query) -> None:
    start, won, lost = threading.Barrier(6), [], []

    def run(name: str) -> None:
        owners = _owners(client)
        owners.claims()
        start.wait()
        try:
            owners.claim(query, "id", name)
            won.append(name)
        except SinkOwned as error:
            lost.append(error.fact)

    threads = [threading.Thread(target=run, args=(f"app-{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 5)
    assert all(f"application {won[0]} " in fact for fact in lost)
    mine = [c for c in _owners(client).claims() if c.sink == query.sink.topic]
    assert [c.application_id for c in mine] == won


def test_a_job_whose_sink_has_an_owner_makes_nothing_before_it_is_refused(
    client: dict[str, str],
    query: Query,
    kafka_topic_name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_spark(*_: object) -> None:
        pytest.fail("Spark was started for a job that is refused")

    admin, name = Admin(client), kafka_topic_name("late")
    sink = admin.ensure_topic(query.sink.topic, 1)
    _owners(client).claim(query, sink.topic_id, "first")
    monkeypatch.setattr(job, "spark_context", no_spark)
    settings = Settings(name, bootstrap_servers=client["bootstrap.servers"], home=str(tmp_path))
    avro = "', VALUE_FORMAT='AVRO"  # no registry is there to be asked
    topology = compile_text(SQL.format(query.sink.topic + avro))
    for start in (job.run, make_missing):  # `holdfast run`, `holdfast topics`
        with pytest.raises(SinkOwned, match="belongs to ctas_t of the application first"):
            start(topology, settings)
    assert not [topic for topic in admin.names() if name in topic]


def test_only_a_statement_that_makes_its_sink_claims_it() -> None:
    queries = compile_text(SQL.format("sink")).queries
    assert [q.id for q in queries if claims_sink(q)] == ["ctas_t", "ctas_two"]


def test_a_person_lists_and_releases(
    client: dict[str, str], query: Query, capsys: pytest.CaptureFixture[str]
) -> None:
    sink, servers = query.sink.topic, ["--set", f"bootstrap.servers={client['bootstrap.servers']}"]
    _owners(client).claim(query, "id", "gone")
    assert main(["sinks", *servers]) == 0
    assert f"{sink} belongs to ctas_t of the application gone since" in capsys.readouterr().out
    assert main(["sinks", *servers, "--release", sink]) == 0
    assert "was released; it belonged to ctas_t" in capsys.readouterr().out
    _owners(client).claim(query, "id", "next")
