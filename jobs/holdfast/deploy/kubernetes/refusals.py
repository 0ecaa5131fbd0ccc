"""Errors of the Kubernetes API, refusals and time-outs, for both of its clients."""

from __future__ import annotations

from holdfast.errors import HoldfastError, Refused, Retriable

__all__ = ["NOT_AS_ASKED", "TIMEOUT_S", "no_answer", "refusal"]

TIMEOUT_S = 10.0
"""The limit of one request."""

_FORBIDDEN, _UNAUTHORIZED = 403, 401
_NOT_FOUND, _CONFLICT = 404, 409
_TOO_MANY_REQUESTS = 429

NOT_AS_ASKED = (_NOT_FOUND, _CONFLICT)
"""Statuses of a missing object, of an object that exists already, and of a newer version."""


def refusal(status: int | None, said: str) -> HoldfastError:
    """The error for a status that is not in `NOT_AS_ASKED`; None: the answer had no status."""
    if status in (_FORBIDDEN, _UNAUTHORIZED):
        return Refused(
            f"The cluster does not let this account do that: {said}",
            cause="the accounts holdfast-chaos and holdfast-compaction have just their rights",
            action="install the chart holdfast-platform with chaos.enabled, or with "
            "compaction.strimzi.enabled for KafkaTopics, or bind such a Role",
        )
    if not status or status >= 500 or status == _TOO_MANY_REQUESTS:
        return no_answer(said)
    return HoldfastError(
        f"The Kubernetes API refused with status {status}: {said}",
        action="see the message; `kubectl get events` may tell more",
    )


def no_answer(why: str) -> Retriable:
    """The error for an API that does not answer, or answers that it is not able to."""
    return Retriable(
        f"The Kubernetes API did not answer within {TIMEOUT_S:.0f} s: {why}",
        cause="the control plane is busy or restarts",
        action="try again; `kubectl get --raw /readyz` says how it is",
    )
