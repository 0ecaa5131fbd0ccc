"""Spark's ports take whatever a stranger has serialized, unless he must first say the secret."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.deploy.kubernetes import in_pod as kube_api
from holdfast.deploy.kubernetes import release_secrets
from holdfast.deploy.kubernetes.release_secrets import KEY, PEER_KEY, fill, fill_peers
from holdfast.errors import Refused, Retriable
from tests.security.kubernetes_spark import ANOTHER, ROOT, SECRET
from tests.support.servers.kubernetes_api import Asked, in_a_pod


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A driver as in a cluster, with the image's executors: see `kubernetes_spark`."""
    folder = tmp_path_factory.mktemp("spark")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.security.kubernetes_spark", str(folder)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=280,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_driver_and_executors_of_the_image_agree(tried: dict[str, Any]) -> None:
    assert tried["sizes"] == [[n, 1_000_000] for n in range(4)]


def test_an_executor_with_another_secret_is_refused(tried: dict[str, Any]) -> None:
    assert "The executor ended with status 1" in tried["said"]


def test_the_driver_opens_nothing_that_a_stranger_sends(tried: dict[str, Any]) -> None:
    """Unauthenticated it would be Java's deserialization that complains of these bytes."""
    assert "AuthRpcHandler" in tried["stranger"]
    assert "Unknown challenge message" in tried["stranger"]


def test_the_secret_is_on_no_command_line(tried: dict[str, Any]) -> None:
    assert "spark.authenticate=true" in tried["lines"]
    assert SECRET not in tried["lines"].replace(f"/{SECRET}", "")  # the file has its name
    assert ANOTHER not in tried["lines"]


class _Api:
    """A Kubernetes that has one Secret, or none."""

    def __init__(self) -> None:
        self.secret: dict[str, Any] | None = {"metadata": {"resourceVersion": "1"}}
        self.between: dict[str, str] | None = None  # what another driver writes after our look
        self.refuses = 0
        self.patches = 0

    def get(self) -> tuple[int, Any]:
        if self.refuses or self.secret is None:
            return self.refuses or 404, {}
        found = json.loads(json.dumps(self.secret))
        if self.between is not None:
            self.secret = {"metadata": {"resourceVersion": "2"}, "data": self.between}
            self.between = None
        return 200, found

    def post(self, wanted: Any) -> tuple[int, Any]:
        if self.secret is not None:
            return 409, {}
        self.secret = wanted
        return 201, wanted

    def patch(self, change: Any) -> tuple[int, Any]:
        assert self.secret is not None
        self.patches += 1
        if change["metadata"] != self.secret["metadata"]:
            return 409, {}
        self.secret = {"metadata": {"resourceVersion": "2"}, "data": change["data"]}
        return 200, self.secret


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[_Api]:
    """The API as a pod sees it, with the authority that it trusts."""
    api = _Api()

    answers = {"GET": _looked_up, "POST": _created, "PATCH": _patched}
    with in_a_pod(lambda asked: answers[asked.method](api, asked), tmp_path, monkeypatch):
        yield api


def _looked_up(api: _Api, asked: Asked) -> tuple[int, Any]:
    assert asked.path == "/api/v1/namespaces/tables/secrets/movies-spark"
    return api.get()


def _created(api: _Api, asked: Asked) -> tuple[int, Any]:
    assert asked.path == "/api/v1/namespaces/tables/secrets"
    assert asked.headers["Content-Type"] == "application/json"
    return api.post(asked.body)


def _patched(api: _Api, asked: Asked) -> tuple[int, Any]:
    assert asked.headers["Content-Type"] == "application/merge-patch+json"
    return api.patch(asked.body)


def _held(api: _Api) -> str:
    assert api.secret is not None
    return base64.b64decode(api.secret["data"][KEY]).decode()


def test_the_first_driver_fills_the_secret_and_later_ones_keep_it(
    api: _Api, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    fill("movies-spark", str(file))
    first = file.read_text()
    assert first == _held(api)
    assert len(first) >= 32
    assert file.stat().st_mode & 0o777 == 0o600
    file.unlink()
    fill("movies-spark", str(file))
    assert file.read_text() == first
    assert api.patches == 1


def test_of_two_first_drivers_both_end_with_the_same_secret(api: _Api, tmp_path: Path) -> None:
    api.between = {KEY: base64.b64encode(b"the other's").decode()}
    fill("movies-spark", str(tmp_path / "secret"))
    assert (tmp_path / "secret").read_text() == "the other's"
    assert api.patches == 1


@pytest.mark.parametrize(("status", "words"), [(403, "may not read"), (404, "there is none")])
def test_what_a_person_has_to_mend_is_told(
    api: _Api, tmp_path: Path, status: int, words: str
) -> None:
    api.refuses = status
    with pytest.raises(Refused, match=words) as refused:
        fill("movies-spark", str(tmp_path / "secret"))
    assert "spark.existingSecret" in str(refused.value)
    assert not (tmp_path / "secret").exists()


@pytest.mark.parametrize("status", [503, 429])
def test_a_busy_api_is_asked_again(
    api: _Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    api.refuses = status
    looks: list[float] = []

    real, this = time.sleep, threading.get_ident()

    def recovers(pause: float) -> None:
        if threading.get_ident() != this:  # an earlier test's thread
            real(pause)
            return
        looks.append(pause)
        api.refuses = 0

    monkeypatch.setattr(time, "sleep", recovers)
    fill("movies-spark", str(tmp_path / "secret"))
    assert (tmp_path / "secret").read_text() == _held(api)
    assert len(looks) == 1


def test_an_api_that_stays_busy_is_told_as_any_other_error(
    api: _Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_secrets, "_PATIENCE_S", 0.0)
    api.refuses = 503
    with pytest.raises(Retriable, match="did not answer within"):
        fill("movies-spark", str(tmp_path / "secret"))
    assert not (tmp_path / "secret").exists()


def test_it_is_for_pods_alone(tmp_path: Path) -> None:
    assert "KUBERNETES_SERVICE_HOST" not in os.environ
    with pytest.raises(Refused, match="for the driver's pod"):
        fill("movies-spark", str(tmp_path / "secret"))


def test_the_peers_secret_is_filled_once(api: _Api) -> None:
    fill_peers("movies-spark")
    assert api.secret is not None
    held = api.secret["data"]
    assert list(held) == [PEER_KEY]
    fill_peers("movies-spark")
    assert (api.secret["data"], api.patches) == (held, 1)


def test_an_object_is_created_unless_it_is_there(api: _Api) -> None:
    wanted, path = {"metadata": {"name": "movies-spark"}}, "/api/v1/namespaces/tables/secrets"
    assert kube_api.from_a_pod(path, create=wanted) is None
    api.secret = None
    assert kube_api.from_a_pod(path, create=wanted) is not None
    assert api.secret == wanted
