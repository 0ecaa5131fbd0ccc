"""The stores of a release: each executor reads its own volume's, one reads a database's."""

from __future__ import annotations

import orjson

from holdfast.chaos.targets.kubernetes.in_executor import InExecutor, PodStores
from holdfast.chaos.targets.kubernetes.places import Places
from holdfast.deploy.kubernetes.client import KubeClient, Object
from holdfast.errors import HoldfastError
from holdfast.types.components import EXECUTOR
from holdfast.types.stores import JobStores, StoreDigest, stores_of_job

__all__ = ["release_stores"]

_STATE_DIR = "/var/lib/holdfast/state"  # the chart's default
_READ_S = 300.0


def release_stores(
    namespace: str,
    name: str,
    application_id: str,
    kube: KubeClient | None = None,
    *,
    remote: bool = False,
) -> JobStores:
    """The store with the highest offset, by (query id, state partition).

    Args:
        remote: whether the stores are in a database.

    Raises:
        Refused: there is no such release.
        Retriable: an executor does not run at the moment, or does not answer in time.
        HoldfastError: an executor could not read its stores.
    """
    kube = kube or KubeClient()
    if remote:
        digests = PodStores(InExecutor(namespace, name, kube)).digests()
        return stores_of_job(map(StoreDigest.of, digests), application_id)
    places = Places(kube, namespace, name, platform=namespace)
    places.of(EXECUTOR)
    found = [s for pod in places.alive(EXECUTOR) for s in _stores(kube, pod, application_id)]
    return stores_of_job(found, application_id)


def _stores(kube: KubeClient, pod: Object, application_id: str) -> list[StoreDigest]:
    asked = ["holdfast", "stores", "--json", "--application-id", application_id]
    ran = kube.run(pod, [*asked, "--state-dir", _STATE_DIR], timeout_s=_READ_S)
    if ran.status != 0:
        raise HoldfastError(
            f"The stores of {pod['metadata']['name']} could not be read "
            f"(exit status {ran.status}): {ran.err.strip()[-300:]}",
            cause="its image is older than `holdfast stores`, or its container ended meanwhile",
            action="deploy the job with this version, or verify again",
        )
    return [StoreDigest.of(fields) for fields in orjson.loads(ran.out)]
