"""A cluster with releases, which answers as the Kubernetes API does, within a Role's rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.servers.kubernetes_api import NAMESPACE, Asked

__all__ = ["OOM_KILLED", "Cluster", "pod"]

_OBJECT = re.compile(
    rf"/apis?/(?:(apps)/)?v1/namespaces/{NAMESPACE}/(\w+)(?:/([\w.-]+))?(?:/(log))?"
)
OOM_KILLED = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-28T20:00:05Z"}


def pod(name: str, container: str, restarts: int = 0, **state: Any) -> dict[str, Any]:
    """A pod that runs and is ready; `state` changes the status of its container."""
    status = {"name": container, "ready": True, "restartCount": restarts, "state": {"running": {}}}
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-11-28T19:00:00Z"},
        "spec": {"nodeName": "worker-1"},
        "status": {
            "phase": "Running",
            "startTime": "2026-11-28T19:00:01Z",
            "containerStatuses": [{"name": "a-sidecar", "ready": True, "restartCount": 9,
                                   "state": {"running": {}}}, status | state],
        },
    }  # fmt: skip


@dataclass
class Cluster:
    """Pods, numbers of replicas and logs by name.

    Attributes:
        rules: of the account; None: it may do everything.
        logs: by pod, `previous/` before it for the container before the present one.
        silent: answers every request with 503.
    """

    pods: dict[str, dict[str, Any]]
    replicas: dict[str, int]
    logs: dict[str, str] = field(default_factory=dict)
    rules: Sequence[Mapping[str, Any]] | None = None
    silent: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked) -> tuple[int, Any]:
        self.asked.append(asked.path)
        place = urlsplit(asked.path)
        found = _OBJECT.fullmatch(place.path)
        if self.silent:
            return 503, {"message": "etcd leader changed"}
        if found is None:
            return 404, {"message": "the server could not find the requested resource"}
        group, kind, name, log = found.groups()
        verb = "get" if name else "list"
        resource = f"{kind}/log" if log else kind
        if not self._may(verb, group or "", resource, name):
            who = f"system:serviceaccount:{NAMESPACE}:movies-serve"
            return 403, {"message": f'{kind} "{name}" is forbidden: User "{who}" cannot {verb} '
                                    f'resource "{resource}" in API group ""'}  # fmt: skip
        if log:
            return self._log(name, {k: v[0] for k, v in parse_qs(place.query).items()})
        there = self._objects(kind)
        if name not in there:
            return 404, {"message": f'{kind} "{name}" not found'}
        return 200, there[name]

    def _objects(self, kind: str) -> dict[str, dict[str, Any]]:
        if kind == "pods":
            return self.pods
        return {name: {"spec": {"replicas": number}} for name, number in self.replicas.items()}

    def _may(self, verb: str, group: str, resource: str, name: str | None) -> bool:
        if self.rules is None:
            return True
        return any(
            group in rule["apiGroups"]
            and resource in rule["resources"]
            and verb in rule["verbs"]
            and name in rule.get("resourceNames", [name])
            for rule in self.rules
        )

    def _log(self, name: str, given: Mapping[str, str]) -> tuple[int, Any]:
        if name not in self.pods:
            return 404, {"message": f'pods "{name}" not found'}
        statuses = self.pods[name]["status"]["containerStatuses"]
        if given.get("container") not in {status["name"] for status in statuses}:
            return 400, {"message": f"a container name must be specified for pod {name}"}
        kept = f"previous/{name}" if given.get("previous") == "true" else name
        if kept not in self.logs:
            told = f'previous terminated container "x" in pod "{name}" not found'
            return 400, {"message": told}
        lines = self.logs[kept].splitlines(keepends=True)[-int(given["tailLines"]) :]
        # As the kubelet: the limit takes the beginning of the last lines.
        return 200, "".join(lines).encode()[: int(given["limitBytes"])]
