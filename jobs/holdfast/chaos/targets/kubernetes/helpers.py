"""Ports made unreachable in one pod's own network namespace, by a container that joins the pod."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from holdfast.chaos.targets.kubernetes import unreachable
from holdfast.deploy.kubernetes import pods as kube_pods
from holdfast.deploy.kubernetes.client import KubeClient, Object
from holdfast.errors import HoldfastError, Retriable

__all__ = ["Helpers"]

_PREFIX = "holdfast-chaos-"
_LASTS_S = 360  # then it ends by itself, whatever has become of the run that started it
_STARTS_S, _ENDS_S, _POLL_S = 60.0, 15.0, 0.2


class Helpers:
    """Ephemeral containers that run `unreachable.py`; the pod remembers them.

    They take the job's own image and have no right but that over the pod's network.  What is left
    of one that has ended is its name, for as long as the pod lives.
    """

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube, self._namespace = kube, namespace

    def refused(self, pod: Object) -> str:
        """Why the cluster would have none in this pod; empty when it would.  Changes nothing."""
        try:
            allowed = self._kube.add_helper(pod, _container(pod, [1]), dry_run=True)
        except HoldfastError as refusal:  # rights, pod security, or somebody's admission webhook
            return refusal.fact
        return "" if allowed else "the pod is gone, or the cluster knows no ephemeral containers"

    def cut(self, pod: Object, ports: Collection[int]) -> str:
        """Starts one and waits until it runs; returns its name, or that of one that runs there.

        Raises:
            Refused: the cluster does not allow it.
            Retriable: the pod is gone.
            HoldfastError: it could not be started.
        """
        if running := _running(self._pod(pod)):
            return running[0]
        container = _container(pod, ports)
        if not self._kube.add_helper(pod, container):
            raise Retriable(f"{pod['metadata']['name']} is gone.", action="choose again")
        deadline = time.monotonic() + _STARTS_S
        name, state = str(container["name"]), "waiting"
        while state == "waiting" and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            state, why = kube_pods.helpers(self._pod(pod)).get(name, ("waiting", ""))
        if state != "running":
            raise HoldfastError(
                f"{name} in {pod['metadata']['name']} is {state}, not running: {why}",
                cause="the node is busy, or the pod was deleted meanwhile",
                action="see `kubectl describe pod`",
            )
        return name

    def restore(self, pod: str) -> list[str]:
        """Ends those that run in the pod, which take back what they did; returns their names.

        Raises:
            Retriable: one did not end.
        """
        ended, deadline = list[str](), time.monotonic() + _ENDS_S
        while (found := self._kube.pod(self._namespace, pod)) and (running := _running(found)):
            if time.monotonic() > deadline:
                raise Retriable(
                    f"{', '.join(running)} in {pod} did not end in {_ENDS_S:.0f} s.",
                    cause="the node is busy",
                    action=f"heal again; it ends by itself after {_LASTS_S} s",
                )
            for name in set(running) - set(ended):
                with suppress(Retriable):  # it ended by itself, or the next turn tries again
                    self._kube.run(found, ["sh", "-c", "kill -TERM 1"], container=name)
                    ended.append(name)
            time.sleep(_POLL_S)
        return ended

    def _pod(self, pod: Object) -> Object:
        now = self._kube.pod(self._namespace, pod["metadata"]["name"])
        return now if now and kube_pods.uid(now) == kube_pods.uid(pod) else {}


def _running(pod: Object) -> list[str]:
    states = kube_pods.helpers(pod).items()
    return [name for name, (state, _) in states if state == "running" and name.startswith(_PREFIX)]


def _container(pod: Object, ports: Collection[int]) -> Object:
    own = pod["spec"]["containers"][0]
    script = Path(unreachable.__file__).read_text(encoding="utf-8")
    return {
        "name": f"{_PREFIX}{uuid.uuid4().hex[:8]}",
        "image": own["image"],
        "imagePullPolicy": own.get("imagePullPolicy", "IfNotPresent"),
        "command": ["python", "-c", script, str(_LASTS_S), *map(str, sorted(ports))],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
        },
    }
