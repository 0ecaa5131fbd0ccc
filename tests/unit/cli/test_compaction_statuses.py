from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast.cli.compaction.statuses import JobStatuses
from holdfast.errors import Refused
from holdfast.types.status import JobState, JobStatus, QueryStatus, status_path

FILE = JobStatus("app", state=JobState.RUNNING, queries={"ctas_t": QueryStatus("T", "T")})
Serve = Callable[[dict[str, Any]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a JSON document at every path; returns the address."""
    servers: list[HTTPServer] = []

    def start(told: dict[str, Any]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = orjson.dumps(told)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nobody wants to read it."""

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _live(lag: int = 3) -> dict[str, Any]:
    told = FILE.as_json()
    told["queries"]["ctas_t"] |= {"lag": lag, "caught_up": True}
    return told


def test_a_running_driver_is_asked_for_what_its_file_does_not_say(
    tmp_path: Path, serve: Serve
) -> None:
    url = serve(_live())
    replace(FILE, metrics_url=f"{url}metrics").write(status_path(tmp_path, "app"))
    (seen,) = JobStatuses(tmp_path)(["app", "other"])
    assert seen.levels == {"ctas_t": (3, True)}


def test_a_driver_that_is_gone_has_left_its_file(tmp_path: Path) -> None:
    replace(FILE, metrics_url="http://127.0.0.1:1/metrics").write(status_path(tmp_path, "app"))
    (seen,) = JobStatuses(tmp_path)(["app"])
    assert seen.levels == {"ctas_t": (None, None)}
    assert seen.status.state is JobState.STOPPED  # though it had no time to write that


def test_another_driver_at_the_old_port_is_not_believed(tmp_path: Path, serve: Serve) -> None:
    url = serve(_live() | {"application_id": "stranger"})
    replace(FILE, metrics_url=f"{url}metrics").write(status_path(tmp_path, "app"))
    (seen,) = JobStatuses(tmp_path)(["app"])
    assert seen.status.application_id == "app"


def test_a_pattern_is_filled_with_each_name(tmp_path: Path, serve: Serve) -> None:
    url = serve(_live(lag=9))
    found = JobStatuses(tmp_path, [f"{url}{{name}}/status"])(["app", "app2"])
    assert [seen.levels["ctas_t"] for seen in found] == [(9, True), (9, True)]
    assert JobStatuses(tmp_path, ["http://127.0.0.1:1/{name}"])(["app"]) == []


def test_an_address_where_nobody_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No driver answers at"):
        JobStatuses(tmp_path, ["http://127.0.0.1:1/status"])(["app"])


def test_a_file_that_is_no_status_is_nothing(tmp_path: Path) -> None:
    path = status_path(tmp_path, "app")
    path.parent.mkdir(parents=True)
    for text in ("[]", "{", '{"a": 1}'):
        path.write_text(text, encoding="utf-8")
        assert JobStatuses(tmp_path)(["app"]) == []
