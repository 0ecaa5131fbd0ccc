"""A few requests to the Kubernetes API without a client library.

In a pod they use the ServiceAccount's token; elsewhere `kubectl`, which knows the user's cluster.
Most answers decide nothing: they explain why a release is not ready.

`client.KubeClient` is no replacement: it needs the package `kubernetes`, which only the extra
`chaos` installs, while `holdfast deploy` and a driver's pod have to work without it.  What a
refusal means is the same for both and is in `refusals`.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import orjson

from holdfast.deploy.kubernetes.refusals import NOT_AS_ASKED, TIMEOUT_S, no_answer, refusal
from holdfast.deploy.local.supervisor import last_error_in
from holdfast.errors import HoldfastError

__all__ = [
    "ask",
    "delete_claims",
    "driver_status",
    "from_a_pod",
    "in_a_pod",
    "not_pulled",
    "own_namespace",
    "pod_troubles",
    "pods_of",
]

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MESSAGE_BYTES = 64 << 10
_PASSING = ("ContainerCreating", "PodInitializing")
# The kubelet's words; see `pkg/kubelet/images` of Kubernetes.
_NOT_PULLED = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


def in_a_pod() -> bool:
    """Whether this process runs in a pod that may use the API."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_ACCOUNT / "token").is_file()


def ask(path: str, method: str = "GET") -> bytes | None:
    """The API's answer; None without an answer, or when it is a refusal."""
    if in_a_pod():
        return _from_a_pod(path, method)
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return None
    verb = "delete" if method == "DELETE" else "get"
    command = [kubectl, verb, "--raw", path, f"--request-timeout={TIMEOUT_S:.0f}s"]
    ran = subprocess.run(command, capture_output=True, check=False)
    return ran.stdout if ran.returncode == 0 else None


def _from_a_pod(path: str, method: str) -> bytes | None:
    try:
        return from_a_pod(path, method)
    except HoldfastError:
        return None


def from_a_pod(
    path: str, method: str = "GET", merge: object = None, create: object = None
) -> bytes | None:
    """The API's answer to this pod's ServiceAccount; None where the object is missing or, with
    `merge`, another version by now, or, with `create`, there already.

    Args:
        merge: the change, as a JSON merge patch; the method is then PATCH.
        create: the object; `path` is its collection, and the method POST.

    Raises:
        Refused: the account may not do it.
        Retriable: the API does not answer.
        HoldfastError: any other refusal.
    """
    try:
        if create is not None:
            return _answer(path, "POST", create, "application/json")
        if merge is not None:
            return _answer(path, "PATCH", merge, "application/merge-patch+json")
        return _answer(path, method)
    except HTTPError as error:
        with error:
            said = _message(error)
        if error.code in NOT_AS_ASKED:
            return None
        raise refusal(error.code, said) from error
    except (HTTPException, OSError) as error:
        raise no_answer(str(error)) from error


def _message(error: HTTPError) -> str:
    """The API's message about a refusal, or the status' words when it has none."""
    try:
        told = _json(error.read(_MESSAGE_BYTES))
    except (HTTPException, OSError):
        told = None
    return str((told or {}).get("message") or error.reason)


def _answer(path: str, method: str, body: object = None, kind: str = "") -> bytes:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    token = (_ACCOUNT / "token").read_text(encoding="utf-8").strip()
    request = Request(
        f"https://{host}:{port}{path}", method=method, headers={"Authorization": f"Bearer {token}"}
    )
    if kind:
        request.data = orjson.dumps(body)
        request.add_header("Content-Type", kind)
    trust = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    with urlopen(request, timeout=TIMEOUT_S, context=trust) as answer:  # noqa: S310
        said: bytes = answer.read()
        return said


def own_namespace() -> str:
    """The namespace of this pod."""
    return (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()


def driver_status(namespace: str, name: str) -> dict[str, Any] | None:
    """The driver's /status, read through the API."""
    service = f"/api/v1/namespaces/{namespace}/services/{name}-driver:8090/proxy/status"
    return _json(ask(service))


def pods_of(namespace: str, name: str) -> list[dict[str, Any]]:
    """The release's pods, as in the API's JSON; none without rights."""
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={_selector(name)}"
    items: list[dict[str, Any]] = (_json(ask(path)) or {}).get("items", [])
    return items


def pod_troubles(namespace: str, pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why pods do not run, one line each; empty when they do."""
    return [trouble for pod in pods for trouble in _troubles(namespace, pod)]


def not_pulled(pods: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Name and reason of each pod whose image cannot be pulled, by its uid."""
    return {
        pod["metadata"]["uid"]: f"{pod['metadata']['name']}: {waiting.get('message', '')}".strip()
        for pod in pods
        for container in _containers(pod)
        if (waiting := _waiting(container)).get("reason") in _NOT_PULLED
    }


def delete_claims(namespace: str, name: str) -> list[str]:
    """Deletes the release's volume claims; returns their names.

    Raises:
        HoldfastError: the API refuses.
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


def _troubles(namespace: str, pod: Mapping[str, Any]) -> Iterator[str]:
    name, status = pod["metadata"]["name"], pod.get("status", {})
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield f"{name} is not scheduled: {condition.get('message', '')}"
    for container in _containers(pod):
        waiting = _waiting(container)
        ended = container.get("lastState", {}).get("terminated") or container["state"].get(
            "terminated"
        )
        if waiting.get("reason") and waiting["reason"] not in _PASSING:
            yield f"{name} waits: {waiting['reason']} {waiting.get('message', '')}".strip()
        if ended and ended.get("exitCode"):
            yield f"{name} ended with status {ended['exitCode']}: {_last_words(namespace, name)}"


def _containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The states of a pod's containers, init containers included."""
    status = pod.get("status", {})
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]


def _waiting(container: Mapping[str, Any]) -> dict[str, str]:
    waiting: dict[str, str] = container.get("state", {}).get("waiting", {})
    return waiting


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
