"""Faults from inside a container: to its processes, by commands run in it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.chaos.faults.target import Landing
from holdfast.chaos.targets.kubernetes.scripts import (
    CONTINUE,
    INIT,
    IS_ALIVE,
    KILL,
    LIMIT_FILES,
    LIST,
    READ,
    SLOW_DOWN,
    SPEED_UP,
    STOP,
    module,
    sh,
    slow_loop,
)
from holdfast.deploy.kubernetes.client import KubeClient, Object
from holdfast.errors import HoldfastError, Retriable

__all__ = ["Inside"]

_INITS = frozenset({"tini", "dumb-init", "catatonit", "docker-init"})
_SLOW_FILE = "/tmp/holdfast-chaos-slow"  # noqa: S108 - in the pod's own emptyDir
_NOTHING_TO_KILL = 3


class Inside:
    """What is true is what the container's /proc says.

    Every method raises `Retriable` when the container ends under its command.
    """

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    def possible(self, pod: Object) -> bool:
        """Only below an init can the main process be killed and stopped from inside."""
        return self._run(pod, sh(INIT)).strip() in _INITS

    def read(self, pod: Object, path: str) -> str:
        """A file's text; empty when there is none."""
        return self._kube.run(pod, sh(READ, path)).out

    def kill(self, pod: Object) -> tuple[str, ...]:
        """Kills the main process; its pid and start time, if the container could still say so.

        Raises:
            HoldfastError: there is none below PID 1.
        """
        ran = self._kube.run(pod, sh(KILL))
        if ran.status == _NOTHING_TO_KILL:
            raise HoldfastError(
                f"{_name(pod)} has no process below PID 1.", action="delete the pod instead"
            )
        return tuple(ran.out.split())

    def ended(self, pod: Object, killed: tuple[str, ...]) -> bool:
        """Is the killed process gone?"""
        return self._kube.run(pod, sh(IS_ALIVE, *killed)).status not in (0, None)

    def stop(self, pod: Object) -> None:
        """Stops every process."""
        self._run(pod, sh(STOP))

    def stopped(self, pod: Object) -> Landing:
        """Are all of them?"""
        states = [line.split()[1] for line in self._run(pod, sh(LIST)).splitlines()]
        stopped = states.count("T")
        all_of_them = stopped > 0 and stopped + states.count("Z") == len(states)
        return Landing(all_of_them, f"{stopped} of {len(states)} processes are stopped")

    def resume(self, pod: Object) -> int:
        """Lets stopped processes go on; how many there were."""
        return len(self._run(pod, sh(CONTINUE)).split())

    def slow_down(self, pod: Object) -> None:
        """Stops all and lets them go, several times a second, for six minutes at most."""
        self._run(pod, sh(SLOW_DOWN, slow_loop()))

    def slowed(self, pod: Object) -> Landing:
        """Is that going on?"""
        process = self.read(pod, _SLOW_FILE).split()
        going_on = bool(process) and not self.ended(pod, tuple(process))
        words = f"process {process[0]} does it" if going_on else "no process does it"
        return Landing(going_on, words)

    def speed_up(self, pod: Object) -> bool:
        """Ends it, and lets go what is stopped; was it going on?"""
        going_on = bool(self._run(pod, sh(SPEED_UP)).split())
        if going_on:
            self.resume(pod)
        return going_on

    def fill_disk(self, pod: Object) -> int:
        """Keeps an executor's Python workers from writing to files; how many there are.

        Raises:
            Retriable: there are none yet.
        """
        workers = self._workers(pod, "full")
        if not workers:
            raise Retriable(
                f"{_name(pod)} has no Python worker to keep from writing.",
                cause="it has not had a task yet, or its Java starts again",
                action="wait until the job commits",
            )
        return len(workers)

    def disk_full(self, pod: Object) -> Landing:
        """Can none of them write?  Those that came since find the disk full at the next look."""
        limits = [line.split()[1] for line in self._workers(pod, "look")]
        full = limits.count("0")
        if full < len(limits):
            self._workers(pod, "full")
        words = f"{full} of {len(limits)} Python workers cannot write to files"
        return Landing(0 < full == len(limits), words)

    def free_disk(self, pod: Object) -> int:
        """Lets them write again; how many could not."""
        return sum(line.endswith(" 0") for line in self._workers(pod, "free"))

    def _workers(self, pod: Object, what: str) -> list[str]:
        return self._run(pod, module(LIMIT_FILES, what)).splitlines()

    def _run(self, pod: Object, command: Sequence[str]) -> str:
        ran = self._kube.run(pod, command)
        if ran.status == 0:
            return ran.out
        if ran.status is None:
            raise Retriable(
                f"The container of {_name(pod)} ended under a command.", action="look again"
            )
        raise HoldfastError(
            f"A command in {_name(pod)} ended with status {ran.status}: {ran.err or ran.out}",
            action="chaos needs a shell and, in executors, this project's Python in the image",
        )


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])
