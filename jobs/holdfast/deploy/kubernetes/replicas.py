"""The number of executors that a StatefulSet shall have, as its driver asks for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import orjson

from holdfast.deploy.kubernetes.in_pod import from_a_pod, own_namespace
from holdfast.errors import HoldfastError

__all__ = ["Replicas"]

_LOG = logging.getLogger(__name__)
_FRESH_S = 2.0


class Replicas:
    """Owns the last known number of replicas of a StatefulSet in this pod's namespace.

    Whoever changes it (Helm, an autoscaler, `kubectl scale`), the driver goes on.

    Args:
        name: the StatefulSet's.
        given: the number until the API has told another one.
        clock: monotonic seconds.
    """

    def __init__(self, name: str, given: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._known, self._clock = name, given, clock
        self._asked = -_FRESH_S
        self._told = ""

    def __call__(self) -> int:
        """The number, at most 2 s old; the last known one while the API does not tell."""
        now = self._clock()
        if now - self._asked >= _FRESH_S:
            self._asked = now
            self._ask()
        return self._known

    def _ask(self) -> None:
        path = f"/apis/apps/v1/namespaces/{own_namespace()}/statefulsets/{self._name}"
        try:
            found = from_a_pod(path)
        except HoldfastError as error:
            if error.fact != self._told:
                self._told = error.fact
                _LOG.warning("Still %d executors are expected: %s", self._known, error.fact)
            return
        if found is not None:
            # Without a number it is 1.  None at all would be a job that waits for somebody.
            self._known = max(1, int(orjson.loads(found)["spec"].get("replicas", 1)))
