"""The API server of a cluster, as far as the pod of one task goes, with its XCom sidecar."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

__all__ = ["PodApi"]

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
_STDOUT, _STATUS = b"\x01", b"\x03"


class PodApi(AbstractContextManager["PodApi"]):
    """Runs each pod until somebody ends it; nothing is executed.

    Attributes:
        pods: by name, as they are now.
        deleted: names of those that were deleted.
    """

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.outcome = ""
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def connection(self) -> str:
        """An Airflow connection of type `kubernetes` to it, as JSON."""
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {
                "server": f"http://127.0.0.1:{self._server.server_port}"}}],
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


class _Handler(BaseHTTPRequestHandler):
    api: PodApi
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        pod = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
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
        self.api.pods[pod["metadata"]["name"]] = pod
        self._answer(201, pod)

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        *_, before, last = path.path.split("/")
        if last == "exec":
            self._execute(parse_qs(path.query)["command"])
        elif last == "log":
            self._answer(200, "")
        elif last == "pods":
            self._answer(200, {"kind": "PodList", "items": [*self.api.pods.values()]})
        elif before == "pods":
            found = self.api.pods.get(last)
            self._answer(200 if found else 404, found or {"kind": "Status", "code": 404})
        else:
            self._answer(200, {"kind": "List", "items": []})

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, self.api.pods[self.path.rpartition("/")[2].partition("?")[0]])

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = urlsplit(self.path).path.rpartition("/")[2]
        self.api.deleted.append(name)
        self._answer(200, self.api.pods.pop(name, {}))

    def _answer(self, status: int, body: object) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

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
            self.api.end_sidecar()
        else:
            self._frame(_STDOUT + (self.api.outcome or "__airflow_xcom_result_empty__").encode())
        self._frame(_STATUS + b'{"status": "Success"}')
        self._frame(struct.pack(">H", 1000), code=0x88)
        while self.rfile.read1(4096):  # until the other side has hung up, too
            pass
        self.close_connection = True

    def _frame(self, data: bytes, code: int = 0x82) -> None:
        size = bytes([len(data)]) if len(data) < 126 else struct.pack(">BH", 126, len(data))
        self.wfile.write(bytes([code]) + size + data)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Nothing: the tests say what there is to say."""
