"""The client of the cluster's API, against a server that answers as one does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.deploy.kubernetes import client as kube_client
from holdfast.deploy.kubernetes.client import Executed, KubeClient, _exit_status, _finish
from holdfast.errors import HoldfastError, Refused, Retriable

POD = {"metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a/b": "c"}}}

EXIT_STATUS_3 = json.dumps({
    "status": "Failure",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
})  # fmt: skip


class Api(HTTPServer):
    """Answers every request with `status` and `body`, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.body = 200, json.dumps(POD)
        self.asked: list[tuple[str, str, Any]] = []


class _Answer(BaseHTTPRequestHandler):
    server: Api

    def _answer(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, json.loads(text) if text else None))
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body.encode())

    def do_GET(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with Api() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        point_at(server.server_port, tmp_path, monkeypatch)
        yield server
        server.shutdown()


def point_at(port: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "kubeconfig"
    names = {"name": "here", "context": {"cluster": "here", "user": "me"}}
    file.write_text(yaml.safe_dump({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [names],
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
    }))  # fmt: skip
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    monkeypatch.setattr(kube_client, "_PATIENCE_S", 0.0)


def _says(api: Api, status: int, message: str = "no") -> None:
    api.status = status
    api.body = json.dumps({"kind": "Status", "message": message, "code": status})


def test_an_object_is_as_in_the_api_s_json(api: Api) -> None:
    found = KubeClient().pod("n", "p")
    assert found is not None
    assert found["metadata"] == POD["metadata"]
    assert api.asked[0][:2] == ("GET", "/api/v1/namespaces/n/pods/p")


def test_a_deletion_is_of_one_incarnation_with_its_own_grace_or_none(api: Api) -> None:
    kube = KubeClient()
    assert kube.delete_pod("n", "p", "u", None)
    assert kube.delete_pod("n", "p", "u", 0)
    with_grace, at_once = (body for _, _, body in api.asked)
    assert with_grace["preconditions"] == at_once["preconditions"] == {"uid": "u"}
    assert "gracePeriodSeconds" not in with_grace
    assert at_once["gracePeriodSeconds"] == 0


@pytest.mark.parametrize("status", [404, 409])
def test_what_is_not_there_or_another_by_now_is_no_error(api: Api, status: int) -> None:
    _says(api, status)
    kube = KubeClient()
    assert kube.pod("n", "p") is None
    assert kube.delete_pod("n", "p", "u", 0) is False


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (403, Refused, "does not let this account do that: pods is forbidden"),
        (422, HoldfastError, "refused with status 422: pods is forbidden"),
        (503, Retriable, "did not answer within 10 s: pods is forbidden"),
    ],
)
def test_refusals_are_told_apart(
    api: Api, status: int, error: type[HoldfastError], words: str
) -> None:
    _says(api, status, "pods is forbidden")
    with pytest.raises(error, match=words):
        KubeClient().pods("n", {"a": "b"})


def test_a_question_is_asked_again_while_the_api_is_silent(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_client, "_PATIENCE_S", 60.0)
    monkeypatch.setattr(kube_client, "_PAUSE_S", 0.0)
    monkeypatch.setattr("time.sleep", lambda _: setattr(api, "status", 200))
    _says(api, 503)
    api.body = json.dumps(POD)
    assert KubeClient().pod("n", "p") is not None
    assert len(api.asked) == 2


def test_without_an_api_it_is_retriable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Api() as server:
        port = server.server_port
    point_at(port, tmp_path, monkeypatch)
    with pytest.raises(Retriable, match="did not answer"):
        KubeClient().pod("n", "p")


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ('{"status": "Success"}', 0),
        (EXIT_STATUS_3, 3),
        ('{"status": "Failure", "message": "container is gone"}', None),
        ("", None),
    ],
)
def test_how_a_command_ended(told: str, status: int | None) -> None:
    assert _exit_status(told) == status


class _ClosedByTheApi:
    """As the library's: `close` does nothing once the other end has closed."""

    def __init__(self) -> None:
        self.sock, self.shut = self, False

    def is_open(self) -> bool:
        return False

    def read_channel(self, channel: int) -> str:
        return '{"status": "Success"}'

    def close(self) -> None:
        assert not self.shut, "it wants to say good-bye"

    def shutdown(self) -> None:
        self.shut = True


def test_a_command_leaves_no_connection_behind() -> None:
    socket = _ClosedByTheApi()
    assert _finish(socket, "p", 1.0) == Executed(0, "", "")
    assert socket.shut
