"""Cuts one pod off from Kafka: by a NetworkPolicy, or from inside where policies have no effect."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import yaml

from holdfast.chaos.targets.kubernetes.helpers import Helpers
from holdfast.chaos.targets.kubernetes.policies import Policies
from holdfast.chaos.targets.kubernetes.scripts import (
    BROKERS,
    PROPERTIES,
    REACHES,
    READ,
    module,
    sh,
)
from holdfast.deploy.kubernetes.client import KubeClient, Object
from holdfast.errors import HoldfastError

__all__ = ["CutOff"]

_FELT_S, _POLL_S = 8.0, 0.5
_STATUS_PORT = 8090

_Hosts = Sequence[tuple[str, int]]


class CutOff:
    """Knows which of the two ways works here, and the addresses of the job's brokers.

    It tries a policy first, which needs no rights over pods.  Where the cluster does not enforce
    policies, a helper container does the same in the pod's own network namespace.
    """

    def __init__(self, kube: KubeClient, namespace: str, name: str) -> None:
        self._kube, self._name = kube, name
        self._policies, self._helpers = Policies(kube, namespace, name), Helpers(kube, namespace)
        self._enforced: bool | None = None
        self._advertised: _Hosts = ()

    def possible(self, executor: Object) -> tuple[bool, str]:
        """Whether and how it can be done, in words; tries a policy on a connection that no executor
        needs, the one to the driver's status page.
        """
        status = [(f"{self._name}-driver", _STATUS_PORT)]
        if self._reaches(executor, status):
            try:
                self._enforced = self._forbidden(executor, status)
            finally:
                self._policies.restore(executor["metadata"]["name"])
        if self._enforced:
            return True, "of the job's pods by a NetworkPolicy"
        why = self._helpers.refused(executor)
        none = "the cluster does not enforce NetworkPolicies"
        if why:
            return False, f"not of the job's pods: {none} and lets no NET_ADMIN into a pod: {why}"
        return True, f"of the job's pods by a container that joins them, as {none}"

    def cut(self, pod: Object) -> str:
        """Cuts the pod off and waits until it has effect; returns what was done.

        Raises:
            Refused: neither way is allowed here.
            Retriable: nothing was done, for the pod is gone.
            HoldfastError: it could not be done.
        """
        brokers = self._brokers(pod)
        words = ", ".join(f"{host}:{port}" for host, port in brokers)
        if self._enforced is not False:
            felt = self._forbidden(pod, brokers)
            # An effect seen once means that policies are enforced, perhaps slowly another time.
            self._enforced = self._enforced or felt
            if self._enforced:
                return f"NetworkPolicy against {words}, {'' if felt else 'not '}felt by the pod"
            self._policies.restore(pod["metadata"]["name"])
        helper = self._helpers.cut(pod, _ports(brokers))
        felt = self._soon_out_of_reach(pod, brokers)
        return f"{helper} drops what goes to {words}, {'' if felt else 'not '}felt by the pod"

    def is_cut(self, pod: Object) -> bool:
        """Whether the pod can reach no broker."""
        return not self._reaches(pod, self._brokers(pod))

    def restore(self, pod: str) -> list[str]:
        """Heals a pod; returns what was taken back.

        Raises:
            Retriable: it could not be healed for now.
        """
        policy = ["NetworkPolicy"] if self._policies.restore(pod) else []
        return policy + self._helpers.restore(pod)

    def restore_policies(self) -> list[str]:
        """Removes every policy of the job, also for pods that are gone; returns their words."""
        return self._policies.restore_all()

    def _forbidden(self, pod: Object, hosts: _Hosts) -> bool:
        self._policies.forbid(pod, _ports(hosts))
        return self._soon_out_of_reach(pod, hosts)

    def _soon_out_of_reach(self, pod: Object, hosts: _Hosts) -> bool:
        deadline = time.monotonic() + _FELT_S
        while self._reaches(pod, hosts):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _reaches(self, pod: Object, hosts: _Hosts) -> bool:
        tries = (self._kube.run(pod, sh(REACHES, host, str(port))) for host, port in hosts)
        return any(tried.status == 0 for tried in tries)

    def _brokers(self, pod: Object) -> _Hosts:
        """The brokers that the pod starts from, and those they name, which may have other ports."""
        text = self._kube.run(pod, sh(READ, PROPERTIES)).out
        found = yaml.safe_load(text) or {}
        if "bootstrap.servers" not in found:
            raise HoldfastError(
                f"{pod['metadata']['name']} does not say where its brokers are.",
                cause=f"{PROPERTIES} is missing or cannot be read",
                action="is it a pod of the chart holdfast?",
            )
        first = _addresses(found["bootstrap.servers"].split(","))
        if not self._advertised:
            told = self._kube.run(pod, module(BROKERS, PROPERTIES))
            self._advertised = _addresses(told.out.split() if told.status == 0 else [])
        return list(dict.fromkeys([*first, *self._advertised]))


def _addresses(texts: Iterable[str]) -> _Hosts:
    parts = (text.strip().rpartition(":") for text in texts)
    return [(host, int(port)) for host, _, port in parts]


def _ports(hosts: _Hosts) -> set[int]:
    return {port for _, port in hosts}
