"""Target `kubernetes`: a job as a Helm release of the chart."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from holdfast.deploy.deployment import (
    Deployment,
    DeploymentState,
    driver_facts,
    fetch_status,
    refuse_other_revision,
)
from holdfast.deploy.kubernetes.helm import (
    EVERY_STATE,
    find_chart,
    helm,
    helm_json,
    helm_watched,
    rollback_on_failure,
)
from holdfast.deploy.kubernetes.in_pod import (
    delete_claims,
    driver_status,
    in_a_pod,
    not_pulled,
    pod_troubles,
    pods_of,
)
from holdfast.errors import HoldfastError, Refused

__all__ = ["KubernetesDeployment", "all_releases", "last_good"]

TARGET = "kubernetes"
_PORT = 8090
_ENDED = ("failed", "uninstalled")
_PULL_S = 15.0  # in which the kubelet tries twice

_Tell = Callable[[str], None]


def all_releases(namespace: str | None) -> list[Deployment]:
    """Every release of the chart, by namespace and name.

    Args:
        namespace: the one to look into; None: all of them.

    Raises:
        InvalidConfig, HoldfastError: helm failed, or the account may not look.
    """
    places = ["--all-namespaces"] if namespace is None else ["--namespace", namespace]
    found = helm_json(["list", *places, *EVERY_STATE]) or []
    ours = (r for r in found if r["chart"].rpartition("-")[0] == "holdfast")
    named = sorted((r["namespace"], r["name"]) for r in ours)
    return [KubernetesDeployment(place, name).status() for place, name in named]


def last_good(history: Sequence[Mapping[str, Any]]) -> int:
    """The newest revision before the present one that was once deployed; 0 without one."""
    good = [int(r["revision"]) for r in history[:-1] if r["status"] == "superseded"]
    return max(good, default=0)


class KubernetesDeployment:
    """One release.  Helm owns the facts; the driver reports the rest."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self._name = namespace, name
        self._url = f"http://{name}-driver.{namespace}.svc:{_PORT}"

    def status(self) -> Deployment:
        """The present state of the release.

        Raises:
            InvalidConfig, HoldfastError: helm failed.
        """
        history = self._history()
        if not history:
            return Deployment(self._name, TARGET, reason="it is not deployed")
        last = history[-1]
        found = Deployment(
            self._name,
            TARGET,
            int(last["revision"]),
            DeploymentState.STARTING,
            metrics_url=f"{self._url}/metrics",
            details={"namespace": self._namespace, "helm": last["status"]},
        )
        found = replace(found, **driver_facts(self._driver()))
        if found.ready:
            return found
        return self._why_not(found, str(last["status"]), str(last.get("description", "")))

    def _why_not(self, found: Deployment, helm_says: str, description: str) -> Deployment:
        troubles = pod_troubles(self._namespace, pods_of(self._namespace, self._name))
        if helm_says in _ENDED:
            reasons = [f"helm: {helm_says}: {description}", *troubles]
            return replace(found, state=DeploymentState.STOPPED, reason="; ".join(reasons))
        if troubles:
            reason = "; ".join(troubles)
            return replace(found, state=DeploymentState.RESTARTING, reason=reason)
        return found

    def deploy(
        self,
        values: Mapping[str, Any],
        value_files: Sequence[Path],
        chart: Path | None,
        timeout_s: float,
        tell: _Tell,
    ) -> Deployment:
        """Installs or upgrades the release; on failure helm restores the previous revision.

        Raises:
            InvalidConfig: helm or the chart is missing.
            HoldfastError: the job did not become ready; the message says why, if its pods show it.
        """
        place = find_chart(chart)
        with tempfile.TemporaryDirectory(prefix="holdfast-values-") as folder:
            built = Path(folder, "values.yaml")
            built.write_text(yaml.safe_dump(dict(values), allow_unicode=True), encoding="utf-8")
            files = [part for file in (built, *value_files) for part in ("--values", str(file))]
            upgrade = ["upgrade", "--install", self._name, str(place), *files]
            self._change([*upgrade, rollback_on_failure()], timeout_s, tell)
        return self.status()

    def rollback(
        self, timeout_s: float, tell: _Tell, *, only_from: int | None = None
    ) -> Deployment:
        """Rolls back to the previously deployed revision; without one, uninstalls the release.

        Args:
            only_from: the revision to be undone; None for whichever is present.

        Raises:
            Refused: there is no release, or another revision is present.
            HoldfastError: that revision did not become ready either.
        """
        self._need()
        history = self._history()
        refuse_other_revision(self._name, int(history[-1]["revision"]), only_from)
        revision = last_good(history)
        if not revision:
            tell(f"{self._name} has no revision before this one: uninstalling")
            return self.undeploy(delete_state=False)
        self._change(["rollback", self._name, str(revision)], timeout_s, tell)
        return self.status()

    def undeploy(self, *, delete_state: bool) -> Deployment:
        """Uninstalls the release; its claims stay unless `delete_state`.

        Raises:
            Refused: there is no release.
            HoldfastError: helm, or the deletion of claims, failed.
        """
        self._need()
        helm(["uninstall", self._name, "--namespace", self._namespace, "--wait"])
        if delete_state:
            delete_claims(self._namespace, self._name)
        return self.status()

    def _change(self, arguments: list[str], timeout_s: float, tell: _Tell) -> None:
        """Runs helm and watches the pods, since helm deletes the evidence after a failure."""
        troubles: list[str] = []
        pulls = _Pulls(pods_of(self._namespace, self._name))

        def look() -> None:
            nonlocal troubles
            pods = pods_of(self._namespace, self._name)
            pulls.look(pods)
            troubles = pod_troubles(self._namespace, pods) or troubles
            told = driver_facts(self._driver())
            tell(f"{self._name}: {'; '.join(troubles) or told['reason'] or 'ready'}")

        full = [*arguments, "--namespace", self._namespace, "--wait", "--timeout"]
        try:
            tell(helm_watched([*full, f"{timeout_s:.0f}s"], look).strip())
        except _NotPulled:
            raise
        except HoldfastError as error:
            if not troubles:
                raise
            pods = "\n".join(troubles)
            raise HoldfastError(f"{error.fact}\n{pods}", action=error.action) from error

    def _driver(self) -> dict[str, Any] | None:
        if in_a_pod():
            return fetch_status(f"{self._url}/status")
        return driver_status(self._namespace, self._name)

    def _history(self) -> list[dict[str, Any]]:
        found = helm_json(["history", self._name, "--namespace", self._namespace])
        return sorted(found or [], key=lambda r: int(r["revision"]))

    def _need(self) -> None:
        if not self._history():
            raise Refused(
                f"There is no release {self._name} in the namespace {self._namespace}.",
                action="`helm list` shows what there is; --namespace names another",
            )


class _NotPulled(HoldfastError):
    """The image of a new pod cannot be pulled."""


class _Pulls:
    """Notices images that cannot be pulled by pods that a change has made.

    Args:
        before: the pods before the change; it may mend those that cannot pull their image.
    """

    def __init__(self, before: Sequence[Mapping[str, Any]]) -> None:
        self._before = frozenset(not_pulled(before))
        self._since: dict[str, float] = {}

    def look(self, pods: Sequence[Mapping[str, Any]]) -> None:
        """Looks at the pods.

        Raises:
            _NotPulled: one could not pull its image for some time.
        """
        now, found = time.monotonic(), not_pulled(pods)
        for uid in found.keys() - self._before:
            if now - self._since.setdefault(uid, now) >= _PULL_S:
                raise _NotPulled(
                    f"An image cannot be pulled. {found[uid]}",
                    cause="its name is wrong, its registry does not answer, or wants credentials",
                    action="see --image; image.pullSecrets names the registry's Secret; in a kind "
                    "cluster, `kind load docker-image` first",
                )
