"""Both charts as Argo CD uses them: rendered without a cluster, applied by the server, compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import table
from tests.e2e.cluster.kube import IMAGE, ROOT, helm, kubectl, objects, try_kubectl, until
from tests.helm.holdfast.examples import FULL, SETS, SQL
from tests.helm.test_renderings import PLATFORMS, PRODUCTION

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

HERE, JOBS = "e2e-gitops", "e2e-gitops-jobs"
APPLY = ("apply", "--server-side", "-f", "-")
_RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
# Kinds of the Prometheus operator, which is not here.
_HERE_ALONE = FULL | {"podMonitor": {"enabled": False}}
CASES = [
    *(pytest.param("holdfast", v, id=f"holdfast-{k}")
      for k, v in (SETS | {"full": _HERE_ALONE}).items() if k != "keda"),  # nor KEDA's kinds
    pytest.param("holdfast", {**PRODUCTION, "sql": SQL}, id="holdfast-production"),
    *(pytest.param("holdfast-platform", v, id=f"platform-{k}") for k, v in PLATFORMS.items()),
]  # fmt: skip


def _rendered(
    chart: str, values: dict[str, Any], *options: str, name: str = "e2e", namespace: str = HERE
) -> str:
    """A rendering with the namespace in each object, as Argo CD sets it."""
    ran = helm(
        *("template", name, str(ROOT / "helm" / chart), "--namespace", namespace),
        *("--kube-version", "1.34.0", *options), values=values,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    manifests = [manifest for manifest in yaml.safe_load_all(ran.stdout) if manifest]
    for manifest in manifests:
        manifest["metadata"].setdefault("namespace", namespace)
    return yaml.safe_dump_all(manifests)


@pytest.fixture(scope="module")
def namespaces() -> Iterator[None]:
    """Two that enforce `restricted`, for what no Helm has ever owned."""
    kubectl("delete", "namespace", HERE, JOBS, "--ignore-not-found", "--wait")
    # The pods of `FULL` name it, and the server looks for it.
    priority = ("priorityclass", FULL["driver"]["priorityClassName"])
    kubectl("delete", *priority, "--ignore-not-found")
    kubectl("create", *priority, "--value=1")
    for name in (HERE, JOBS):
        metadata = {"name": name, "labels": _RESTRICTED}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        kubectl("apply", "-f", "-", text=json.dumps(manifest))
    yield
    kubectl("delete", "namespace", HERE, JOBS, "--wait")
    kubectl("delete", *priority)


@pytest.mark.parametrize(("chart", "values"), CASES)
def test_the_server_takes_what_is_rendered_without_a_warning(
    namespaces: None, chart: str, values: dict[str, Any]
) -> None:
    """A field it does not know, one that is there twice, or a pod that is not `restricted`."""
    if chart == "holdfast-platform":
        values = {**values, "jobs": {"namespace": JOBS, **values.get("jobs", {})}}
    text = _rendered(chart, values)
    count = sum(1 for manifest in yaml.safe_load_all(text) if manifest)
    told = try_kubectl(*APPLY, "--dry-run=server", text=text, everywhere=True)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.count("serverside-applied (server dry run)") == count > 5


def test_a_platform_that_was_never_helms_starts_and_stays_as_rendered(namespaces: None) -> None:
    """The init Job makes certificates once; a second sync finds nothing to change."""
    tag = IMAGE.partition(":")[2]
    values = {
        "image": {"tag": tag},
        "airflow": {"enabled": False},
        "kafka": {"volume": {"size": "1Gi"}, "tls": {"enabled": True}},
        "jobs": {"namespace": JOBS},
    }
    text = _rendered("holdfast-platform", values)
    first = try_kubectl(*APPLY, text=text, everywhere=True)
    assert (first.returncode, first.stderr) == (0, "")
    kubectl("wait", "-n", HERE, "--for=condition=complete", "job/holdfast-platform-init",
            "--timeout=120s")  # fmt: skip
    kubectl("rollout", "status", "-n", HERE, "statefulset/kafka", "--timeout=240s")
    certificate = ("get", "secret", "kafka-tls", "-n", HERE, "-o", "jsonpath={.data}")
    issued = kubectl(*certificate)
    assert "tls.key" in json.loads(issued)
    assert kubectl("get", "secret", "holdfast-kafka-client", "-n", JOBS, "-o", "name")
    again = _rendered("holdfast-platform", values)
    assert again == text
    assert _difference(again) == ""
    kubectl("delete", "job", "holdfast-platform-init", "-n", HERE, "--wait")
    assert try_kubectl(*APPLY, text=again, everywhere=True).returncode == 0
    kubectl("wait", "-n", HERE, "--for=condition=complete", "job/holdfast-platform-init",
            "--timeout=120s")  # fmt: skip
    assert kubectl(*certificate) == issued


def _difference(text: str) -> str:
    """The changes that a server-side apply would make, as a tool that compares sees them."""
    diff = ("diff", "--server-side", "--force-conflicts", "-f", "-")
    told = try_kubectl(*diff, text=text, everywhere=True)
    assert told.returncode in (0, 1), told.stderr
    return told.stdout


@pytest.mark.parametrize("chart", ["holdfast", "holdfast-platform"])
def test_what_runs_differs_in_nothing_from_its_rendering(deployed: str, chart: str) -> None:
    """Also where the driver has filled a Secret, and Kubernetes has added its defaults."""
    release, namespace = {
        "holdfast": (table.NAME, "holdfast"),
        "holdfast-platform": ("platform", "holdfast-platform"),
    }[chart]
    found = helm("get", "values", release, "--namespace", namespace, "--output", "json")
    values = json.loads(found.stdout)
    text = _rendered(chart, values, "--no-hooks", name=release, namespace=namespace)
    assert _difference(text) == ""
    changed = text.replace("app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/x: other")
    assert "app.kubernetes.io/x: other" in _difference(changed), "it sees no difference"


def _init_hooks() -> list[str]:
    kinds = "job,configmap,serviceaccount,role,rolebinding"
    return [
        found["kind"]
        for namespace in ("holdfast", "holdfast-platform")
        for found in objects(kinds, "-n", namespace)
        if found["metadata"]["name"] == "holdfast-platform-init"
    ]


def test_nothing_is_left_of_the_platforms_init_job() -> None:
    """Its account may create Secrets; hooks of an install that worked are gone."""
    until(lambda: not _init_hooks(), 30, "the hooks are gone")
