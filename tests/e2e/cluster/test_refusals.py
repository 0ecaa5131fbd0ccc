"""Deployments that are refused, how soon, and what is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.cluster import table
from tests.e2e.cluster.kube import BOOTSTRAP, NAMESPACE, ROOT, helm, kubectl, objects, until
from tests.e2e.cluster.table import DRIVER, Burst, Watch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

CHART = str(ROOT / "helm/holdfast")
NOWHERE = "e2e-nowhere"
ELSEWHERE = "e2e-elsewhere"
TAKER = "e2e-taker"


def test_other_claims_are_refused_before_anything_is_touched(watch: Watch) -> None:
    """By the preflight, not by Helm's `lookup`, so under a GitOps tool as well."""
    config = kubectl("get", "configmap", table.NAME, "-o", "jsonpath={.data}")
    refused = helm(
        *("upgrade", table.NAME, CHART, "--reuse-values", "--wait", "--timeout", "3m"),
        *("--set", r"executor.volume.size=2Gi,properties.snapshot\.interval\.ms=60007"),
    )
    assert refused.returncode != 0
    said = refused.stdout + refused.stderr
    assert f"executor.volume: the StatefulSet {table.NAME}-executor has 1,073,741,824" in said, said
    assert "--cascade=orphan" in said
    assert kubectl("get", "configmap", table.NAME, "-o", "jsonpath={.data}") == config
    assert watch.seen[-1].status["ready"]
    hook = f"{table.NAME}-preflight"
    kinds = "job,configmap,serviceaccount,role,rolebinding"
    left = kubectl("get", kinds, "-o", "name").split()
    assert [name for name in left if name.endswith(f"/{hook}")] == [f"job.batch/{hook}"]
    assert "--cascade=orphan" in kubectl("logs", f"job/{hook}")
    again = helm(
        "upgrade", table.NAME, CHART, "--reuse-values", "--wait", "--timeout", "3m",
        "--set", "executor.volume.size=1024Mi",
    )  # fmt: skip
    assert again.returncode == 0, again.stderr


def test_a_second_release_of_the_job_elsewhere_is_refused(
    watch: Watch, times: dict[str, float]
) -> None:
    """Before it has made anything, and with the name of the driver that runs."""
    kubectl("create", "namespace", ELSEWHERE)
    began, values = time.monotonic(), json.loads(helm("get", "values", table.NAME, "-ojson").stdout)
    try:
        refused = helm(
            *("install", table.NAME, CHART, "--namespace", ELSEWHERE, "--wait", "--timeout", "3m"),
            values=values,
        )
        times["a second release elsewhere, until it is refused"] = time.monotonic() - began
        left = kubectl("-n", ELSEWHERE, "get", "statefulset,pvc,configmap", "-o", "name")
    finally:
        kubectl("delete", "namespace", ELSEWHERE, "--wait=false")
    assert refused.returncode != 0
    named = f"is run by pod {table.NAME}-driver-0 in namespace {NAMESPACE}, since"
    assert named in refused.stdout + refused.stderr, refused.stderr
    assert left.split() == ["configmap/kube-root-ca.crt"]
    assert watch.seen[-1].status["ready"]


def test_a_release_elsewhere_takes_the_job_over_and_gives_it_back(
    watch: Watch, times: dict[str, float]
) -> None:
    kubectl("create", "namespace", TAKER)
    elsewhere, burst = Watch(TAKER), Burst(seed=32, count=27_000, rate=300)
    values, moment = json.loads(helm("get", "values", table.NAME, "-ojson").stdout), time.time()
    try:
        taken = helm(
            *("install", table.NAME, CHART, "--namespace", TAKER, "--wait", "--timeout", "4m"),
            *("--set", "driver.takeOver=true"),
            values=values,
        )
        assert taken.returncode == 0, taken.stderr
        elsewhere.until_level(240)
        times["taken over from elsewhere, longest time without a commit"] = watch.silence(
            moment, elsewhere
        )
        refused = f"is run by pod {DRIVER} in namespace {TAKER}, since"
        until(
            lambda: refused in kubectl("logs", DRIVER, check=False),
            120,
            "the first driver is refused",
        )
        helm("uninstall", table.NAME, "--namespace", TAKER, "--wait")
        kubectl("delete", "pod", DRIVER)  # Kubernetes waits ever longer between its starts
        burst.finish()
        watch.until_level(240)
    finally:
        elsewhere.stop()
        kubectl("delete", "namespace", TAKER, "--wait=false")
    table.exact(least=burst.count)


def test_an_image_that_is_nowhere_is_told_before_the_time_out(
    tmp_path: Path, cli_pod: str, times: dict[str, float]
) -> None:
    script, config = tmp_path / "table.sql", tmp_path / "kube.yaml"
    script.write_text(table.SQL, encoding="utf-8")
    minified = ("config", "view", "--minify", "--flatten")
    config.write_text(kubectl(*minified), encoding="utf-8")
    began = time.monotonic()
    try:
        refused = subprocess.run(
            [
                *(sys.executable, "-m", "holdfast.cli.main", "deploy", NOWHERE, str(script)),
                *("--target", "kubernetes", "--namespace", NAMESPACE, "--timeout", "300"),
                *("--image", "holdfast:there-is-none"),
                *("--set", f"bootstrap.servers={BOOTSTRAP}", "--home", str(tmp_path)),
            ],
            env={**os.environ, "KUBECONFIG": str(config), "PYTHONPATH": str(ROOT / "jobs")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        times["an image that is nowhere, until it is told"] = time.monotonic() - began
    finally:
        of_it = f"app.kubernetes.io/instance={NOWHERE}"
        helm("uninstall", NOWHERE, "--ignore-not-found")
        kinds = "job,configmap,serviceaccount,role,rolebinding,pvc"
        kubectl("delete", kinds, "-l", of_it, "--wait=true")
    assert refused.returncode != 0
    assert "An image cannot be pulled." in refused.stderr, refused.stderr
    assert "holdfast:there-is-none" in refused.stderr
    assert time.monotonic() - began < 200, "it has waited for its time-out"
    until(lambda: not objects("pods", "-l", of_it), 60, "its pods are gone")
