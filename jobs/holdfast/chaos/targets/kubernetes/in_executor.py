"""Asks an executor's pod for what only executors reach: the database, the snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from holdfast.chaos.targets.kubernetes.places import Places
from holdfast.chaos.targets.kubernetes.scripts import (
    PROPERTIES,
    REMOTE_STORES,
    SNAPSHOT_FILES,
    module,
)
from holdfast.deploy.kubernetes.client import KubeClient
from holdfast.errors import Retriable
from holdfast.types.components import EXECUTOR

__all__ = ["InExecutor", "PodSnapshots", "PodStores"]

_TIMEOUT_S = 120.0  # Python and its libraries take 10 s and more to start in a pod that is busy
_DIGESTS_S = 300.0


class InExecutor:
    """Runs modules of this project in a pod of a release's executors, whichever runs."""

    def __init__(self, namespace: str, name: str, kube: KubeClient | None = None) -> None:
        self._kube = kube or KubeClient()
        self._name = name
        self._places = Places(self._kube, namespace, name, platform=namespace)

    def ask(
        self, module_name: str, what: str, *arguments: str, timeout_s: float = _TIMEOUT_S
    ) -> Any:
        """The answer of a module (see `scripts`) that takes the file of the job's properties.

        Raises:
            Refused: there is no such release.
            Retriable: no executor runs at the moment, its pod ended meanwhile, or the module failed
                there; its last words are in the error.
        """
        self._places.of(EXECUTOR)
        for pod in self._places.alive(EXECUTOR)[:1]:
            command = module(module_name, what, PROPERTIES, *arguments)
            ran = self._kube.run(pod, command, timeout_s)
            if ran.status == 0:
                return orjson.loads(ran.out)
            where = f"in {pod['metadata']['name']}"
            if ran.status is None:
                raise Retriable(f"A command {where} ended with its container.", action="try again")
            raise Retriable(
                f"{module_name} {what} failed {where}: {ran.err.strip()[-300:]}",
                cause="the database or the snapshots do not answer, or the image is older",
                action="try again, or deploy the job with this version",
            )
        raise Retriable(f"No executor of {self._name} runs.", action="wait for one")


class PodStores:
    """The stores of a job in its database, which its executors reach."""

    def __init__(self, pods: InExecutor) -> None:
        self._pods = pods

    def stores(self) -> list[tuple[str, str, int]]:
        """(application id, state name, state partition) of every store; see `InExecutor.ask`."""
        return [(str(a), str(s), int(p)) for a, s, p in self._pods.ask(REMOTE_STORES, "list")]

    def delete_all(self) -> int:
        """Removes every store, whoever has it open; returns how many there were."""
        return int(self._pods.ask(REMOTE_STORES, "remove"))

    def digests(self) -> list[dict[str, Any]]:
        """The digest of every store, as `StoreDigest.of` takes it."""
        found: list[dict[str, Any]] = self._pods.ask(REMOTE_STORES, "digests", timeout_s=_DIGESTS_S)
        return found


class PodSnapshots:
    """The snapshots of a job, which its executors reach.  For errors see `InExecutor.ask`."""

    def __init__(self, pods: InExecutor) -> None:
        self._pods = pods

    def newest(self) -> list[str]:
        """The manifest of the newest snapshot of each state partition, sorted."""
        found: list[str] = self._pods.ask(SNAPSHOT_FILES, "list")
        return found

    def damage(self) -> list[str]:
        """Damages the largest file of each newest snapshot; which files are damaged now."""
        found: list[str] = self._pods.ask(SNAPSHOT_FILES, "damage")
        return found

    def wrong(self, paths: Sequence[str]) -> list[str]:
        """Those of these files whose contents are not what their names say."""
        found: list[str] = self._pods.ask(SNAPSHOT_FILES, "wrong", *paths)
        return found
