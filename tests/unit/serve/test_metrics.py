from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast.serve.http.app import CLIENT
from holdfast.serve.http.guard.access import ANYONE, Client
from holdfast.serve.metrics import metrics_app
from tests.support.console.world import World


def _text(home: Path, client: Client) -> str:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope: dict[str, Any] = {
        "type": "http", "method": "GET", "path": "/metrics/", "query_string": b"", "headers": [],
        CLIENT: client,
    }  # fmt: skip
    app = metrics_app(World().serving(home).cluster)
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]  # a coroutine, as it is made
    return b"".join(m.get("body", b"") for m in sent).decode()


def test_metrics_are_of_tables_that_may_be_read(tmp_path: Path) -> None:
    every, guest = _text(tmp_path, ANYONE), _text(tmp_path, Client("guest", ("PER_CITY",)))
    assert 'holdfast_serve_store_lag{partition="0",table="PER_CUSTOMER"}' in every
    assert 'holdfast_serve_store_lag{partition="0",table="PER_CITY"}' in guest
    assert "PER_CUSTOMER" not in guest
    assert 'holdfast_serve_peer_up{server="1"} 1.0' in guest
