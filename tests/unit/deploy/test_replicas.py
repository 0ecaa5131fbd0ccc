"""The number of executors is asked where it is decided; a missing answer changes nothing."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from holdfast.deploy.kubernetes import replicas
from holdfast.deploy.kubernetes.replicas import Replicas
from holdfast.errors import Refused, Retriable


class Api:
    """The answers of the Kubernetes API, and what was asked."""

    def __init__(self) -> None:
        self.answer: Any = {"replicas": 2}
        self.asked: list[str] = []

    def __call__(self, path: str) -> bytes | None:
        self.asked.append(path)
        if isinstance(self.answer, Exception):
            raise self.answer
        return None if self.answer is None else orjson.dumps({"spec": self.answer})


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    made = Api()
    monkeypatch.setattr(replicas, "from_a_pod", made)
    monkeypatch.setattr(replicas, "own_namespace", lambda: "jobs")
    return made


def _of(api: Api) -> tuple[Replicas, list[float]]:
    now = [100.0]
    return Replicas("a-executor", 5, lambda: now[0]), now


def test_it_is_what_the_set_shall_have_by_now(api: Api) -> None:
    count, now = _of(api)
    assert count() == 2
    assert api.asked == ["/apis/apps/v1/namespaces/jobs/statefulsets/a-executor"]
    api.answer = {"replicas": 4}
    assert count() == 2, "two seconds old at most"
    now[0] += 2.0
    assert count() == 4
    assert len(api.asked) == 2


@pytest.mark.parametrize(("spec", "count"), [({}, 1), ({"replicas": 0}, 1)])
def test_there_is_at_least_one(api: Api, spec: dict[str, int], count: int) -> None:
    api.answer = spec
    assert _of(api)[0]() == count


@pytest.mark.parametrize("wrong", [Retriable("no answer"), Refused("may not"), None])
def test_without_an_answer_it_stays_what_it_was(
    api: Api, wrong: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    count, now = _of(api)
    api.answer = wrong
    with caplog.at_level(logging.WARNING):
        assert count() == 5, "what the settings say"
        api.answer = {"replicas": 3}
        now[0] += 2.0
        assert count() == 3
        api.answer = wrong
        for _ in range(3):
            now[0] += 2.0
            assert count() == 3
    warned = [r.message for r in caplog.records]
    assert len(warned) == (wrong is not None), "said once"
