"""What a pod's own description says of it, as far as chaos wants to know."""

from __future__ import annotations

from typing import Any

from holdfast.deploy.local.supervisor import REFUSED, last_error_in

__all__ = [
    "alive",
    "claims",
    "copies",
    "ending",
    "helpers",
    "identity",
    "ready",
    "refusal",
    "restarts",
    "seen",
    "served_at",
    "uid",
]

Object = dict[str, Any]


def uid(pod: Object) -> str:
    """Which incarnation of the pod."""
    return str(pod["metadata"]["uid"])


def restarts(pod: Object) -> int:
    """How often its first container was started again."""
    return int(_container(pod).get("restartCount", 0))


def identity(pod: Object) -> str:
    """Which incarnation of the pod and of its container."""
    return f"{uid(pod)}/{restarts(pod)}"


def seen(pod: Object | None) -> str:
    """The same, for people."""
    if pod is None:
        return "no pod"
    words = ", being deleted" if ending(pod) else ""
    return f"pod {uid(pod)}, {restarts(pod)} restarts{words}"


def ending(pod: Object) -> bool:
    """Was it told to end?"""
    return bool(pod["metadata"].get("deletionTimestamp"))


def alive(pod: Object | None) -> bool:
    """Does its container run, and is it meant to go on?"""
    if pod is None or ending(pod):
        return False
    return "running" in _container(pod).get("state", {})


def ready(pod: Object | None) -> bool:
    """Does it run, and do its probes say that it can work?"""
    return pod is not None and alive(pod) and bool(_container(pod).get("ready"))


def refusal(pod: Object) -> str:
    """Why its container, which waits, has refused to go on; empty when it has not."""
    container = _container(pod)
    ended = (container.get("lastState") or {}).get("terminated") or {}
    if "waiting" not in container.get("state", {}) or ended.get("exitCode") != REFUSED:
        return ""
    return last_error_in(str(ended.get("message", ""))) or "its log says why"


def claims(pod: Object) -> list[str]:
    """Names of the volume claims that it mounts."""
    volumes = pod["spec"].get("volumes") or []
    return [
        v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v
    ]


def helpers(pod: Object) -> dict[str, tuple[str, str]]:
    """Of its ephemeral containers, by name: waiting, running or terminated, and why, if told."""
    found: list[Object] = (pod.get("status") or {}).get("ephemeralContainerStatuses") or []
    states = {one["name"]: one.get("state") or {} for one in found}
    return {
        name: (kind, str((about or {}).get("message", "")))
        for name, state in states.items()
        for kind, about in state.items()
    }


def served_at(pod: Object) -> str:
    """The address of a query server, in its StatefulSet's headless service."""
    spec = pod["spec"]
    port = spec["containers"][0]["ports"][0]["containerPort"]
    secure = _argument(pod, "--tls-cert") is not None
    return f"http{'s' if secure else ''}://{spec['hostname']}.{spec['subdomain']}:{port}"


def copies(pod: Object) -> int:
    """On how many query servers each state partition lies, as this one was told."""
    return int(_argument(pod, "--copies") or 1)


def _argument(pod: Object, name: str) -> str | None:
    """What follows `name=` among its container's arguments."""
    given = (str(argument).partition("=") for argument in pod["spec"]["containers"][0]["args"])
    return next((value for key, _, value in given if key == name), None)


def _container(pod: Object) -> Object:
    found: list[Object] = (pod.get("status") or {}).get("containerStatuses") or [{}]
    return found[0]
