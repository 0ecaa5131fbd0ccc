"""Target `kubernetes`: the lock is a Lease beside the release, so all Airflows see it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes.client import ApiClient, ApiException, CoordinationV1Api
from kubernetes.client import models as k8s

from holdfast_airflow.locks.held import Held, Holder, LockUnavailable

__all__ = ["LeaseLock"]

_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
_ANSWER_S = 10.0


class LeaseLock:
    """A lock as a Lease; whoever has it is its `holderIdentity`, as `DAG/RUN`.

    Args:
        api: Airflow's own access to the cluster, which may change Leases in the namespace.
    """

    def __init__(self, api: ApiClient, namespace: str, job: str) -> None:
        self._api = CoordinationV1Api(api)
        self._namespace, self._name = namespace, f"holdfast-{job.lower().replace('_', '-')}"
        self.by_hand = f"kubectl -n {namespace} delete lease {self._name}"

    def read(self) -> Held | None:
        found = self._asked(self._api.read_namespaced_lease, self._name, self._namespace)
        return None if found is None else Held(_holder(found.spec), _version(found.metadata))

    def take(self, holder: Holder, instead_of: Held | None) -> bool:
        lease = k8s.V1Lease(metadata=self._metadata(instead_of), spec=_spec(holder))
        if instead_of is None:
            call = self._asked(self._api.create_namespaced_lease, self._namespace, lease)
        else:
            call = self._asked(
                self._api.replace_namespaced_lease, self._name, self._namespace, lease
            )
        return call is not None

    def free(self, held: Held) -> None:
        uid, version = _parts(held)
        only = k8s.V1Preconditions(uid=uid, resource_version=version)
        options = k8s.V1DeleteOptions(preconditions=only)
        self._asked(self._api.delete_namespaced_lease, self._name, self._namespace, body=options)

    def _metadata(self, instead_of: Held | None) -> k8s.V1ObjectMeta:
        # Without the uid the API server would make a Lease that has gone meanwhile.
        uid, version = _parts(instead_of) if instead_of else (None, None)
        return k8s.V1ObjectMeta(
            name=self._name,
            uid=uid,
            resource_version=version,
            labels={"app.kubernetes.io/managed-by": "airflow"},
        )

    def _asked(self, call: Any, *arguments: Any, **more: Any) -> Any:
        """The answer; None for a Lease that is missing, there already, or another by now."""
        try:
            return call(*arguments, _request_timeout=_ANSWER_S, **more)
        except ApiException as error:
            if error.status in (_NOT_FOUND, _CONFLICT):
                return None
            if error.status == _FORBIDDEN:
                raise LockUnavailable(
                    f"Airflow's account may not change Leases in {self._namespace}, by which only "
                    "one run at a time changes a job. The Role `airflow` of the chart "
                    "holdfast-platform (templates/jobs/rbac.yaml) has that right: install it anew."
                ) from error
            raise


def _version(metadata: k8s.V1ObjectMeta) -> str:
    return f"{metadata.uid}/{metadata.resource_version}"


def _parts(held: Held) -> tuple[str, str]:
    uid, _, version = held.version.partition("/")
    return uid, version


def _spec(holder: Holder) -> k8s.V1LeaseSpec:
    return k8s.V1LeaseSpec(
        holder_identity=f"{holder.dag}/{holder.run}",
        acquire_time=holder.since,
        lease_duration_seconds=max(1, round((holder.until - holder.since).total_seconds())),
    )


def _holder(spec: k8s.V1LeaseSpec) -> Holder:
    dag, _, run = str(spec.holder_identity or "").partition("/")
    since = spec.acquire_time or datetime.now(UTC)
    return Holder(dag, run, since, since + timedelta(seconds=spec.lease_duration_seconds or 0))
