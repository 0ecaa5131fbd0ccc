"""Ports forbidden to one pod by a NetworkPolicy."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from holdfast.deploy.kubernetes.client import KubeClient, Object

__all__ = ["Policies"]

_LABEL = "holdfast/chaos"
_HIGHEST_PORT = 65535


class Policies:
    """Owns the NetworkPolicies that chaos has made for one job; the cluster remembers them."""

    def __init__(self, kube: KubeClient, namespace: str, name: str) -> None:
        self._kube, self._namespace, self._name = kube, namespace, name

    def forbid(self, pod: Object, ports: Collection[int]) -> None:
        """Asks for it; whether the cluster does so is another question."""
        policy = _policy(pod["metadata"]["name"], self._name, ports)
        self._kube.create_policy(self._namespace, policy)

    def restore(self, pod: str) -> bool:
        """Takes the policy back; False when there is none."""
        return self._kube.delete_policy(self._namespace, _policy_name(pod))

    def restore_all(self) -> list[str]:
        """Takes back every policy of the job's; returns what they were."""
        label = f"{_LABEL}=cut-off,app.kubernetes.io/instance={self._name}"
        names = self._kube.policies(self._namespace, label)
        deleted = [name for name in names if self._kube.delete_policy(self._namespace, name)]
        return [f"NetworkPolicy {name}" for name in deleted]


def _policy_name(pod: str) -> str:
    return f"holdfast-chaos-{pod}"


def _policy(pod: str, job: str, forbidden: Collection[int]) -> Object:
    """Everything may go out but TCP to the forbidden ports."""
    edges = [0, *sorted(forbidden), _HIGHEST_PORT + 1]
    spans = [(low + 1, high - 1) for low, high in itertools.pairwise(edges)]
    allowed = [{"protocol": "TCP", "port": a, "endPort": b} for a, b in spans if a <= b]
    allowed.append({"protocol": "UDP", "port": 1, "endPort": _HIGHEST_PORT})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": _policy_name(pod),
            "labels": {_LABEL: "cut-off", "app.kubernetes.io/instance": job},
        },
        "spec": {
            "podSelector": {"matchLabels": {"statefulset.kubernetes.io/pod-name": pod}},
            "policyTypes": ["Egress"],
            "egress": [{"ports": allowed}],
        },
    }
