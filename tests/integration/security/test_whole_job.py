"""A whole job on a secured broker: every component as another principal, with the least ACLs.

The driver and its executors come with a password (SCRAM), the query server with a token, the judge
with a password (PLAIN), compaction with a certificate, and the selftest with a token.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from holdfast.client import Client
from holdfast.compaction.apply.applied import Outcome
from holdfast.errors import HoldfastError
from holdfast.local.probe import HOST, free_port
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer
from holdfast.types.acls import Names, Part, bindings, needs_of
from tests.integration.compaction.applying import applied, applying, planned, surveyed
from tests.integration.compaction.changelogs import make_changelog
from tests.integration.security.secured_job import SecuredJob
from tests.support.servers.secured_kafka import SecuredKafka, Way

pytestmark = pytest.mark.timeout(600)

_APP = "store"
_SQL = """
CREATE STREAM sales (id STRING KEY, customer STRING, amount BIGINT)
  WITH (KAFKA_TOPIC='sales', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE people (customer STRING PRIMARY KEY, city STRING)
  WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE TABLE sums WITH (KAFKA_TOPIC='sums') AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY customer;
CREATE TABLE cities WITH (KAFKA_TOPIC='cities') AS
  SELECT p.city, COUNT(*) AS n FROM sales s JOIN people p ON s.customer = p.customer
  GROUP BY p.city;
CREATE STREAM large WITH (KAFKA_TOPIC='large') AS SELECT id, amount FROM sales WHERE amount > 5;
CREATE STREAM placed WITH (KAFKA_TOPIC='placed') AS
  SELECT s.customer, s.amount, p.city FROM sales s JOIN people p ON s.customer = p.customer;
INSERT INTO people (customer, city) VALUES ('nobody', 'Nowhere');
"""
_WHO = {
    Part.JOB: ("job", Way.SCRAM),
    Part.SERVE: ("server", Way.TOKEN),
    Part.VERIFY: ("judge", Way.PLAIN),
    Part.APPLY: ("compactor", Way.CERTIFICATE),
    Part.SELFTEST: ("tester", Way.TOKEN),
}
_CUSTOMERS, _SALES, _BAD = 7, 210, 1  # fewer bad ones than are warned about


@pytest.fixture(scope="module")
def store(secured: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredJob]:
    _produce(secured.master)
    store = SecuredJob(secured, tmp_path_factory.mktemp(_APP), _SQL, _APP, _WHO)
    store.run(Part.JOB, "run", str(store.sql), "--until-caught-up")
    yield store
    store.close()


def _produce(master: Mapping[str, str]) -> None:
    Admin(master).ensure_topic("people", 2)
    producer = Producer(master)
    for n in range(_CUSTOMERS):
        producer.send("people", f"c{n}".encode(), b'{"city": "City %d"}' % (n % 2))
    producer.flush()
    Admin(master).ensure_topic("sales", 2)
    for n in range(_SALES):
        value = json.dumps({"customer": f"c{n % _CUSTOMERS}", "amount": n % 10}).encode()
        producer.send("sales", f"s{n}".encode(), value)
    for n in range(_BAD):
        producer.send("sales", f"bad{n}".encode(), b"not json")
    producer.flush()


def test_the_judge_finds_every_table_exact(store: SecuredJob) -> None:
    verdict = json.loads(store.run(Part.VERIFY, "verify", str(store.sql), "--json"))
    assert verdict["verdict"] == "valid", verdict


def test_a_query_server_answers(store: SecuredJob) -> None:
    port = free_port()
    words = ("serve", str(store.sql), "--listen", f"{HOST}:{port}")
    server = subprocess.Popen(
        store.command(Part.SERVE, *words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        found = _ask(f"http://{HOST}:{port}", server)
    finally:
        server.terminate()
        output, _ = server.communicate(timeout=30)
    assert found == [_SALES // _CUSTOMERS], output.decode()


def _ask(url: str, server: subprocess.Popen[bytes]) -> list[int]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with Client(url) as client:
                rows = client.query("SELECT n FROM sums WHERE customer = 'c1';")
                return [row["N"] for row in rows]
        except HoldfastError:  # it still starts, or restores
            time.sleep(0.1)
    return []


def test_a_survey_tells_all_without_a_missing_acl(store: SecuredJob) -> None:
    told = store.run(Part.APPLY, "compaction", "survey", _APP)
    assert f"{_APP}-ctas_sums-changelog" in told
    assert "ACL" not in told


def test_compaction_is_applied(secured: SecuredKafka, tmp_path: Path) -> None:
    user, way = _WHO[Part.APPLY]
    made = make_changelog(secured.master, "bulk", keys=200, updates=20_000)
    names = Names("bulk", sources=frozenset({"bulk-in"}))
    secured.grant(user, bindings(needs_of(Part.APPLY), names))
    client = secured.client(user, way)
    survey = surveyed(client, [made])
    done = applied(planned(survey), survey, applying(client, tmp_path))
    (topic,) = done.topics
    assert topic.outcome is Outcome.CLEANED, topic
    made.close()


def test_the_selftest_leaves_nothing_behind(store: SecuredJob, secured: SecuredKafka) -> None:
    told = json.loads(store.run(Part.SELFTEST, "selftest", "--records", "100", "--json"))
    assert told["ok"] is True
    assert told["topics_left"] == []
