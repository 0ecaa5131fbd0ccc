"""The few API requests that Holdfast makes of a cluster; the only importer of `kubernetes`.

In a pod it uses the ServiceAccount's token, elsewhere the kubeconfig's current context.
Answers are plain dicts as in the API's JSON; a missing object is None.  What has to work without
that package asks through `in_pod`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.stream import stream
from kubernetes.stream.ws_client import ERROR_CHANNEL
from urllib3.exceptions import HTTPError
from websocket import WebSocketException

from holdfast.deploy.kubernetes.in_pod import in_a_pod
from holdfast.deploy.kubernetes.refusals import NOT_AS_ASKED, TIMEOUT_S, no_answer, refusal
from holdfast.errors import HoldfastError, Refused, Retriable

__all__ = ["Executed", "Kind", "KubeClient", "Object"]

Object = dict[str, Any]
"""An API object in its JSON form."""

_T = TypeVar("_T")
_PATIENCE_S, _PAUSE_S = 20.0, 0.5
_FORBIDDEN = 403


@dataclass(frozen=True)
class Executed:
    """The result of a command in a container.

    Attributes:
        status: its exit status; None when the container ended before the command.
    """

    status: int | None
    out: str
    err: str


class Kind(NamedTuple):
    """A custom resource kind."""

    group: str
    version: str
    plural: str


class KubeClient:
    """One connection to the API, made when first needed; thread-safe.

    Every method raises `Refused` when the account lacks the right, `Retriable` when the API does
    not answer, `HoldfastError` for any other refusal of the API.
    """

    @cached_property
    def _configuration(self) -> client.Configuration:
        return _configuration()

    @cached_property
    def _api(self) -> Any:
        return client.ApiClient(self._configuration)

    @cached_property
    def _core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self._api)

    @cached_property
    def _network(self) -> client.NetworkingV1Api:
        return client.NetworkingV1Api(self._api)

    @cached_property
    def _custom(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self._api)

    def namespace_labels(self, namespace: str) -> dict[str, str]:
        """Labels of a namespace; none when it does not exist."""
        found = self._ask(lambda: self._core.read_namespace(namespace, **_LIMIT))
        return dict((found or {}).get("metadata", {}).get("labels") or {})

    def pods(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """Pods with these labels, by name."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = self._ask(
            lambda: self._core.list_namespaced_pod(namespace, label_selector=selector, **_LIMIT)
        )
        return sorted((found or {}).get("items", []), key=lambda pod: str(pod["metadata"]["name"]))

    def pod(self, namespace: str, name: str) -> Object | None:
        """One pod; None when there is none."""
        return self._ask(lambda: self._core.read_namespaced_pod(name, namespace, **_LIMIT))

    def delete_pod(self, namespace: str, name: str, uid: str, grace_s: int | None) -> bool:
        """Deletes this incarnation of a pod (`grace_s` None: its own); False when it is gone."""
        options = client.V1DeleteOptions(
            grace_period_seconds=grace_s, preconditions=client.V1Preconditions(uid=uid)
        )
        return self._did(
            lambda: self._core.delete_namespaced_pod(name, namespace, body=options, **_LIMIT)
        )

    def add_helper(self, pod: Object, container: Object, *, dry_run: bool = False) -> bool:
        """Adds an ephemeral container to a pod; False when the pod is gone.

        With `dry_run` the cluster only checks whether it would allow that.
        """
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "spec": {"ephemeralContainers": [container]}}
        add: dict[str, Any] = {**_ADD, "dry_run": "All"} if dry_run else _ADD
        return self._did(
            lambda: self._core.patch_namespaced_pod_ephemeralcontainers(
                meta["name"], meta["namespace"], patch, **add
            )
        )

    def claim(self, namespace: str, name: str) -> Object | None:
        """One volume claim; None when there is none."""
        return self._ask(
            lambda: self._core.read_namespaced_persistent_volume_claim(name, namespace, **_LIMIT)
        )

    def delete_claim(self, namespace: str, name: str) -> bool:
        """Deletes a claim, which disappears once no pod uses it; False when it is gone."""
        return self._did(
            lambda: self._core.delete_namespaced_persistent_volume_claim(name, namespace, **_LIMIT)
        )

    def policies(self, namespace: str, label: str) -> list[str]:
        """Names of the NetworkPolicies with this label."""
        found = self._ask(
            lambda: self._network.list_namespaced_network_policy(
                namespace, label_selector=label, **_LIMIT
            )
        )
        return [policy["metadata"]["name"] for policy in (found or {}).get("items", [])]

    def policy(self, namespace: str, name: str) -> Object | None:
        """One NetworkPolicy; None when there is none."""
        return self._ask(
            lambda: self._network.read_namespaced_network_policy(name, namespace, **_LIMIT)
        )

    def select_pods(self, namespace: str, name: str, expressions: Sequence[Object]) -> bool:
        """Sets by which expressions a NetworkPolicy selects its pods, beside their labels; False
        when there is no such policy.
        """
        patch = {"spec": {"podSelector": {"matchExpressions": list(expressions) or None}}}
        return self._did(
            lambda: self._network.patch_namespaced_network_policy(name, namespace, patch, **_LIMIT)
        )

    def create_policy(self, namespace: str, policy: Any) -> bool:
        """Creates a NetworkPolicy; False when one of that name exists."""
        return self._did(
            lambda: self._network.create_namespaced_network_policy(namespace, policy, **_LIMIT)
        )

    def delete_policy(self, namespace: str, name: str) -> bool:
        """Deletes a NetworkPolicy; False when there is none."""
        return self._did(
            lambda: self._network.delete_namespaced_network_policy(name, namespace, **_LIMIT)
        )

    def group_version(self, group: str) -> str | None:
        """The cluster's preferred version of an API group; None when it has no such group."""
        found = self._ask(lambda: client.ApisApi(self._api).get_api_versions(**_LIMIT))
        groups = {each["name"]: each for each in (found or {}).get("groups", [])}
        return str(groups[group]["preferredVersion"]["version"]) if group in groups else None

    def custom_objects(self, kind: Kind, namespace: str) -> list[Object]:
        """Custom resources of a kind; none when the kind is unknown."""
        found = self._ask(
            lambda: self._custom.list_namespaced_custom_object(
                kind.group, kind.version, namespace, kind.plural, **_LIMIT
            )
        )
        items: list[Object] = (found or {}).get("items", [])
        return items

    def custom_object(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """One custom resource; None when there is none."""
        return self._ask(
            lambda: self._custom.get_namespaced_custom_object(
                kind.group, kind.version, namespace, kind.plural, name, **_LIMIT
            )
        )

    def patch_custom_object(
        self, kind: Kind, namespace: str, name: str, patch: Object
    ) -> Object | None:
        """Merges `patch` into a resource (None removes); the result, None when it is gone."""
        return self._ask(
            lambda: self._custom.patch_namespaced_custom_object(
                kind.group, kind.version, namespace, kind.plural, name, patch, **_MERGE
            )
        )

    def run(
        self,
        pod: Object,
        command: Sequence[str],
        timeout_s: float = 20.0,
        container: str | None = None,
    ) -> Executed:
        """Runs a command in a container of the pod (by default the first) and waits for its end.

        Raises:
            Retriable: the container does not run, or the command did not end in time.
        """
        meta = pod["metadata"]
        # The library patches the client for the call, so each call has its own.
        core = client.CoreV1Api(client.ApiClient(self._configuration))
        try:
            socket = stream(
                core.connect_get_namespaced_pod_exec,
                meta["name"],
                meta["namespace"],
                container=container or pod["spec"]["containers"][0]["name"],
                command=list(command),
                **_STREAMS,
            )
        except ApiException as error:
            raise _cannot_run(meta["name"], error) from error
        return _finish(socket, meta["name"], timeout_s)

    def _ask(self, call: Callable[[], Any]) -> Object | None:
        """Sends a read request, which is retried while the API is silent for a moment."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                found = _translated(call)
            except Retriable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)
            else:
                plain: Object | None = self._api.sanitize_for_serialization(found)
                return plain

    def _did(self, call: Callable[[], Any]) -> bool:
        return _translated(call) is not None


_LIMIT: dict[str, Any] = {"_request_timeout": TIMEOUT_S}
_MERGE: dict[str, Any] = {**_LIMIT, "_content_type": "application/merge-patch+json"}
_ADD: dict[str, Any] = {**_LIMIT, "_content_type": "application/strategic-merge-patch+json"}
_STREAMS: dict[str, Any] = {
    "stdin": False,
    "stdout": True,
    "stderr": True,
    "tty": False,
    "_preload_content": False,
}


def _configuration() -> client.Configuration:
    found = client.Configuration()
    load: Any = config.load_incluster_config if in_a_pod() else config.load_kube_config
    try:
        load(client_configuration=found)
    except ConfigException as error:
        raise Refused(
            f"There is no cluster to talk to: {error}.",
            cause="this is no pod with a ServiceAccount's token, and there is no kubeconfig",
            action="run it by a DAG of the cluster's Airflow, or point KUBECONFIG at the cluster",
        ) from error
    found.retries = False
    return found


def _translated(call: Callable[[], _T]) -> _T | None:
    """The answer; None for a missing object, an existing one, or one that was replaced."""
    try:
        return call()
    except ApiException as error:
        if error.status in NOT_AS_ASKED:
            return None
        raise refusal(error.status, _message(error)) from error
    except (HTTPError, OSError) as error:
        raise no_answer(str(error)) from error


def _message(error: ApiException) -> str:
    try:
        said = yaml.safe_load(error.body or "")
    except yaml.YAMLError:
        said = None
    return str(said["message"]) if isinstance(said, dict) and "message" in said else error.reason


def _cannot_run(pod: str, error: ApiException) -> HoldfastError:
    if "403" in str(error.reason) or "401" in str(error.reason):
        return refusal(_FORBIDDEN, str(error.reason))
    return Retriable(
        f"No command can be run in {pod}: {error.reason}",
        cause="its container does not run at the moment",
        action="wait until it does",
    )


def _finish(socket: Any, pod: str, timeout_s: float) -> Executed:
    """Reads to the end; a container that ends takes the command and its status with it."""
    out, err = [], []
    deadline = time.monotonic() + timeout_s
    try:
        while socket.is_open() and time.monotonic() < deadline:
            socket.update(timeout=1)
            out.append(socket.read_stdout(timeout=0) if socket.peek_stdout() else "")
            err.append(socket.read_stderr(timeout=0) if socket.peek_stderr() else "")
        if socket.is_open():
            raise Retriable(
                f"A command in {pod} did not end within {timeout_s:.0f} s.",
                cause="the machine is busy, or the container is being stopped",
                action="try again",
            )
        status = _exit_status(socket.read_channel(ERROR_CHANNEL))
    except (WebSocketException, OSError):
        status = None
    finally:
        socket.close()
        socket.sock.shutdown()  # close() does not release a connection that the API has closed
    return Executed(status, "".join(out), "".join(err))


def _exit_status(told: str) -> int | None:
    """The exit status in the API's closing message; None when the command did not end by itself."""
    said = yaml.safe_load(told) if told else None
    if not isinstance(said, dict):
        return None
    if said.get("status") == "Success":
        return 0
    causes = (said.get("details") or {}).get("causes") or []
    codes = [cause["message"] for cause in causes if cause.get("reason") == "ExitCode"]
    return int(codes[0]) if codes else None
