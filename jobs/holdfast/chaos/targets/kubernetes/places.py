"""Which pods a nemesis may touch, and where they are: what their labels say, and nothing else."""

from __future__ import annotations

from holdfast.deploy.kubernetes import pods as kube_pods
from holdfast.deploy.kubernetes.client import KubeClient, Object
from holdfast.errors import Refused
from holdfast.types.components import BROKER, DRIVER, EXECUTOR, SCHEDULER, SERVER

__all__ = ["Places", "releases"]

_TARGET, _COMPONENT = "holdfast/chaos-target", "app.kubernetes.io/component"
_PRODUCT, _INSTANCE = "app.kubernetes.io/name", "app.kubernetes.io/instance"
_LABELS = {SERVER: "serve"}  # where a component's label is another word
_WORDS = {label: component for component, label in _LABELS.items()}
_HOOKS = frozenset({"preflight", "test"})  # of the chart: they come and go


class Places:
    """The pods of one release, and those of the platform that carry `holdfast/chaos-target`.

    Remembers where a component was seen: for a moment after a fault there may be no pod of it.
    """

    def __init__(self, kube: KubeClient, namespace: str, name: str, platform: str) -> None:
        self._kube = kube
        self._namespace, self._name, self._platform = namespace, name, platform
        self._seen: dict[str, tuple[str, dict[str, str]]] = {}

    def components(self) -> list[str]:
        """All that have a pod which may be touched."""
        own = self._kube.pods(self._namespace, self._own())
        labels = {_label(pod, _COMPONENT) for pod in own}
        found = {_WORDS.get(label, label) for label in labels} - {BROKER, SCHEDULER}
        platform = {_label(pod, _TARGET) for pod in self._kube.pods(self._platform, {})}
        return sorted((found | platform - {DRIVER, EXECUTOR}) - {""} - _HOOKS)

    def alive(self, component: str) -> list[Object]:
        """Its pods whose container runs, by name."""
        return [pod for pod in self.all(component) if kube_pods.alive(pod)]

    def pod(self, component: str, name: str) -> Object | None:
        """The pod of that name now, with the component's label or not; None when there is none.

        Raises:
            Refused: the component is unknown.
        """
        return self._kube.pod(self.of(component)[0], name)

    def of(self, component: str) -> tuple[str, dict[str, str]]:
        """Namespace and labels of a component's pods.

        Raises:
            Refused: nothing is labelled so, nor was.
        """
        if component not in self._seen and not self.all(component):
            raise Refused(
                f"There is no {component} of {self._name} in {self._namespace}, and nothing in "
                f"{self._platform} is labelled {_TARGET}={component}.",
                cause="the job is not deployed there, or the platform's pods may not be broken",
                action="`helm list` shows jobs; the chart holdfast-platform sets the label",
            )
        return self._seen[component]

    def all(self, component: str) -> list[Object]:
        """Its pods in any state, by name."""
        for namespace, labels in self._candidates(component):
            if found := self._kube.pods(namespace, labels):
                self._seen[component] = (namespace, labels)
                return found
        return []

    def _candidates(self, component: str) -> list[tuple[str, dict[str, str]]]:
        own = (self._namespace, {**self._own(), _COMPONENT: _LABELS.get(component, component)})
        platform = (self._platform, {_TARGET: component})
        if component in (DRIVER, EXECUTOR):
            return [own]
        return [platform] if component in (BROKER, SCHEDULER, *_HOOKS) else [own, platform]

    def _own(self) -> dict[str, str]:
        return {_PRODUCT: "holdfast", _INSTANCE: self._name}


def releases(kube: KubeClient, namespace: str) -> list[str]:
    """Names of the releases whose driver has a pod."""
    drivers = kube.pods(namespace, {_PRODUCT: "holdfast", _COMPONENT: DRIVER})
    return sorted({_label(pod, _INSTANCE) for pod in drivers})


def _label(pod: Object, label: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(label, ""))
