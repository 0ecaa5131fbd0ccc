"""The local broker: start, kill, start again, stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.errors import Refused
from holdfast.local.broker import BrokerStatus, LocalKafka
from holdfast.local.probe import answers, free_port, taken
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from tests.integration.transport.settling import await_settled


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalKafka]:
    made = LocalKafka(tmp_path)
    yield made
    made.wipe()


def _client(servers: str) -> dict[str, str]:
    return {"bootstrap.servers": servers}


def test_data_survive_a_kill(broker: LocalKafka) -> None:
    first = broker.start(port=0)
    Admin(_client(first.bootstrap_servers)).ensure_topic("kept", 2, 1, {})
    producer = Producer(_client(first.bootstrap_servers))
    for n in range(100):
        producer.send("kept", b"k", str(n).encode(), partition=1)
    producer.flush()
    client = _client(first.bootstrap_servers)
    # Its time is over before the killed broker's session is: what Kafka then drops is tested here.
    victim = TransactionalProducer(client, "victim", timeout_ms=2_000)
    victim.init()
    victim.begin()
    victim.send("kept", 0, [b"k"], [b"never committed"])
    victim._client.flush(10)

    os.kill(first.pid, signal.SIGKILL)
    psutil.Process(first.pid).wait(60)
    assert broker.status() is None

    second = broker.start(port=first.port)
    assert second.pid != first.pid
    with TransactionalProducer(client, "victim") as successor:
        successor.init()
        successor.begin()
        successor.send("kept", 0, [b"k"], [b"committed"])
        successor.commit()
    await_settled(Admin(client), "kept")
    assert Admin(client).bounds("kept")[1] == (0, 100)
    reader = PartitionReader(client, "kept", 0)
    assert [v for chunk in reader.read(*reader.bounds()) for v in chunk.values] == [b"committed"]
    reader.close()
    victim.close()


def test_a_home_of_many_partitions_comes_back_from_every_kill(broker: LocalKafka) -> None:
    """Also when a start in between had failed: that one shuts down as if nothing were amiss."""
    running = broker.start(port=0)
    admin = Admin(_client(running.bootstrap_servers), 60.0)
    for number in range(3):
        admin.ensure_topic(f"many-{number}", 80, 1, {})
    for _ in range(2):
        os.kill(running.pid, signal.SIGKILL)
        psutil.Process(running.pid).wait(60)
        assert broker.status() is None
        (broker.folder / "data" / ".kafka_cleanshutdown").write_text("{}")
        running = broker.start(port=running.port)
    assert len(Admin(_client(running.bootstrap_servers)).bounds("many-2")) == 80


def test_a_home_from_its_first_start_to_its_last_stop(broker: LocalKafka) -> None:
    """Started twice, stopped by another process, wiped, stopped: one after the other."""
    first = broker.start(port=0)
    assert broker.start(port=0) == first
    assert broker.start(port=first.port) == first
    with pytest.raises(Refused, match=rf"runs on port {first.port} already"):
        broker.start(port=free_port())
    assert taken(first.port)
    _stop_elsewhere(broker.folder.parent)
    assert not answers(first.port)
    assert broker.status() is None

    second = broker.start(port=0)
    Admin(_client(second.bootstrap_servers)).ensure_topic("gone", 1, 1, {})
    broker.wipe()
    assert not broker.folder.exists()

    third = broker.start(port=0)
    assert Admin(_client(third.bootstrap_servers)).describe("gone") is None, "a wipe forgets it"
    assert broker.stop() is True
    assert not psutil.pid_exists(third.pid)
    assert not taken(third.port)
    assert broker.status() is None
    assert broker.stop() is False


def _stop_elsewhere(home: Path) -> None:
    code = (
        "from pathlib import Path; from holdfast.local.broker import LocalKafka; "
        f"print(LocalKafka(Path({str(home)!r})).stop())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.strip() == "True"


def test_a_taken_port_is_named_with_its_holder(broker: LocalKafka) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Refused, match=rf"Port {port} .* in use by pid {os.getpid()}"):
            broker.start(port=port)
        assert broker.status() is None


def test_only_the_loopback_interface_listens(kafka: BrokerStatus) -> None:
    connections = psutil.Process(kafka.pid).net_connections()
    listening = {c.laddr[0] for c in connections if c.status == "LISTEN" and c.laddr}
    assert listening
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}
