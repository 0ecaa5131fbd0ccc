"""An S3 server in a pod of the cluster, for as long as a test needs it.

The pod's image is the schema registry's, which has all of Java; the server's jars are copied there.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from tests.e2e.cluster.kube import (
    CONTAINER_SECURITY,
    CONTEXT,
    IMAGE,
    NAMESPACE,
    POD_SECURITY,
    kubectl,
)
from tests.support.servers.s3_server import credentials, proxy_command, proxy_jars, proxy_settings

__all__ = ["PORT", "environment", "s3_pod"]

NAME = "e2e-s3"
PORT = 9000
_DATA, _JARS, _SETTINGS = "/tmp/data", "/tmp/jars", "/tmp/s3proxy.properties"
_BUCKET = "snapshots"
_LABELS = {"app.kubernetes.io/name": NAME}


@contextmanager
def s3_pod() -> Iterator[str]:
    """Starts it; the address of a folder in it, as `snapshot.uri` takes it."""
    _forget()
    made = {"apiVersion": "v1", "kind": "List", "items": _objects()}
    kubectl("apply", "-f", "-", text=json.dumps(made))
    try:
        kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{NAME}", "--timeout=60s")
        _fill()
        kubectl("wait", "--for=condition=Ready", f"pod/{NAME}", "--timeout=60s")
        asked = {"scheme": "http", "endpoint_override": f"{NAME}:{PORT}", "region": "us-east-1"}
        yield f"s3://{_BUCKET}/jobs?{urlencode(asked)}"
    finally:
        _forget()


def environment() -> list[dict[str, Any]]:
    """The environment of a container whose programs use it."""
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": NAME, "key": name}}}
        for name in credentials()
    ]


def _fill() -> None:
    """Copies what the server is made of; the settings, for which the pod waits, come last."""
    within = ["kubectl", "--context", CONTEXT, "-n", NAMESPACE, "exec", "-i", NAME, "--"]
    packed = subprocess.run(
        ["tar", "-C", proxy_jars(), "-cf", "-", "."], capture_output=True, check=True
    )
    unpack = f"mkdir -p {_JARS} {_DATA}/{_BUCKET} && tar -C {_JARS} -xf -"
    subprocess.run([*within, "sh", "-c", unpack], input=packed.stdout, check=True)
    settings = proxy_settings(f"http://0.0.0.0:{PORT}", _DATA)
    kubectl("exec", "-i", NAME, "--", "sh", "-c", f"cat > {_SETTINGS}", text=settings)


def _forget() -> None:
    what = (f"pod/{NAME}", f"service/{NAME}", f"secret/{NAME}")
    kubectl("delete", *what, "--ignore-not-found", "--grace-period=0", "--force")


def _objects() -> Sequence[dict[str, Any]]:
    start = " ".join(f"'{part}'" for part in proxy_command("java", _JARS, _SETTINGS))
    waits = f"until [ -s {_SETTINGS} ]; do sleep 0.2; done; exec {start}"
    metadata = {"name": NAME, "labels": _LABELS}
    container = {
        "name": "s3",
        "image": f"holdfast-schema-registry:{IMAGE.partition(':')[2]}",
        "args": ["sh", "-c", waits],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    pod = {
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": POD_SECURITY,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    service = {"selector": _LABELS, "ports": [{"port": PORT}]}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": credentials()},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
    ]
