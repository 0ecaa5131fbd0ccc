"""A few questions to the Kubernetes API, with no client but what is there.

In a pod the token of its ServiceAccount is used; elsewhere `kubectl`, which knows the user's
cluster.  Most answers decide nothing: they say why a release is not ready.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import orjson

from holdfast.deploy.local.supervisor import last_error_in
from holdfast.errors import HoldfastError

__all__ = [
    "ask",
    "delete_claims",
    "driver_status",
    "from_a_pod",
    "in_a_pod",
    "own_namespace",
    "pod_troubles",
]

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT_S = 10.0
_PASSING = ("ContainerCreating", "PodInitializing")


def in_a_pod() -> bool:
    """Does this process run in a pod that may ask the API?"""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_ACCOUNT / "token").is_file()


def ask(path: str, method: str = "GET") -> bytes | None:
    """The API's answer; None when there is none, or it is a refusal."""
    if in_a_pod():
        return _from_a_pod(path, method)
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return None
    verb = "delete" if method == "DELETE" else "get"
    command = [kubectl, verb, "--raw", path, f"--request-timeout={_TIMEOUT_S:.0f}s"]
    ran = subprocess.run(command, capture_output=True, check=False)
    return ran.stdout if ran.returncode == 0 else None


def _from_a_pod(path: str, method: str) -> bytes | None:
    try:
        return from_a_pod(path, method)
    except (URLError, OSError):
        return None


def from_a_pod(path: str, method: str = "GET", merge: object = None) -> bytes:
    """The API's answer to this pod's ServiceAccount.

    Args:
        merge: what to change, as a JSON merge patch; the method is PATCH then.

    Raises:
        OSError: there is none, or (`urllib.error.HTTPError`, with its `code`) it is a refusal.
    """
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    token = (_ACCOUNT / "token").read_text(encoding="utf-8").strip()
    request = Request(
        f"https://{host}:{port}{path}", method=method, headers={"Authorization": f"Bearer {token}"}
    )
    if merge is not None:
        request.method, request.data = "PATCH", orjson.dumps(merge)
        request.add_header("Content-Type", "application/merge-patch+json")
    trust = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    try:
        with urlopen(request, timeout=_TIMEOUT_S, context=trust) as answer:  # noqa: S310
            body: bytes = answer.read()
            return body
    except HTTPError as refusal:
        refusal.close()
        raise


def own_namespace() -> str:
    """The namespace of this pod."""
    return (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()


def driver_status(namespace: str, name: str) -> dict[str, Any] | None:
    """What the driver says at /status, asked through the API."""
    service = f"/api/v1/namespaces/{namespace}/services/{name}-driver:8090/proxy/status"
    return _json(ask(service))


def pod_troubles(namespace: str, name: str) -> list[str]:
    """Why pods of the release do not run, one line each; empty when they do or nobody may ask."""
    return [trouble for pod in _pods(namespace, name) for trouble in _troubles(namespace, pod)]


def delete_claims(namespace: str, name: str) -> list[str]:
    """Deletes the release's volume claims; returns their names.

    Raises:
        HoldfastError: the API does not let us.
    """
    base = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    found = _json(ask(f"{base}?labelSelector={_selector(name)}"))
    if found is None:
        raise _not_allowed(namespace, name, "listed")
    claims = [item["metadata"]["name"] for item in found.get("items", [])]
    for claim in claims:
        if ask(f"{base}/{claim}", "DELETE") is None:
            raise _not_allowed(namespace, name, f"deleted ({claim})")
    return claims


def _not_allowed(namespace: str, name: str, what: str) -> HoldfastError:
    return HoldfastError(
        f"The volume claims of {name} in {namespace} could not be {what}.",
        cause="this account has no right to do that, or there is no kubectl here",
        action=f"kubectl -n {namespace} delete pvc -l app.kubernetes.io/name=holdfast,"
        f"app.kubernetes.io/instance={name}",
    )


def _selector(name: str) -> str:
    return quote(f"app.kubernetes.io/name=holdfast,app.kubernetes.io/instance={name}")


def _pods(namespace: str, name: str) -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={_selector(name)}"
    items: list[dict[str, Any]] = (_json(ask(path)) or {}).get("items", [])
    return items


def _troubles(namespace: str, pod: dict[str, Any]) -> Iterator[str]:
    name, status = pod["metadata"]["name"], pod.get("status", {})
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield f"{name} is not scheduled: {condition.get('message', '')}"
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        ended = container.get("lastState", {}).get("terminated") or container["state"].get(
            "terminated"
        )
        if waiting.get("reason") and waiting["reason"] not in _PASSING:
            yield f"{name} waits: {waiting['reason']} {waiting.get('message', '')}".strip()
        if ended and ended.get("exitCode"):
            yield f"{name} ended with status {ended['exitCode']}: {_last_words(namespace, name)}"


def _last_words(namespace: str, pod: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?tailLines=60"
    log = ask(f"{path}&previous=true") or ask(path) or b""
    return last_error_in(log.decode(errors="replace")) or "its log says nothing"


def _json(body: bytes | None) -> dict[str, Any] | None:
    if body is None:
        return None
    try:
        found = orjson.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
