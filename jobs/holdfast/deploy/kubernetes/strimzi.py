"""Topics whose settings Strimzi keeps: it takes back what is changed on them beside their resource.

A KafkaTopic's settings reach the topic when its operator has looked at it: then the status carries
the generation of the resource and the condition `Ready`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from holdfast.deploy.kubernetes.client import Kind, KubeClient, Object
from holdfast.errors import Refused, Retriable

__all__ = ["KafkaTopics"]

_GROUP, _KIND = "kafka.strimzi.io", "kafkatopic"
_PAUSED, _MANAGED = "strimzi.io/pause-reconciliation", "strimzi.io/managed"
_LOOK_EVERY_S = 0.5


class KafkaTopics:
    """KafkaTopic resources of a cluster; fit as `holdfast.compaction.apply.put_back.TopicOwner`.

    Args:
        kube: the cluster.
        patience_s: how long the operator may take for a change.
    """

    def __init__(self, kube: KubeClient, patience_s: float = 120.0) -> None:
        self._kube = kube
        self._patience_s = patience_s
        self._found: Kind | None = None

    def owners(self, namespace: str) -> dict[str, str]:
        """By topic: the resource that keeps its settings, as `kafkatopic/<namespace>/<name>`.

        Empty where there is no Strimzi.  Left out are those that the operator was told to leave
        alone.

        Raises:
            Refused: the account may not list them.
            Retriable: the API does not answer.
        """
        kind = self._kind()
        found = self._kube.custom_objects(kind, namespace) if kind else []
        return {
            resource.get("spec", {}).get("topicName") or resource["metadata"]["name"]: (
                f"{_KIND}/{namespace}/{resource['metadata']['name']}"
            )
            for resource in found
            if _annotation(resource, _MANAGED) != "false"
        }

    def alter(self, owner: str, changes: Mapping[str, str | None]) -> None:
        """Change settings in a resource and wait until its topic has them; None removes one.

        Raises:
            Refused: the resource is gone, may not be changed, or its operator does not take it.
            Retriable: the API does not answer.
        """
        namespace, name = _parts(owner)
        kind = self._kind()
        if kind is None:
            raise _gone(owner, "the cluster knows no KafkaTopics")
        patch = {"spec": {"config": dict(changes)}}
        patched = self._kube.patch_custom_object(kind, namespace, name, patch)
        deadline = time.monotonic() + self._patience_s
        while True:
            resource = _there(owner, patched)
            _refuse_paused(owner, resource)
            if _done(owner, resource):
                return
            if time.monotonic() > deadline:
                raise _silent(owner, self._patience_s)
            time.sleep(_LOOK_EVERY_S)
            patched = self._kube.custom_object(kind, namespace, name)

    def _kind(self) -> Kind | None:
        """KafkaTopics in the version of this cluster; None without Strimzi."""
        if self._found is None and (version := self._kube.group_version(_GROUP)):
            self._found = Kind(_GROUP, version, "kafkatopics")
        return self._found


def _parts(owner: str) -> tuple[str, str]:
    kind, _, rest = owner.partition("/")
    namespace, _, name = rest.partition("/")
    if kind != _KIND or not namespace or not name:
        raise Refused(
            f"{owner!r} is no resource that keeps a topic's settings.",
            cause=f"it does not read {_KIND}/<namespace>/<name>",
            action="survey and plan again",
        )
    return namespace, name


def _there(owner: str, resource: Object | None) -> Object:
    if resource is None:
        raise _gone(owner, "it was deleted")
    return resource


def _done(owner: str, resource: Object) -> bool:
    """Whether the operator has taken the resource as it is now."""
    status = resource.get("status") or {}
    if status.get("observedGeneration") != resource["metadata"].get("generation"):
        return False
    ready = [c for c in status.get("conditions") or [] if c.get("type") == "Ready"]
    if ready and ready[0].get("status") == "True":
        return True
    said = [c for c in status.get("conditions") or [] if c.get("message")]
    if not said:
        return False
    raise Refused(
        f"Strimzi does not take the change of {owner}: {said[0]['message']}",
        cause=str(said[0].get("reason", "unknown")),
        action="see the status of the resource, and the log of the topic operator",
    )


def _refuse_paused(owner: str, resource: Object) -> None:
    if _annotation(resource, _PAUSED) == "true":
        raise Refused(
            f"{owner} is paused: its settings do not reach the topic.",
            cause=f"it is annotated {_PAUSED}=true",
            action="take the annotation away, or wait until whoever set it does",
        )


def _annotation(resource: Object, name: str) -> str:
    return str((resource["metadata"].get("annotations") or {}).get(name, ""))


def _gone(owner: str, cause: str) -> Refused:
    return Refused(f"There is no {owner}.", cause=cause, action="survey and plan again")


def _silent(owner: str, seconds: float) -> Retriable:
    return Retriable(
        f"Strimzi has not taken the change of {owner} within {seconds:.0f} s.",
        cause="its topic operator does not run, or is behind",
        action="look at the operator; what was changed is put back by `holdfast compaction repair`",
    )
