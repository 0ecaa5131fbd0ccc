"""A real DynamoDB Local of its own for a test, as Amazon publishes it in Maven Central.

with DynamoServer(folder) as dynamo:
    settings = dynamo.settings()

Clients find it by the environment: `dynamo.environment()`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest

from holdfast.config.settings import RemoteSettings
from holdfast.local.ivy import Program, downloaded_jars
from holdfast.local.java import find_java
from holdfast.local.probe import HOST, free_port, taken
from holdfast.state.remote import dynamodb

__all__ = ["DynamoServer", "in_environment"]

_MAIN = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_DYNAMODB = Program(
    name="DynamoDB Local",
    version="2.5.4",
    coordinates=("com.amazonaws:DynamoDBLocal:2.5.4",),
    main_jar="DynamoDBLocal-*.jar",
    size_mb=51,
    check=lambda _: None,  # nothing but tests runs them
    types=("jar", "bundle", "so"),
)
_START_S = 60.0
_POLL_S = 0.05
_TIMEOUT_MS = 5_000


class DynamoServer:
    """Owns the process from `with` until its end; the data are in its memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        """The variables by which clients find the server, and log in."""
        return {
            "AWS_ENDPOINT_URL_DYNAMODB": f"http://{HOST}:{self._port}",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "canary-of-tests",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def settings(self, table: str = "holdfast") -> RemoteSettings:
        return RemoteSettings(f"dynamodb://eu-west-1/{table}", timeout_ms=_TIMEOUT_MS)

    def lose(self) -> None:
        """Deletes every item."""
        link = dynamodb.DynamoLink(self.settings())
        for name in link.ask("list_tables")["TableNames"]:
            items = link.ask("scan", TableName=name, ProjectionExpression="s, k")["Items"]
            for key in items:
                link.ask("delete_item", TableName=name, Key=key)

    def drop(self) -> None:
        """Deletes the table."""
        link = dynamodb.DynamoLink(self.settings())
        link.ask("delete_table", TableName=link.table)

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        jars = downloaded_jars(_DYNAMODB, print, os.environ)
        command = [find_java(), *_JAVA_OPTIONS, f"-Djava.library.path={jars}", "-cp", f"{jars}/*"]
        command += [_MAIN, "-port", str(self._port), "-disableTelemetry", "-inMemory"]
        with (self._folder / "dynamodb.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_S
        while not taken(self._port):
            assert self._process.poll() is None, (self._folder / "dynamodb.log").read_text()
            assert time.monotonic() < deadline, "DynamoDB Local does not answer"
            time.sleep(_POLL_S)

    def kill(self) -> None:
        assert self._process is not None, "it runs"
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """It hangs, until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "it runs"
        self._process.send_signal(number)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def in_environment(server: DynamoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets clients of this process find the server, from here on."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    dynamodb._client.cache_clear()
