"""NetworkPolicies that keep one pod from some ports, beside the policies of its release.

A pod may do what any policy that selects it allows: a further policy never takes anything away.  So
the release's policy has to leave the pod out while the pod has one of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

from holdfast.deploy.kubernetes.client import KubeClient, Object

__all__ = ["Policies"]

_PREFIX = "holdfast-chaos-"
_LABEL = "holdfast/chaos"
_POD_NAME = "statefulset.kubernetes.io/pod-name"
_HIGHEST_PORT = 65535


class Policies:
    """Owns the NetworkPolicies that chaos made for one job; the cluster keeps the list of them."""

    def __init__(self, kube: KubeClient, namespace: str, name: str) -> None:
        self._kube, self._namespace, self._name = kube, namespace, name

    def forbid(self, pod: Object, ports: Collection[int]) -> None:
        """Allows a pod what its release allows it, without these TCP ports.

        Whether the cluster enforces it is another question.
        """
        name = pod["metadata"]["name"]
        of_release = self._of_release(name)
        policy = _policy(name, self._name, of_release, ports)
        # First the pod's own one: a pod that no policy selects may do everything.
        self._kube.create_policy(self._namespace, policy)
        if of_release is not None:
            self._leave_out(of_release, [*_left_out(of_release), name])

    def restore(self, pod: str) -> bool:
        """Undoes `forbid`; False when there is nothing to undo."""
        of_release = self._of_release(pod)
        if of_release is not None and pod in _left_out(of_release):
            self._leave_out(of_release, [one for one in _left_out(of_release) if one != pod])
        return self._kube.delete_policy(self._namespace, f"{_PREFIX}{pod}")

    def restore_all(self) -> list[str]:
        """Undoes every `forbid` of the job; returns the policies that are gone, in words."""
        label = f"{_LABEL}=cut-off,app.kubernetes.io/instance={self._name}"
        names = self._kube.policies(self._namespace, label)
        restored = [name for name in names if self.restore(name.removeprefix(_PREFIX))]
        return [f"NetworkPolicy {name}" for name in restored]

    def _of_release(self, pod: str) -> Object | None:
        """The chart's policy for a pod, which has the name of the pod's StatefulSet."""
        return self._kube.policy(self._namespace, pod.rpartition("-")[0])

    def _leave_out(self, policy: Object, pods: list[str]) -> None:
        others = [one for one in _expressions(policy) if not _is_of_chaos(one)]
        ours = [{"key": _POD_NAME, "operator": "NotIn", "values": sorted(set(pods))}]
        self._kube.select_pods(
            self._namespace, policy["metadata"]["name"], [*others, *(ours if pods else [])]
        )


def _expressions(policy: Object) -> list[Object]:
    return policy["spec"]["podSelector"].get("matchExpressions") or []


def _is_of_chaos(expression: Object) -> bool:
    return (expression["key"], expression["operator"]) == (_POD_NAME, "NotIn")


def _left_out(policy: Object) -> list[str]:
    return [pod for one in _expressions(policy) if _is_of_chaos(one) for pod in one["values"]]


def _policy(pod: str, job: str, of_release: Object | None, forbidden: Collection[int]) -> Object:
    """A policy of one pod: as the release's, or all egress, except TCP to the forbidden ports."""
    spec: dict[str, Any] = {"policyTypes": ["Egress"], "egress": [{}]}
    if of_release is not None:
        spec = {key: of_release["spec"][key] for key in ("policyTypes", "ingress", "egress")
                if key in of_release["spec"]}  # fmt: skip
    without = (_without(rule, forbidden) for rule in spec.get("egress", []))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": f"{_PREFIX}{pod}",
            "labels": {_LABEL: "cut-off", "app.kubernetes.io/instance": job},
        },
        "spec": {
            **spec,
            "podSelector": {"matchLabels": {_POD_NAME: pod}},
            "egress": [rule for rule in without if rule["ports"]],
        },
    }


def _without(rule: Object, forbidden: Collection[int]) -> Object:
    """A rule of egress without TCP to some ports; its ports are empty if nothing is left."""
    ports = rule.get("ports") or [
        {"protocol": "TCP", "port": 1, "endPort": _HIGHEST_PORT},
        {"protocol": "UDP", "port": 1, "endPort": _HIGHEST_PORT},
    ]
    return {**rule, "ports": [part for port in ports for part in _parts(port, forbidden)]}


def _parts(port: Object, forbidden: Collection[int]) -> list[Object]:
    """The rest of a port, or of a range of them; a port that has a name stays."""
    low = port.get("port")
    if port.get("protocol", "TCP") != "TCP" or not isinstance(low, int):
        return [port]
    high = port.get("endPort", low)
    edges = [low - 1, *sorted(one for one in set(forbidden) if low <= one <= high), high + 1]
    spans = [(a + 1, b - 1) for a, b in itertools.pairwise(edges)]
    return [{"protocol": "TCP", "port": a, "endPort": b} for a, b in spans if a <= b]
