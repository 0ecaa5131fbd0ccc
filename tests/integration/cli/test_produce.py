"""`holdfast produce` against a real broker, as a user types it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.local.broker import BrokerStatus, LocalKafka
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import PartitionReader

Name = Callable[[str], str]


@pytest.fixture
def servers(kafka: BrokerStatus) -> list[str]:
    return ["--set", f"bootstrap.servers={kafka.bootstrap_servers}"]


@pytest.fixture
def admin(kafka: BrokerStatus) -> Admin:
    return Admin({"bootstrap.servers": kafka.bootstrap_servers})


def _count(admin: Admin, topic: str) -> int:
    return sum(admin.end_offsets(topic).values())


def test_example_data_go_to_a_topic_of_its_own(
    servers: list[str],
    admin: Admin,
    kafka_topic_name: Name,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = kafka_topic_name("sensors")
    assert main(["produce", "sensors", "--topic", topic, *servers]) == 0
    assert capsys.readouterr().out.startswith(f"5 records to topic {topic} in ")
    assert _count(admin, topic) == 5
    assert len(admin.end_offsets(topic)) == 2

    # An existing topic is written to as it is.
    assert main(["produce", "sensors", "--topic", topic, "--partitions", "9", *servers]) == 0
    assert _count(admin, topic) == 10
    assert len(admin.end_offsets(topic)) == 2


def test_rate_and_limit_hold(servers: list[str], admin: Admin, kafka_topic_name: Name) -> None:
    topic = kafka_topic_name("flights")
    began = time.monotonic()
    arguments = ["--topic", topic, "--rate", "200", "--limit", "300", "--partitions", "3"]
    assert main(["produce", "flights", *arguments, *servers]) == 0
    assert time.monotonic() - began >= 1.5
    assert _count(admin, topic) == 300
    assert len(admin.end_offsets(topic)) == 3


def test_lines_of_a_file_keep_their_key_in_one_partition(
    servers: list[str], admin: Admin, kafka_topic_name: Name, tmp_path: Path
) -> None:
    topic = kafka_topic_name("lines")
    file = tmp_path / "x.ndjson"
    file.write_text('{"k": 7, "v": 1}\n\n{"k": 7, "v": 2}\n{"k": 7}\n')
    assert main(["produce", str(file), "--topic", topic, "--key", "k", *servers]) == 0
    assert sorted(admin.end_offsets(topic).values()) == [0, 0, 0, 3]


def test_a_line_without_the_key_is_named(
    servers: list[str],
    kafka_topic_name: Name,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "x.ndjson"
    file.write_text('{"k": 7}\n[1]\n')
    topic = kafka_topic_name("lines")
    assert main(["produce", str(file), "--topic", topic, "--key", "k", *servers]) == 2
    assert f"{file}, line 2 has no field 'k': [1]" in capsys.readouterr().err


def test_a_file_needs_a_topic_and_must_exist(
    servers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["produce", "fligths", *servers]) == 2
    assert "--topic is needed" in capsys.readouterr().err
    assert main(["produce", "fligths", "--topic", "x", *servers]) == 2
    assert "or one of: flights, movies, sensors, payments" in capsys.readouterr().err


def test_records_of_a_stream_go_to_its_topic_in_its_formats(
    servers: list[str],
    kafka: BrokerStatus,
    kafka_topic_name: Name,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = kafka_topic_name("stream")
    statements, lines = tmp_path / "x.sql", tmp_path / "x.ndjson"
    statements.write_text(
        "CREATE STREAM s (k INT KEY, a STRING, b DOUBLE) "
        f"WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='DELIMITED', PARTITIONS=1);"
    )
    lines.write_text('{"k": 7, "a": "x,y", "b": 1.5}\n\n{"A": "z"}\n')
    given = ["produce", str(lines), "--statements", str(statements)]
    assert main([*given, "--source", "s", *servers]) == 0
    reader = PartitionReader({"bootstrap.servers": kafka.bootstrap_servers}, topic, 0)
    start, end = reader.bounds()
    (chunk,) = reader.read(start, end)
    reader.close()
    assert chunk.keys == [b"\0\0\0\x07", None]
    assert chunk.values == [b'"x,y",1.5', b"z,"]

    lines.write_text('{"k": 7}\n{"k": "x"}\n')
    assert main([*given, "--source", "s", *servers]) == 2
    assert "x.ndjson, record 2, is not of S: K:" in capsys.readouterr().err
    assert main([*given, "--source", "no", *servers]) == 2
    assert "declare no stream or table no" in capsys.readouterr().err
    assert main([*given, *servers]) == 2
    assert "--source and --statements go together" in capsys.readouterr().err


def test_kafka_commands_and_a_broker_found_by_its_home(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(tmp_path)]
    try:
        assert main(["kafka", "start", "--port", "0", *home]) == 0
        running = LocalKafka(tmp_path).status()
        assert running is not None
        assert f"Kafka runs at {running.bootstrap_servers}" in capsys.readouterr().out
        assert main(["kafka", "status", *home]) == 0
        # No bootstrap.servers: the broker of this home is taken.
        assert main(["produce", "movies", *home]) == 0
        topic = Admin({"bootstrap.servers": running.bootstrap_servers})
        assert _count(topic, "movie_ticket_sales") == 9
    finally:
        assert main(["kafka", "reset", *home]) == 0
    assert LocalKafka(tmp_path).status() is None
    assert not (tmp_path / "kafka").exists()
