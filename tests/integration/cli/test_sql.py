"""`holdfast sql` against a real broker: which topics there are, and what is in one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.shell.broker import Broker
from holdfast.local.broker import BrokerStatus
from holdfast.sql.parse.statements import Print
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer
from holdfast.types.columns.schemas import Schema, SchemaKind
from holdfast.types.statements.topology import Topology
from tests.support.servers.counting_registry import CountingRegistry

Name = Callable[[str], str]


@pytest.fixture
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def sql(client: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Carries out statements in a session; returns what it shows, or the error."""

    def run(text: str) -> str:
        servers = f"bootstrap.servers={client['bootstrap.servers']}"
        status = main(["sql", "-e", text, "--set", servers])
        shown = capsys.readouterr()
        assert status == (2 if shown.err else 0)
        return shown.err or shown.out

    return run


def test_topics_are_listed_and_asserted(
    sql: Callable[[str], str], client: dict[str, str], kafka_topic_name: Name
) -> None:
    topic = kafka_topic_name("shown")
    assert f"Topic {topic} is not there." in sql(f"ASSERT NOT EXISTS TOPIC '{topic}';")
    Admin(client).ensure_topic(topic, 3)
    (row,) = [line.split() for line in sql("SHOW TOPICS EXTENDED;").splitlines() if topic in line]
    assert row == [topic, "3", "1", "0"]
    assert "is there." in sql(f"ASSERT TOPIC '{topic}' WITH (PARTITIONS=3) TIMEOUT 5 SECONDS;")
    assert "has 3 PARTITIONS, not 4" in sql(f"ASSERT TOPIC '{topic}' WITH (PARTITIONS=4);")


def test_records_are_printed_by_their_formats(
    sql: Callable[[str], str], client: dict[str, str], kafka_topic_name: Name
) -> None:
    topic = kafka_topic_name("printed")
    Admin(client).ensure_topic(topic, 1)
    producer = Producer(client)
    for n in (7, 8, 9):
        producer.send(topic, struct.pack(">i", n), b'{"V":%d}' % n, n * 1000)
    producer.flush()
    producer.close()

    lines = sql(f"PRINT '{topic}' FROM BEGINNING LIMIT 2;").splitlines()
    assert lines[0] == (
        'rowtime: 1970-01-01T00:00:07.000Z, key: 0x00000007, value: {"V":7}, partition: 0'
    )
    assert len(lines) == 2
    declared = (
        f"CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');"
    )
    lines = sql(f"{declared} PRINT '{topic}' FROM BEGINNING INTERVAL 2 LIMIT 2;").splitlines()
    assert [line.split(", ")[1] for line in lines[1:]] == ["key: 7", "key: 9"]


def test_bytes_that_look_like_ids_do_not_flood_the_registry(
    client: dict[str, str], kafka_topic_name: Name
) -> None:
    topic, registry = kafka_topic_name("binary"), CountingRegistry()
    registry.put("s", Schema(SchemaKind.AVRO, '"string"'), 70_000)
    Admin(client).ensure_topic(topic, 1)
    producer = Producer(client)
    payloads = [b"\0" + struct.pack(">i", n) + b"\x04Yo" for n in (70_000, *range(500))]
    for payload in payloads:
        producer.send(topic, payload, payload)
    producer.flush()
    producer.close()
    broker = Broker(lambda: client, schemas=registry)
    lines = list(broker.records(Print(topic, True, None, 501, 0), Topology(())))
    assert 'key: "Yo", value: "Yo"' in lines[0]
    assert all(
        f"value: 0x{p.hex()}" in line for p, line in zip(payloads[1:], lines[1:], strict=True)
    )
    assert registry.asked < 110


def test_headers_are_printed(
    sql: Callable[[str], str], client: dict[str, str], kafka_topic_name: Name
) -> None:
    topic = kafka_topic_name("headed")
    Admin(client).ensure_topic(topic, 1)
    producer = Producer(client)
    producer.send(topic, None, b"{}", 7, headers={"who": b"me", "raw": b"\xff", "none": None})
    producer.flush()
    producer.close()
    (line,) = sql(f"PRINT '{topic}' FROM BEGINNING LIMIT 1;").splitlines()
    assert line.endswith("partition: 0, headers: who=me, raw=0xff, none=<null>")


def test_a_select_starts_a_query_server_for_the_session(
    client: dict[str, str],
    kafka_topic_name: Name,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topic = kafka_topic_name("asked")
    Admin(client).ensure_topic(topic, 1)
    producer = Producer(client)
    for n in range(3):
        producer.send(topic, b"k%d" % n, b'{"V":%d}' % (1_000_000 * n), 7)
    producer.flush()
    producer.close()
    columns = f"k STRING PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON'"
    text = (
        f"CREATE TABLE asked_{topic.replace('-', '_')} ({columns});"
        f"SELECT k, v, ROWTIME FROM asked_{topic.replace('-', '_')} ORDER BY v DESC LIMIT 2;"
    )
    servers = f"bootstrap.servers={client['bootstrap.servers']}"
    options = ["--set", servers, "--set", "application.id=asked", "--home", str(tmp_path)]
    assert main(["sql", "-e", text, *options]) == 0
    shown = capfd.readouterr()
    rows = [line.split() for line in shown.out.splitlines() if line.startswith(" k")]
    assert rows == [
        ["k2", "2000000", "1970-01-01T00:00:00.007Z"],
        ["k1", "1000000", "1970-01-01T00:00:00.007Z"],
    ]
    assert "Starting a query server" in shown.err
    assert "2 rows, 0 changes behind" in shown.err
    assert list((tmp_path / "sql").iterdir()) == [], "the server has ended"
