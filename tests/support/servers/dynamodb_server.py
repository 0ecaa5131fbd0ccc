"""A real DynamoDB Local of its own for a test, as Amazon publishes it in Maven Central.

with DynamoServer(folder) as dynamo:
    settings = dynamo.settings()

Clients find it by the environment: `dynamo.environment()`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.config.settings import RemoteSettings
from holdfast.local.ivy import Program, downloaded_jars
from holdfast.local.java import find_java
from holdfast.local.probe import HOST, free_port, taken
from holdfast.state.remote import dynamodb
from tests.support.servers.server_process import ServerProcess

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
_TIMEOUT_MS = 5_000


class DynamoServer(ServerProcess):
    """Keeps its data in its memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "dynamodb.log")
        self._port = free_port()

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

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        jars = downloaded_jars(_DYNAMODB, print, os.environ)
        command = [find_java(), *_JAVA_OPTIONS, f"-Djava.library.path={jars}", "-cp", f"{jars}/*"]
        command += [_MAIN, "-port", str(self._port), "-disableTelemetry", "-inMemory"]
        self._launch(command, lambda: taken(self._port), _START_S)


def in_environment(server: DynamoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets clients of this process find the server, from here on."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    dynamodb._client.cache_clear()
