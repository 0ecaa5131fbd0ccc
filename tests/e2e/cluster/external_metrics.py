"""Kubernetes' API of external metrics over a driver's /metrics, in place of an adapter.

A pod runs this file with nothing but Python; `served` makes that pod and what makes it known.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import ssl
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
METRIC = "holdfast_records_lag"
NAME = "e2e-external-metrics"
_FOLDER = "/etc/e2e"
_PATH = re.compile(rf"/apis/{GROUP}/{VERSION}/namespaces/([^/]+)/{METRIC}")
_SAMPLE = re.compile(rf"^{METRIC}(?:\{{[^}}]*\}})? (\S+)$", re.MULTILINE)


def lag(metrics: str) -> float | None:
    """The lag of all queries; None while a driver does not know it."""
    total = sum(float(value) for value in _SAMPLE.findall(metrics))
    return total if total == total and _SAMPLE.search(metrics) else None  # noqa: PLR0124 - NaN


class _Api(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        about = {"apiVersion": f"{GROUP}/{VERSION}", "metadata": {}}
        if asked.path == f"/apis/{GROUP}/{VERSION}":
            known = {"kind": "APIResourceList", "apiVersion": "v1"}
            self._answer(200, {**known, "groupVersion": f"{GROUP}/{VERSION}", "resources": []})
        elif found := _PATH.fullmatch(asked.path):
            items = self._items(found[1], parse_qs(asked.query)["labelSelector"][0])
            self._answer(200, {**about, "kind": "ExternalMetricValueList", "items": items})
        else:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure"})

    def _items(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        labels = dict(part.split("=", 1) for part in selector.split(","))
        service = labels["pod"].rpartition("-")[0]
        try:
            url = f"http://{service}.{namespace}.svc:8090/metrics"
            with urllib.request.urlopen(url, timeout=3) as answer:
                value = lag(answer.read().decode())
        except OSError:
            return []
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        item = {"metricName": METRIC, "metricLabels": labels, "timestamp": now}
        return [] if value is None else [{**item, "value": str(round(value))}]

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


def _serve() -> None:
    server = ThreadingHTTPServer(("", 8443), _Api)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{_FOLDER}/tls.crt", f"{_FOLDER}/tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def _manifests(namespace: str, image: str) -> list[dict[str, Any]]:
    from holdfast.deploy.kubernetes.certificates import Wanted, issue

    (issued,) = issue("e2e", 1, [Wanted(NAME, (f"{NAME}.{namespace}.svc",))])
    data = {**issued, "serve.py": Path(__file__).read_bytes()}
    of = {"name": NAME, "namespace": namespace, "labels": {"app": NAME}}
    container = {
        "name": "serve",
        "image": image,
        "args": ["python", f"{_FOLDER}/serve.py"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "files", "mountPath": _FOLDER}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 2},
    }
    security = {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001}
    pod = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {**security, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "files", "secret": {"secretName": NAME}}],
    }
    known_by = {
        "group": GROUP,
        "version": VERSION,
        "service": {"name": NAME, "namespace": namespace, "port": 443},
        "caBundle": base64.b64encode(issued["ca.crt"]).decode(),
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    ports = [{"port": 443, "targetPort": 8443}]
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": of, "data": encoded},
        {"apiVersion": "v1", "kind": "Pod", "metadata": of, "spec": pod},
        {"apiVersion": "v1", "kind": "Service", "metadata": of,
         "spec": {"selector": {"app": NAME}, "ports": ports}},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
         "metadata": {"name": f"{VERSION}.{GROUP}"}, "spec": known_by},
    ]  # fmt: skip


@contextlib.contextmanager
def served(namespace: str, image: str) -> Iterator[None]:
    """The cluster's autoscaler can ask for the lag while this is open."""
    from tests.e2e.cluster.kube import kubectl, try_kubectl

    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": _manifests(namespace, image)})
    gone = ("delete", "--ignore-not-found", "--force", "--grace-period=0", "-f", "-")
    try_kubectl(*gone, text=text, everywhere=True)
    made = try_kubectl("apply", "-f", "-", text=text, everywhere=True)
    assert made.returncode == 0, made.stderr
    try:
        kubectl("-n", namespace, "wait", "--for=condition=Ready", f"pod/{NAME}", "--timeout=60s")
        known = f"apiservice/{VERSION}.{GROUP}"
        kubectl("wait", "--for=condition=Available", known, "--timeout=120s")
        yield
    finally:
        try_kubectl(*gone, text=text, everywhere=True)


if __name__ == "__main__":
    _serve()
