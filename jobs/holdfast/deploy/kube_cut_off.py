"""Kafka out of reach for one pod, by a NetworkPolicy, where the cluster enforces such."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

import yaml

from holdfast.deploy.kube_client import KubeClient, Object
from holdfast.deploy.kube_scripts import REACHES, READ, sh
from holdfast.errors import HoldfastError

__all__ = ["CutOff"]

_LABEL = "holdfast/chaos"
_PROPERTIES = "/etc/holdfast/job/properties.yaml"
_ENFORCED_S, _POLL_S = 8.0, 0.5
_STATUS_PORT = 8090
_HIGHEST_PORT = 65535


class CutOff:
    """Owns the NetworkPolicies that chaos has made for one job; the cluster remembers them."""

    def __init__(self, kube: KubeClient, namespace: str, name: str) -> None:
        self._kube, self._namespace, self._name = kube, namespace, name

    def enforced(self, executor: Object) -> bool:
        """Tries on a connection that no executor needs: to the driver's status page."""
        status = [(f"{self._name}-driver", _STATUS_PORT)]
        if not self._reaches(executor, status):
            return False
        try:
            self._forbid(executor, status)
            return self._soon_out_of_reach(executor, status)
        finally:
            self.restore(executor["metadata"]["name"])

    def cut(self, pod: Object) -> str:
        """Forbids the pod its brokers' ports and waits until it feels it; says what was done."""
        brokers = self._brokers(pod)
        self._forbid(pod, brokers)
        felt = self._soon_out_of_reach(pod, brokers)
        return f"NetworkPolicy against {_ports(brokers)}, {'' if felt else 'not '}felt by the pod"

    def is_cut(self, pod: Object) -> bool:
        """Can the pod reach no broker?"""
        return not self._reaches(pod, self._brokers(pod))

    def restore(self, pod: str) -> bool:
        """Takes the policy back; False when there is none."""
        return self._kube.delete_policy(self._namespace, _policy_name(pod))

    def restore_all(self) -> list[str]:
        """Takes back every policy of the job's; returns their names."""
        label = f"{_LABEL}=cut-off,app.kubernetes.io/instance={self._name}"
        names = self._kube.policies(self._namespace, label)
        return [name for name in names if self._kube.delete_policy(self._namespace, name)]

    def _forbid(self, pod: Object, hosts: Iterable[tuple[str, int]]) -> None:
        name = pod["metadata"]["name"]
        self._kube.create_policy(
            self._namespace, _policy(name, self._name, {port for _, port in hosts})
        )

    def _soon_out_of_reach(self, pod: Object, hosts: list[tuple[str, int]]) -> bool:
        deadline = time.monotonic() + _ENFORCED_S
        while self._reaches(pod, hosts):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _reaches(self, pod: Object, hosts: Iterable[tuple[str, int]]) -> bool:
        tries = (self._kube.run(pod, sh(REACHES, host, str(port))) for host, port in hosts)
        return any(tried.status == 0 for tried in tries)

    def _brokers(self, pod: Object) -> list[tuple[str, int]]:
        text = self._kube.run(pod, sh(READ, _PROPERTIES)).out
        found = yaml.safe_load(text) or {}
        if "bootstrap.servers" not in found:
            raise HoldfastError(
                f"{pod['metadata']['name']} does not say where its brokers are.",
                cause=f"{_PROPERTIES} is missing or cannot be read",
                action="is it a pod of the chart holdfast?",
            )
        addresses = (address.rpartition(":") for address in found["bootstrap.servers"].split(","))
        return [(host.strip(), int(port)) for host, _, port in addresses]


def _policy_name(pod: str) -> str:
    return f"holdfast-chaos-{pod}"


def _ports(hosts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{host}:{port}" for host, port in hosts)


def _policy(pod: str, job: str, forbidden: set[int]) -> Object:
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
