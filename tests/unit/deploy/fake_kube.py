"""A cluster in memory, for what decides who is hit and what is believed.

The real one is in tests/e2e/cluster; the scripts that run in containers have tests of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.chaos.targets.kubernetes.scripts import sh
from holdfast.deploy.kubernetes.client import Executed, KubeClient
from holdfast.errors import Refused

JOB, PLATFORM = "jobs", "platform"
NAME = "movies"
_uids = itertools.count(1)

Answer = Callable[[dict[str, Any], Sequence[str]], Executed]


class FakeKube(KubeClient):
    """Pods by namespace and name; answers of commands by script."""

    def __init__(self) -> None:
        self.there: dict[tuple[str, str], dict[str, Any]] = {}
        self.claims: dict[str, str] = {}
        self.made: dict[str, dict[str, Any]] = {}
        self.of_release: dict[str, dict[str, Any]] = {}  # policies
        self.helpers: dict[str, dict[str, Any]] = {}
        self.forbids = 'pods "p" is forbidden: violates PodSecurity "restricted:latest"'
        self.labels: dict[str, str] = {}
        self.did: list[tuple[object, ...]] = []
        self.answers: dict[str, Answer] = {}

    def add(self, namespace: str, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """A pod that runs and is ready."""
        pod = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{next(_uids)}",
                "labels": dict(labels),
            },
            "spec": {
                "terminationGracePeriodSeconds": 10,
                "volumes": [],
                "containers": [{"image": "holdfast:1", "imagePullPolicy": "Never"}],
            },
            "status": {
                "containerStatuses": [{"restartCount": 0, "ready": True, "state": {"running": {}}}]
            },
        }
        self.there[namespace, name] = pod
        return pod

    def add_job(self) -> None:
        """A driver and two executors of `NAME`."""
        for component, name in (("driver", "driver-0"), ("executor", "executor-0"),
                                ("executor", "executor-1")):  # fmt: skip
            self.add(JOB, f"{NAME}-{name}", job_labels(component))

    def answer(self, script: str, status: int | None = 0, out: str = "") -> None:
        """Sets the result of a command that runs this script."""
        self.answers[sh(script)[2]] = lambda _pod, _command: Executed(status, out, "")

    def namespace_labels(self, namespace: str) -> dict[str, str]:
        return self.labels

    def pods(self, namespace: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        return [
            pod
            for (place, _), pod in sorted(self.there.items())
            if place == namespace and labels.items() <= pod["metadata"]["labels"].items()
        ]

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.there.get((namespace, name))

    def delete_pod(self, namespace: str, name: str, uid: str, grace_s: int | None) -> bool:
        self.did.append(("delete", name, grace_s))
        return bool(self.there[namespace, name]["metadata"]["uid"] == uid)

    def add_helper(
        self, pod: dict[str, Any], container: dict[str, Any], *, dry_run: bool = False
    ) -> bool:
        if self.forbids:
            raise Refused(self.forbids)
        if not dry_run:
            self.helpers[container["name"]] = container
            running = {"name": container["name"], "state": {"running": {}}}
            pod["status"].setdefault("ephemeralContainerStatuses", []).append(running)
        return True

    def claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        return {"metadata": {"uid": self.claims[name]}} if name in self.claims else None

    def delete_claim(self, namespace: str, name: str) -> bool:
        self.did.append(("delete claim", name))
        return name in self.claims

    def policies(self, namespace: str, label: str) -> list[str]:
        return sorted(self.made)

    def policy(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.made.get(name) or self.of_release.get(name)

    def select_pods(self, namespace: str, name: str, expressions: Sequence[dict[str, Any]]) -> bool:
        self.of_release[name]["spec"]["podSelector"]["matchExpressions"] = list(expressions)
        return True

    def create_policy(self, namespace: str, policy: Any) -> bool:
        self.made[policy["metadata"]["name"]] = policy
        return True

    def delete_policy(self, namespace: str, name: str) -> bool:
        return self.made.pop(name, None) is not None

    def run(
        self,
        pod: dict[str, Any],
        command: Sequence[str],
        timeout_s: float = 20.0,
        container: str | None = None,
    ) -> Executed:
        if container is not None:
            self.end_helper(pod, container)
            return Executed(0, "", "")
        self.did.append(("run", pod["metadata"]["name"], *command[4:]))
        answer = self.answers.get(command[2])
        return answer(pod, command) if answer else Executed(0, "", "")

    def end_helper(self, pod: dict[str, Any], name: str, why: str = "") -> None:
        """The ephemeral container ends."""
        for one in pod["status"]["ephemeralContainerStatuses"]:
            if one["name"] == name:
                one["state"] = {"terminated": {"message": why}}


def job_labels(component: str) -> dict[str, str]:
    """Those of the chart."""
    return {
        "app.kubernetes.io/name": "holdfast",
        "app.kubernetes.io/instance": NAME,
        "app.kubernetes.io/component": component,
    }
