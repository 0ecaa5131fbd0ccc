"""`holdfast selftest` against a real broker, in a process of its own as a user starts it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import orjson
import pytest
from confluent_kafka.admin import AdminClient

from holdfast.cli.cluster.selftest import _ask_ready
from holdfast.errors import HoldfastError
from holdfast.local.broker import BrokerStatus
from tests.support.strange_folder import strange_folder

pytestmark = pytest.mark.timeout(600)


class _NotReady(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"restoring TOTALS, query 1 of 1\n"
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Not a line for each request."""


@contextmanager
def _driver() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _NotReady)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _selftest(
    kafka: BrokerStatus, *arguments: str, where: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    connection = f"bootstrap.servers={kafka.bootstrap_servers}"
    command = [sys.executable, "-P", "-m", "holdfast.cli.main", "selftest", "--set", connection]
    return subprocess.run([*command, *arguments], capture_output=True, check=False, cwd=where)


def _topics(kafka: BrokerStatus, prefix: str) -> list[str]:
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    return [name for name in client.list_topics(timeout=10).topics if name.startswith(prefix)]


def test_makes_a_table_compares_it_and_leaves_nothing(kafka: BrokerStatus, tmp_path: Path) -> None:
    """Also in a folder whose files have names of modules."""
    sized = ("--set", "application.id=mine", "--records", "300", "--json")
    done = _selftest(kafka, *sized, where=strange_folder(tmp_path))
    assert done.returncode == 0, done.stderr.decode()
    told = orjson.loads(done.stdout)
    assert told["ok"] is True
    assert told["name"].startswith("mine-selftest-")
    assert (told["brokers"], told["records"], told["rows"]) == (1, 300, 37)
    assert told["topics_left"] == []
    assert len(told["seconds"]) == 5
    assert _topics(kafka, "mine-selftest-") == []


def test_a_driver_that_is_not_ready_is_told_with_its_reason() -> None:
    with _driver() as url, pytest.raises(HoldfastError, match="restoring TOTALS, query 1 of 1"):
        _ask_ready(f"{url}/")


def test_time_is_limited_and_its_topics_are_deleted_all_the_same(kafka: BrokerStatus) -> None:
    done = _selftest(kafka, "--set", "application.id=late", "--timeout", "1")
    assert done.returncode == 1
    assert b"was not finished after 1 s" in done.stderr
    assert _topics(kafka, "late-selftest-") == []


def test_a_broker_that_is_not_there_is_named() -> None:
    nobody = BrokerStatus(pid=0, born="", port=1)
    done = _selftest(nobody)
    assert done.returncode == 1
    assert b"127.0.0.1:1" in done.stderr


def test_what_the_broker_refuses_ends_it_with_the_brokers_reason(kafka: BrokerStatus) -> None:
    few = ("--set", "application.id=few", "--set", "replication.factor=3", "--json")
    done = _selftest(kafka, *few)
    assert done.returncode != 0
    assert orjson.loads(done.stdout)["ok"] is False
    assert b"creating topic few-selftest-" in done.stderr
    assert _topics(kafka, "few-selftest-") == []
