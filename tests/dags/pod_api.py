"""The API server of a cluster, as far as the pod of one task goes, with its XCom sidecar."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.servers.loopback_server import Handler, LoopbackServer

__all__ = ["PodApi"]

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
_STDOUT, _STATUS = b"\x01", b"\x03"


class PodApi(LoopbackServer):
    """Runs each pod until somebody ends it; nothing is executed.

    Attributes:
        pods: by name, as they are now.
        deleted: names of those that were deleted.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.pods: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.outcome = ""

    @property
    def connection(self) -> str:
        """An Airflow connection of type `kubernetes` to it, as JSON."""
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.url}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "users": [{"name": "it", "user": {"token": "none"}}],
        }  # fmt: skip
        return json.dumps({"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(config)}})

    def end(self, status: int, message: str = "", outcome: str = "") -> None:
        """Ends the command of the only pod; its sidecar waits for the outcome to be fetched."""
        self.outcome = outcome
        (pod,) = self.pods.values()
        ended = {"exitCode": status, "message": message, "reason": "Error" if status else ""}
        pod["status"]["containerStatuses"][0] |= {"ready": False, "state": {"terminated": ended}}

    def end_sidecar(self) -> None:
        """Ends the pod."""
        for pod in self.pods.values():
            base, sidecar = pod["status"]["containerStatuses"]
            status = base["state"]["terminated"]["exitCode"]
            sidecar |= {"ready": False, "state": {"terminated": {"exitCode": 0}}}
            pod["status"]["phase"] = "Failed" if status else "Succeeded"


class _Handler(Handler):
    server: PodApi
    protocol_version = "HTTP/1.1"

    def respond(self, body: bytes) -> None:
        match self.command:
            case "POST":
                self._create(json.loads(body))
            case "PATCH":
                self._answer(200, self.server.pods[self._name])
            case "DELETE":
                self.server.deleted.append(self._name)
                self._answer(200, self.server.pods.pop(self._name, {}))
            case _:
                self._read()

    @property
    def _name(self) -> str:
        return urlsplit(self.path).path.rpartition("/")[2]

    def _create(self, pod: dict[str, Any]) -> None:
        running = {"startedAt": "2026-01-01T00:00:00Z"}
        pod["metadata"] |= {"uid": "it", "creationTimestamp": "2026-01-01T00:00:00Z"}
        pod["status"] = {
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [
                {
                    "name": container["name"], "image": "it", "imageID": "it", "ready": True,
                    "restartCount": 0, "state": {"running": running},
                }
                for container in pod["spec"]["containers"]
            ],
        }  # fmt: skip
        self.server.pods[pod["metadata"]["name"]] = pod
        self._answer(201, pod)

    def _read(self) -> None:
        path = urlsplit(self.path)
        *_, before, last = path.path.split("/")
        if last == "exec":
            self._execute(parse_qs(path.query)["command"])
        elif last == "log":
            self._answer(200, "")
        elif last == "pods":
            self._answer(200, {"kind": "PodList", "items": [*self.server.pods.values()]})
        elif before == "pods":
            found = self.server.pods.get(last)
            self._answer(200 if found else 404, found or {"kind": "Status", "code": 404})
        else:
            self._answer(200, {"kind": "List", "items": []})

    def _answer(self, status: int, body: object) -> None:
        self.answer(status, (body if isinstance(body, str) else json.dumps(body)).encode())

    def _execute(self, command: list[str]) -> None:
        """Answers what the provider runs in the sidecar: the outcome, or its own end."""
        key = hashlib.sha1(f"{self.headers['Sec-WebSocket-Key']}{_GUID}".encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(key).decode())
        self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        self.end_headers()
        if command[-1] == "/bin/sh":
            self.server.end_sidecar()
        else:
            self._frame(_STDOUT + (self.server.outcome or "__airflow_xcom_result_empty__").encode())
        self._frame(_STATUS + b'{"status": "Success"}')
        self._frame(struct.pack(">H", 1000), code=0x88)
        while self.rfile.read1(4096):  # until the other side has hung up, too
            pass
        self.close_connection = True

    def _frame(self, data: bytes, code: int = 0x82) -> None:
        size = bytes([len(data)]) if len(data) < 126 else struct.pack(">BH", 126, len(data))
        self.wfile.write(bytes([code]) + size + data)
        self.wfile.flush()
