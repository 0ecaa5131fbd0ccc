"""The tests' hook where the job's executors are pods: the same files, written and read by exec."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from holdfast.chaos.hook_files import alive_pid, order_text, read_held
from holdfast.chaos.target import Held
from holdfast.deploy.kube_client import KubeClient, Object
from holdfast.deploy.kube_scripts import sh
from holdfast.errors import Retriable
from holdfast.types.steps import Step

__all__ = ["FOLDER", "KubernetesHook"]

FOLDER = "/tmp/chaos-hook"  # noqa: S108 - in the pod's own emptyDir; the hook's image says the same
_PIDS = f"""cd {FOLDER} 2>/dev/null || exit 0
for f in alive-*; do if [ -e "/proc/${{f#alive-}}" ]; then echo "$f"; fi; done"""
_ORDER = f'cd {FOLDER} && printf %s "$2" > ".order-$1" && mv ".order-$1" "order-$1.json"'
_HELD = f'cat {FOLDER}/held-"$1"-*.json 2>/dev/null'
_RELEASE = f'cd {FOLDER} 2>/dev/null && rm -f "order-$1.json" && : > "release-$1"'
_CLEAR = f"""cd {FOLDER} 2>/dev/null || exit 0
for f in order-*.json held-*.json; do
  id=${{f#*-}}; id=${{id%.json}}; case $f in held-*) id=${{id%-*}} ;; esac
  if [ -e "$f" ]; then case $f in order-*) rm -f "$f" ;; esac; : > "release-$id"; echo "$id"; fi
done"""


class KubernetesHook:
    """Owns no fact: which order is where is said by the files in the executors' pods.

    Args:
        executors: the pods that are alive.
    """

    def __init__(self, kube: KubeClient, executors: Callable[[], list[Object]]) -> None:
        self._kube, self._executors = kube, executors

    def alive(self) -> bool:
        """Does a process with the hook run in any executor?"""
        said = [self._run(pod, _PIDS) for pod in self._executors()]
        return any(alive_pid(line) for out in said for line in out.splitlines())

    def order(self, order: str, step: Step, hold_s: float) -> None:
        """The next state task that gets past `step` is held, at most `hold_s` seconds."""
        for pod in self._executors():
            self._run(pod, _ORDER, order, order_text(order, step, hold_s).decode())

    def held(self, order: str) -> Held | None:
        """Who is held by the order; with it the order is taken back in all other pods."""
        for pod in self._executors():
            found = read_held(self._run(pod, _HELD, order).encode())
            if found is not None and found.query_id:
                name = pod["metadata"]["name"]
                for other in self._executors():
                    if other["metadata"]["name"] != name:
                        self._run(other, _RELEASE, order)
                return Held(order, name, found.pid, found.step, found.query_id, found.partition)
        return None

    def release(self, order: str) -> None:
        """Lets go, or takes the order back; also when nobody is held any more."""
        for pod in self._executors():
            self._run(pod, _RELEASE, order)

    def clear(self) -> list[str]:
        """Takes back all orders; returns their names."""
        said = [self._run(pod, _CLEAR) for pod in self._executors()]
        return sorted({line for out in said for line in out.splitlines()})

    def _run(self, pod: Object, script: str, *arguments: str) -> str:
        """What it printed; nothing when the pod has gone meanwhile, and its files with it."""
        with suppress(Retriable):
            return self._kube.run(pod, sh(script, *arguments)).out
        return ""
