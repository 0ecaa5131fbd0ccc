"""The driver's HTTP endpoint, asked over HTTP."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import orjson
import pytest

from holdfast.errors import InvalidConfig
from holdfast.runtime.watching.endpoint import health_pages, serve, status_body
from holdfast.runtime.watching.health import Health
from holdfast.runtime.watching.metrics import Metrics
from holdfast.types.status import JobState, JobStatus, QueryState, QueryStatus

STATUS = JobStatus(
    "app", state=JobState.RUNNING, queries={"a": QueryStatus("A", "A"), "b": QueryStatus("B", "B")}
)


def ask(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def health() -> Health:
    return Health(["a", "b"], 300.0)


@pytest.fixture
def base(health: Health) -> str:
    pages = health_pages(health, STATUS.as_json)
    return serve(0, "127.0.0.1", Metrics("app").application(), pages)


def status(base: str) -> dict[str, Any]:
    code, body = ask(f"{base}/status")
    assert code == 200
    found: dict[str, Any] = orjson.loads(body)
    return found


def test_probes_answer_before_the_job_is_ready(base: str, health: Health) -> None:
    assert ask(f"{base}/ready") == (503, "starting Spark\n")
    assert ask(f"{base}/live")[0] == 200
    health.serving()
    assert ask(f"{base}/ready")[0] == 200


def test_a_dead_query_is_told_by_the_probe(base: str, health: Health) -> None:
    health.serving()
    health._limit_s = -1.0
    code, line = ask(f"{base}/live")
    assert code == 503
    assert "a has shown no sign of life" in line


def test_status_has_readiness_and_lags(base: str, health: Health) -> None:
    early = status(base)
    assert early["application_id"] == "app"
    assert early["state"] == "running"
    assert (early["ready"], early["reason"]) == (False, "starting Spark")
    assert (early["lag"], early["caught_up"]) == (None, False)
    health.serving()
    health.observe("a", {("t", 0): 1}, {("t", 0): 4})
    health.observe("b", {("t", 0): 9}, {("t", 0): 9})
    later = status(base)
    assert (later["ready"], later["reason"], later["lag"]) == (True, "", 3)
    assert later["caught_up"] is False
    assert later["queries"]["b"]["caught_up"] is True
    health.observe("a", {("t", 0): 4}, {("t", 0): 4})
    assert status(base)["caught_up"] is True


def test_a_job_answers_for_the_queries_that_run(health: Health) -> None:
    paused = replace(STATUS.queries["b"], state=QueryState.PAUSED)
    told = replace(STATUS, queries={**STATUS.queries, "b": paused}).as_json()
    health.serving()
    health.observe("a", {("t", 0): 4}, {("t", 0): 4})
    body = status_body(told, health)
    assert (body["lag"], body["caught_up"]) == (0, True)
    health.observe("b", {("t", 0): 1}, {("t", 0): 9})
    body = status_body(told, health)
    assert (body["lag"], body["caught_up"]) == (0, True)
    assert body["queries"]["b"]["state"] == "PAUSED"
    assert (body["queries"]["b"]["lag"], body["queries"]["b"]["caught_up"]) == (8, False)


def test_metrics_and_unknown_paths(base: str) -> None:
    assert "holdfast_dead_letter_records" in ask(f"{base}/metrics")[1]
    code, line = ask(f"{base}/")
    assert code == 404
    assert line == "there are: /live, /metrics, /ready, /status\n"


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidConfig, match=f"cannot listen on port {port}"):
            serve(port, "127.0.0.1", Metrics("app").application(), {})
