"""A consumer of OpenLineage events: the server that Airflow's provider sends them to."""

from __future__ import annotations

import json
from typing import Any

from tests.support.servers.loopback_server import Handler, LoopbackServer

__all__ = ["Consumer"]


class Consumer(LoopbackServer):
    """Keeps what it is sent, as a catalogue would.

    Attributes:
        events: all events, as they came.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.events: list[dict[str, Any]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Airflow's own settings that make its provider send its events here."""
        transport = {"type": "http", "url": self.url, "endpoint": "api/v1/lineage"}
        return {
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "AIRFLOW__OPENLINEAGE__NAMESPACE": "tried",
        }

    def of_task(self, name: str) -> dict[str, dict[str, Any]]:
        """The last event of each type of the job `name` (DAG, dot, task)."""
        found = [event for event in self.events if event["job"]["name"] == name]
        return {event["eventType"]: event for event in found}


class _Handler(Handler):
    server: Consumer

    def respond(self, body: bytes) -> None:
        assert (self.command, self.path) == ("POST", "/api/v1/lineage")
        self.server.events.append(json.loads(body))
        self.answer(201)
