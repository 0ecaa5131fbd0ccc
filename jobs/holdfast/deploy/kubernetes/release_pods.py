"""The pods of the release that a query server belongs to, and their logs, for its console.

Every pod is asked for by its name, which its StatefulSet decides: a Role can name pods, but cannot
select them by labels, so the server needs no right to list the pods of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from holdfast.deploy.kubernetes.in_pod import from_a_pod, in_a_pod, own_namespace
from holdfast.deploy.kubernetes.pods import ending
from holdfast.deploy.local.logs import last_lines
from holdfast.deploy.local.supervisor import last_error_in
from holdfast.errors import Refused

__all__ = ["PodsOfRelease"]

_COMPONENTS = ("driver", "executor", "serve")  # of each its StatefulSet and its container
_LINES = (500, 50, 5)
_BYTES = 1 << 20  # that the API sends at most, of those lines
_TURN_ON = (
    "`helm upgrade` with serve.console.pods=true gives the servers an account that may read this "
    "release's pods and their logs, and nothing else"
)


class PodsOfRelease:
    """Asks the API of this pod's cluster; changes nothing.

    Args:
        release: the Helm release, in the namespace of this pod.
    """

    def __init__(self, release: str) -> None:
        self.release = release
        self._name = re.compile(rf"{re.escape(release)}-({'|'.join(_COMPONENTS)})-[0-9]{{1,5}}")

    def all(self) -> Sequence[Mapping[str, Any]]:
        """Every pod that the release's StatefulSets shall have, as JSON values.

        Raises:
            Refused: this server has no account, or it may not read the StatefulSets.
            Retriable: the API does not answer.
        """
        return [self._pod(f"{one}-{n}") for one in _COMPONENTS for n in range(self._replicas(one))]

    def log(self, name: str, bytes_max: int, *, previous: bool) -> str:
        """The end of a pod's log, from the beginning of a line on.

        Args:
            previous: of the container that ran before the present one.

        Raises:
            Refused: it is no pod of the release, is not there, or may not be read.
            Retriable: the API does not answer.
            HoldfastError: there is no such log.
        """
        found = self._name.fullmatch(name)
        if found is None:
            raise Refused(f"{name[:100]!r} is no pod of {self.release}.")
        path = f"pods/{name}/log?container={found[1]}{'&previous=true' if previous else ''}"
        return last_lines(_end_of_log(f"/api/v1/namespaces/{_namespace()}/{path}"), bytes_max)

    def _replicas(self, component: str) -> int:
        """The number of pods that a StatefulSet shall have; 0 without one.

        Raises:
            Refused, Retriable: see `all`.
        """
        found = _told(f"/apis/apps/v1/namespaces/{_namespace()}/statefulsets", self._of(component))
        return int(found["spec"].get("replicas", 1)) if found else 0

    def _pod(self, place: str) -> dict[str, Any]:
        component = place.partition("-")[0]
        facts: dict[str, Any] = {"name": self._of(place), "component": component, "refused": ""}
        try:
            found = _told(f"/api/v1/namespaces/{_namespace()}/pods", self._of(place))
        except Refused as error:  # of one pod: there are more than the Role names
            return facts | {"state": "unknown", "refused": error.fact}
        return facts | (_seen(found, component) if found else {"state": "missing"})

    def _of(self, place: str) -> str:
        return f"{self.release}-{place}"


def _namespace() -> str:
    """The namespace of this pod.

    Raises:
        Refused: it has no ServiceAccount's token.
    """
    if not in_a_pod():
        raise Refused("Query servers have no account of the cluster.", action=_TURN_ON)
    return own_namespace()


def _end_of_log(path: str) -> bytes:
    """The last lines of a log; of very long ones the beginning.

    Raises:
        Refused, Retriable, HoldfastError: see `PodsOfRelease.log`.
    """
    text = b""
    for lines in _LINES:
        # The limit cuts the end, which is what matters: fewer lines are asked for then.
        found = _asked(f"{path}&tailLines={lines}&limitBytes={_BYTES}")
        if found is None:
            raise Refused(
                "There is no such pod at the moment.",
                action="look again: its StatefulSet makes another one",
            )
        text = found
        if len(text) < 0.9 * _BYTES:  # the API keeps the limit roughly
            break
    return text


def _told(collection: str, name: str) -> dict[str, Any] | None:
    body = _asked(f"{collection}/{name}")
    found: dict[str, Any] | None = None if body is None else orjson.loads(body)
    return found


def _asked(path: str) -> bytes | None:
    """The API's answer; None without such an object.

    Raises:
        Refused: the account may not read it.
        Retriable, HoldfastError: see `from_a_pod`.
    """
    try:
        return from_a_pod(path)
    except Refused as error:
        raise Refused(
            error.fact,
            cause="the servers' account lacks the Role that the chart makes, or the release has "
            "more pods than it had at its last `helm upgrade`",
            action=f"{_TURN_ON}; the chart's README lists the rights for an account of your own",
        ) from error


def _seen(pod: Mapping[str, Any], component: str) -> dict[str, Any]:
    status = pod.get("status", {})
    container: Mapping[str, Any] = next(
        (c for c in status.get("containerStatuses", []) if c["name"] == component), {}
    )
    now = container.get("state", {})
    ended = now.get("terminated") or container.get("lastState", {}).get("terminated")
    return {
        "phase": status.get("phase", ""),
        "state": "Terminating" if ending(dict(pod)) else next(_states(status), ""),
        "ready": bool(container.get("ready")),
        "restarts": int(container.get("restartCount", 0)),
        "created_ms": _ms(pod["metadata"].get("creationTimestamp", "")),
        "node": pod.get("spec", {}).get("nodeName", ""),
        "why": "; ".join(_troubles(status)),
        "ended": _ended(ended) if ended else None,
    }


def _ended(told: Mapping[str, Any]) -> dict[str, Any]:
    """How a container has ended.  A reason is the kubelet's word, such as OOMKilled."""
    return {
        "reason": told.get("reason", ""),
        "exit_code": told.get("exitCode"),
        "ms": _ms(told.get("finishedAt") or ""),
        "why": last_error_in(str(told.get("message", ""))),
    }


def _states(status: Mapping[str, Any]) -> Iterator[str]:
    """The words that kubectl has for a pod's state, the decisive one first."""
    for container in _containers(status):
        state = container.get("state", {})
        # An init container that has done its work says nothing about the pod.
        if "waiting" in state or state.get("terminated", {}).get("exitCode"):
            told = state.get("waiting") or state.get("terminated") or {}
            yield str(told.get("reason", ""))
    yield str(status.get("reason") or status.get("phase", ""))


def _troubles(status: Mapping[str, Any]) -> Iterator[str]:
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield str(condition.get("message", ""))
    told = (c.get("state", {}).get("waiting", {}).get("message") for c in _containers(status))
    yield from (str(message)[:500] for message in (*told, status.get("message")) if message)


def _containers(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]


def _ms(time: str) -> int:
    """A time of the API, such as 2026-11-28T20:00:00Z, as milliseconds; 0 without one."""
    return int(datetime.fromisoformat(time).timestamp() * 1000) if time else 0
