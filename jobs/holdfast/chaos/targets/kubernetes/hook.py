"""The tests' hook where the job's executors are pods: the same files, written and read by exec."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from holdfast.chaos.faults.hook_files import alive_pid, order_text, read_held
from holdfast.chaos.faults.target import Held
from holdfast.chaos.targets.kubernetes.scripts import sh
from holdfast.deploy.kubernetes.client import KubeClient, Object
from holdfast.errors import Retriable
from holdfast.types.steps import Step

__all__ = ["FOLDER", "KubernetesHook"]

FOLDER = "/tmp/chaos-hook"  # noqa: S108 - in the pod's own emptyDir; the hook's image says the same
_PIDS = f"""cd {FOLDER} 2>/dev/null || exit 0
for f in alive-*; do if [ -e "/proc/${{f#alive-}}" ]; then echo "$f"; fi; done"""
_ORDER = f"""mkdir -p {FOLDER} && cd {FOLDER} && rm -f "release-$1" &&
printf %s "$2" > ".order-$1" && mv ".order-$1" "order-$1.json\""""
_HELD = f'cat {FOLDER}/held-"$1"-*.json 2>/dev/null'
_RELEASE = f'cd {FOLDER} 2>/dev/null && rm -f "order-$1.json" && : > "release-$1"'
_CLEAR = f"""cd {FOLDER} 2>/dev/null || exit 0
for f in order-*.json held-*.json; do
  id=${{f#*-}}; id=${{id%.json}}; case $f in held-*) id=${{id%-*}} ;; esac
  if [ -e "$f" ]; then case $f in order-*) rm -f "$f" ;; esac; : > "release-$id"; echo "$id"; fi
done"""


class KubernetesHook:
    """Owns the orders that are given and not yet obeyed: a pod that is new gets them, too.

    Args:
        executors: the pods that are alive.
    """

    def __init__(self, kube: KubeClient, executors: Callable[[], list[Object]]) -> None:
        self._kube, self._executors = kube, executors
        self._known = False
        self._orders: dict[str, bytes] = {}
        self._given: set[tuple[str, str]] = set()

    def known(self) -> bool:
        """Does, or did, a process with the hook run in any executor?  Images stay what they are."""
        if not self._known:
            said = [self._run(pod, _PIDS) for pod in self._executors()]
            self._known = any(alive_pid(line) for out in said for line in out.splitlines())
        return self._known

    def order(self, order: str, step: Step, hold_s: float) -> None:
        """The next state task that gets past `step` is held, at most `hold_s` seconds."""
        self._orders[order] = order_text(order, step, hold_s)
        self._give(order, self._executors())

    def held(self, order: str) -> Held | None:
        """Who is held by the order; with it the order is taken back in all other pods."""
        pods = self._executors()
        for pod in pods:
            found = read_held(self._run(pod, _HELD, order).encode())
            if found is not None and found.query_id:
                self._orders.pop(order, None)
                name = pod["metadata"]["name"]
                self._take_back(order, [other for other in pods if other is not pod])
                return Held(order, name, found.pid, found.step, found.query_id, found.partition)
        self._give(order, pods)
        return None

    def release(self, order: str) -> None:
        """Lets go, or takes the order back; also when nobody is held any more."""
        self._orders.pop(order, None)
        self._take_back(order, self._executors())

    def clear(self) -> list[str]:
        """Takes back all orders; returns their names."""
        said = [self._run(pod, _CLEAR) for pod in self._executors()]
        return sorted({line for out in said for line in out.splitlines()})

    def _give(self, order: str, pods: list[Object]) -> None:
        """To those that do not have it yet: an order is claimed in a pod only once."""
        for pod in pods:
            place = (order, pod["metadata"]["uid"])
            if order in self._orders and place not in self._given:
                self._run(pod, _ORDER, order, self._orders[order].decode())
                self._given.add(place)

    def _take_back(self, order: str, pods: list[Object]) -> None:
        for pod in pods:
            self._run(pod, _RELEASE, order)

    def _run(self, pod: Object, script: str, *arguments: str) -> str:
        """What it printed; nothing when the pod has gone meanwhile, and its files with it."""
        with suppress(Retriable):
            return self._kube.run(pod, sh(script, *arguments)).out
        return ""
