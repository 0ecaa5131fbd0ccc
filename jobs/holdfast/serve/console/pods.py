"""The pods of the job that a server answers for, when both run on Kubernetes, and their logs.

Pods are told by the Kubernetes API, which may refuse: the console then says why, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from holdfast.errors import HoldfastError, Refused
from holdfast.serve.console.looks import Looks

__all__ = ["LOG_BYTES", "NoPods", "Pods", "PodsAsked"]

LOG_BYTES = 64 << 10
"""The end of a job's log that a console shows, of a pod or of a file."""


class Pods(Protocol):
    """The pods of a release, and the ends of their logs."""

    @property
    def release(self) -> str:
        """The release's name, which is the job's application.id; empty outside Kubernetes."""

    def all(self) -> Sequence[Mapping[str, Any]]:
        """Each as JSON values."""

    def log(self, name: str, bytes_max: int, *, previous: bool) -> str:
        """The end of the log of a pod's container, or of the one that ran before it."""


class NoPods:
    """A server outside Kubernetes."""

    release = ""

    def all(self) -> Sequence[Mapping[str, Any]]:
        return ()

    def log(self, name: str, bytes_max: int, *, previous: bool) -> str:
        raise Refused(f"There is no pod {name[:100]}: this server is none of a Helm release.")


class PodsAsked:
    """Asks about pods for all clients of a console."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods
        self._looks = Looks("pods")

    @property
    def release(self) -> str:
        """The release's name; empty outside Kubernetes."""
        return self._pods.release

    async def told(self) -> Mapping[str, Any]:
        """The release and its pods, or why they are not known.

        Raises:
            Overloaded: too many looks are under way.
        """
        return await self._looks.once("", self._told)

    def _told(self) -> dict[str, Any]:
        found: dict[str, Any] = {"release": self._pods.release, "pods": [], "refused": None}
        try:
            found["pods"] = self._pods.all()
        except HoldfastError as error:
            found["refused"] = {"fact": error.fact, "cause": error.cause, "action": error.action}
        return found

    async def log(self, name: str, *, previous: bool) -> dict[str, Any]:
        """The end of a pod's log, whole lines.

        Raises:
            Refused: the release has no such pod, or its log may not be read.
            HoldfastError: there is no such log, or the API does not answer.
        """
        text = await self._looks.alone(lambda: self._pods.log(name, LOG_BYTES, previous=previous))
        return {"pod": name, "lines": text.splitlines()}
