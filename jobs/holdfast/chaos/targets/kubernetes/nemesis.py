"""What a nemesis can do to the pods of a job, and to those of the platform that are labelled so.

A fault is believed when the API, or the container's own processes, show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from holdfast.chaos.faults.target import Hook, Landing, QueryServers, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.kubernetes.cut_off import CutOff
from holdfast.chaos.targets.kubernetes.hook import KubernetesHook
from holdfast.chaos.targets.kubernetes.inside import Inside
from holdfast.chaos.targets.kubernetes.places import Places
from holdfast.deploy.deployment import fetch_status
from holdfast.deploy.kubernetes import pods as kube_pods
from holdfast.deploy.kubernetes.client import KubeClient, Object
from holdfast.deploy.kubernetes.in_pod import driver_status, in_a_pod
from holdfast.errors import Refused, Retriable
from holdfast.types.components import BROKER, DRIVER, EXECUTOR, SERVER

__all__ = ["KubernetesTarget"]

_ENVIRONMENT, _DEV = "holdfast/environment", "dev"
_JOB_FILES = "/etc/holdfast/job"
_DELETIONS = frozenset({Fault.DELETE, Fault.DELETE_NOW})
_HEAL_S, _POLL_S = 15.0, 0.5


class KubernetesTarget:
    """The pods of one release, and those of the platform that may be hit.

    The API owns what is true of them; what this object remembers is only which process it killed
    and which claims it deleted, to look for them again.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        platform: str = "holdfast-platform",
        kube: KubeClient | None = None,
    ) -> None:
        self._kube = kube or KubeClient()
        self._namespace, self._name = namespace, name
        self._places = Places(self._kube, namespace, name, platform)
        self._inside = Inside(self._kube)
        self._cut_off = CutOff(self._kube, namespace, name)
        self._hook = KubernetesHook(self._kube, lambda: self._places.alive(EXECUTOR))
        self._faults: dict[str, frozenset[Fault]] | None = None
        self._can_cut, self._how_cut = False, "there is no executor to try it on"
        self._deeds: dict[tuple[str, Fault], tuple[str, ...]] = {}

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """By component: what can be done to it here, found out by trying once."""
        if self._faults is None:
            alive = {c: self._places.alive(c) for c in self._places.components()}
            for pod in alive.get(EXECUTOR, [])[:1]:
                self._can_cut, self._how_cut = self._cut_off.possible(pod)
            self._faults = {
                component: self._possible(component, pods[0])
                for component, pods in alive.items()
                if pods
            }
        return self._faults

    @property
    def notes(self) -> Mapping[Fault, str]:
        """How Kafka is put out of reach here, or why that is not possible."""
        return {Fault.CUT_OFF: self._how_cut if self.faults else ""}

    @property
    def hook(self) -> Hook | None:
        """None: no executor runs the tests' hook, and aimed moments are not possible."""
        return self._hook if self._hook.known() else None

    def is_dev_namespace(self) -> bool:
        """Does the label of the job's namespace say that anything may be broken in it?"""
        return self._kube.namespace_labels(self._namespace).get(_ENVIRONMENT) == _DEV

    def job_files(self) -> tuple[str, dict[str, Any]]:
        """Statements and properties of the job, as its driver was given them.

        Raises:
            Refused: there is no such job here.
            Retriable: its driver does not run at the moment.
        """
        self._places.of(DRIVER)
        pods = self._places.alive(DRIVER)
        if not pods:
            raise Retriable(f"The driver of {self._name} does not run.", action="wait for it")
        sql, properties = (
            self._inside.read(pods[0], f"{_JOB_FILES}/{file}")
            for file in ("job.sql", "properties.yaml")
        )
        return sql, dict(yaml.safe_load(properties) or {})

    def victims(self, component: str) -> list[Victim]:
        """Those alive now, by name.

        Raises:
            Refused: nothing here is labelled as that component.
        """
        self._places.of(component)
        return [
            Victim(component, pod["metadata"]["name"], kube_pods.identity(pod))
            for pod in self._places.alive(component)
        ]

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Does it, once; returns what was done in words.

        Raises:
            Refused: the pod is not labelled as the victim's component.
            Retriable: nothing was done: it is another pod by now, or not yet fit to be hit.
            HoldfastError: it could not be done.
        """
        pod = self._chosen(victim)
        if fault in _DELETIONS:
            return self._delete(pod, None if fault is Fault.DELETE else 0)
        if fault is Fault.LOSE_VOLUME:
            return self._lose_volume(victim, pod)
        if fault is Fault.KILL:
            killed = self._deeds[victim.name, fault] = self._inside.kill(pod)
            return f"SIGKILL to process {killed[0] if killed else 'below PID 1'}"
        if fault is Fault.CUT_OFF and victim.component != BROKER:
            return self._cut_off.cut(pod)
        return self._hamper(pod, fault)

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Did it happen?  Looks at the pod, its processes and its claims as they are now."""
        pod = self._places.pod(victim.component, victim.name)
        same_pod = pod is not None and kube_pods.uid(pod) == victim.identity.partition("/")[0]
        same = pod is not None and kube_pods.identity(pod) == victim.identity
        seen = f"was pod {victim.identity}, now {kube_pods.seen(pod)}"
        if fault in _DELETIONS:
            # With grace it takes its time; the API takes no deletion back.
            ending = fault is Fault.DELETE and pod is not None and kube_pods.ending(pod)
            return Landing(ending or not same_pod, seen)
        if fault is Fault.LOSE_VOLUME:
            left = [uid for uid in self._deeds.get((victim.name, fault), ()) if self._claimed(uid)]
            return Landing(not same_pod and not left, f"{seen}; {len(left)} of its claims are left")
        if fault is Fault.KILL:
            return self._killed(victim, pod) if pod and same else Landing(True, seen)
        if pod is None or not same:
            return Landing(False, f"the container is another one: {seen}")
        return self._shows(victim, fault, pod)

    def heal(self, victim: Victim, fault: Fault) -> None:
        """Takes back a fault that lasts; nothing is left of it where the container is gone."""
        if fault is Fault.CUT_OFF and victim.component != BROKER:
            self._patiently(lambda: self._cut_off.restore(victim.name))
        elif fault in (Fault.PAUSE, Fault.CUT_OFF):
            self._while_alive(victim, self._inside.resume)
        elif fault is Fault.SLOW:
            self._while_alive(victim, self._inside.speed_up)
        elif fault is Fault.DISK_FULL:
            self._while_alive(victim, self._inside.free_disk)

    def heal_all(self) -> list[str]:
        """Takes back whatever any nemesis has left on these pods; returns what it was."""
        found = self._cut_off.restore_policies()
        found += [f"order {order} of the hook" for order in self._hook.clear()]
        for component in self._places.components():
            for pod in self._places.alive(component):
                found += self._mend(component, pod)
        return found

    def recovered(self, victims: Sequence[Victim]) -> bool:
        """Is the job ready, and every victim's pod, be it the same or its successor?"""
        pods = [self._places.pod(v.component, v.name) for v in victims]
        parts = (DRIVER, EXECUTOR) if victims else (DRIVER, EXECUTOR, SERVER)
        pods += [pod for c in parts for pod in self._places.all(c)]
        if not all(map(kube_pods.ready, pods)):
            return False
        status = self.job_status()
        return status is not None and bool(status.get("ready"))

    def refusal(self) -> str:
        """The last words of a driver that ended with the status for it and waits to be restarted.

        Its container is started again for ever, in vain until a person has decided.
        """
        return next(
            (why for pod in self._places.all(DRIVER) if (why := kube_pods.refusal(pod))), ""
        )

    def query_servers(self) -> QueryServers:
        """Those of the release, each by the name that its peers have for it.

        Such names are known in the release's namespace only: elsewhere there are none.
        """
        pods = self._places.all(SERVER) if in_a_pod() else []
        copies = min(map(kube_pods.copies, pods), default=QueryServers.copies)
        return QueryServers(tuple(map(kube_pods.served_at, pods)), copies)

    def job_status(self) -> dict[str, Any] | None:
        """What the driver's /status says; None when nobody answers."""
        if in_a_pod():
            return fetch_status(f"http://{self._name}-driver.{self._namespace}.svc:8090/status")
        return driver_status(self._namespace, self._name)

    def _possible(self, component: str, pod: Object) -> frozenset[Fault]:
        found = set(_DELETIONS)
        of_the_job = component in (DRIVER, EXECUTOR)
        if self._inside.possible(pod):
            found |= {Fault.KILL, Fault.PAUSE, Fault.SLOW}
            found |= {Fault.CUT_OFF} if component == BROKER else set()
        if of_the_job and kube_pods.claims(pod):
            found.add(Fault.LOSE_VOLUME)
        if self._can_cut and component in (DRIVER, EXECUTOR, SERVER):
            found.add(Fault.CUT_OFF)
        if component == EXECUTOR:
            found.add(Fault.DISK_FULL)
        return frozenset(found)

    def _chosen(self, victim: Victim) -> Object:
        """The victim's pod, if it still is the one that was chosen, and labelled as such."""
        pod = self._places.pod(victim.component, victim.name)
        if pod is None or kube_pods.identity(pod) != victim.identity:
            raise Retriable(
                f"{victim.name} is not the one that was chosen, {victim.identity}: "
                f"{kube_pods.seen(pod)}.",
                cause="it was replaced meanwhile, perhaps by a fault before this one",
                action="choose again",
            )
        labels = pod["metadata"].get("labels") or {}
        wanted = self._places.of(victim.component)[1]
        if any(labels.get(key) != value for key, value in wanted.items()):
            raise Refused(
                f"{victim.name} is not labelled {wanted} and is not touched.",
                action="label what may be broken, and nothing else",
            )
        return pod

    def _hamper(self, pod: Object, fault: Fault) -> str:
        """Faults that last, from inside the container."""
        if fault is Fault.DISK_FULL:
            return f"{self._inside.fill_disk(pod)} Python workers may not write to files"
        if fault is Fault.SLOW:
            self._inside.slow_down(pod)
            return "its processes are stopped and let go several times a second"
        self._inside.stop(pod)
        return "SIGSTOP to all processes of the container"

    def _delete(self, pod: Object, grace_s: int | None) -> str:
        meta = pod["metadata"]
        try:
            found = self._kube.delete_pod(meta["namespace"], meta["name"], meta["uid"], grace_s)
        except Retriable as error:  # it may have been heard: what landed will tell
            return f"asked for the deletion of pod {meta['name']}: {error.fact}"
        if not found:
            raise Retriable(f"{meta['name']} was gone already.", action="choose again")
        grace = pod["spec"].get("terminationGracePeriodSeconds") if grace_s is None else grace_s
        return f"deleted pod {meta['name']} with a grace of {grace} s"

    def _lose_volume(self, victim: Victim, pod: Object) -> str:
        """The claim first: it goes with the last pod that uses it, before another can take it."""
        names = kube_pods.claims(pod)
        found = [self._kube.claim(self._namespace, name) for name in names]
        self._deeds[victim.name, Fault.LOSE_VOLUME] = tuple(
            f"{name}/{kube_pods.uid(claim)}"
            for name, claim in zip(names, found, strict=True)
            if claim
        )
        for name in names:
            self._kube.delete_claim(self._namespace, name)
        return f"deleted claim {', '.join(names)}; {self._delete(pod, 0)}"

    def _claimed(self, deed: str) -> bool:
        name, _, uid = deed.partition("/")
        claim = self._kube.claim(self._namespace, name)
        return claim is not None and kube_pods.uid(claim) == uid

    def _killed(self, victim: Victim, pod: Object) -> Landing:
        """Of a container that was not started again: only an executor's Java ends alone."""
        killed = self._deeds.get((victim.name, Fault.KILL), ())
        if not killed or not kube_pods.alive(pod):
            return Landing(False, f"nothing shows it yet: {kube_pods.seen(pod)}")
        gone = self._inside.ended(pod, killed)
        return Landing(gone, f"process {killed[0]} is {'gone' if gone else 'there'}")

    def _shows(self, victim: Victim, fault: Fault, pod: Object) -> Landing:
        """Of a fault that lasts: what the container's processes are like."""
        if fault is Fault.CUT_OFF and victim.component != BROKER:
            cut = self._cut_off.is_cut(pod)
            return Landing(cut, f"its brokers are {'out of' if cut else 'within'} its reach")
        if fault is Fault.DISK_FULL:
            return self._inside.disk_full(pod)
        if fault is Fault.SLOW:
            return self._inside.slowed(pod)
        return self._inside.stopped(pod)

    def _while_alive(self, victim: Victim, cure: Callable[[Object], object]) -> None:
        """Tries until it is done, or until the container that was hit is no more."""

        def once() -> None:
            pod = self._places.pod(victim.component, victim.name)
            if pod is not None and kube_pods.identity(pod) == victim.identity:
                cure(pod)

        self._patiently(once)

    def _patiently(self, cure: Callable[[], object]) -> None:
        deadline = time.monotonic() + _HEAL_S
        while True:
            try:
                cure()
            except Retriable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
            else:
                return

    def _mend(self, component: str, pod: Object) -> list[str]:
        name = pod["metadata"]["name"]
        found = [f"{what} cut {name} off" for what in self._cut_off.restore(name)]
        try:
            if self._inside.speed_up(pod):
                found.append(f"{name} was slowed down")
            if woken := self._inside.resume(pod):
                found.append(f"{woken} processes of {name} were stopped")
            if component == EXECUTOR and (freed := self._inside.free_disk(pod)):
                found.append(f"{freed} Python workers of {name} could not write")
        except Retriable:  # the container ended meanwhile, and with it what was done to it
            return found
        return found
