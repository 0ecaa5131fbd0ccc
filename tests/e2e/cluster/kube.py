"""The cluster under test, through kubectl and helm as a user has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NAMESPACE = "holdfast"
CONTEXT = f"kind-{os.environ.get('CLUSTER', 'holdfast')}"
IMAGE = f"holdfast:{os.environ.get('TAG', 'dev')}"
HELM = os.environ.get("HELM", "helm")
# Tests of minutes each that a change seldom breaks.
long_test = pytest.mark.skipif(
    not os.environ.get("LONG_TESTS"), reason="it takes minutes; LONG_TESTS=1 runs it"
)
BOOTSTRAP = "kafka.holdfast-platform.svc:9092"
POLL_S = 0.3
# What pods need in a namespace that enforces the standard `restricted`.
POD_SECURITY: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def kubectl(*arguments: str, check: bool = True, text: str | None = None) -> str:
    """Standard output of kubectl in the jobs' namespace (another `-n` among the arguments wins)."""
    ran = try_kubectl(*arguments, text=text)
    assert not check or ran.returncode == 0, f"{ran.args}: {ran.stderr}"
    return ran.stdout


def try_kubectl(
    *arguments: str, text: str | None = None, everywhere: bool = False
) -> subprocess.CompletedProcess[str]:
    """The same for one that may fail, or whose warnings count.

    Args:
        everywhere: the objects of `text` name their namespaces, which may be several.
    """
    where = () if everywhere or "-n" in arguments else ("-n", NAMESPACE)
    command = ["kubectl", "--context", CONTEXT, *where, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def objects(kind: str, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", kind, "-o", "json", *arguments))[
        "items"
    ]
    return found


def helm(*arguments: str, values: Any = None) -> subprocess.CompletedProcess[str]:
    """Runs helm in the jobs' namespace (another `--namespace` among the arguments wins)."""
    command = [HELM, "--kube-context", CONTEXT, "-n", NAMESPACE, *arguments]
    if values is not None:
        command += ["--values", "-"]
    text = None if values is None else json.dumps(values)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def run_dag(dag: str, conf: dict[str, Any], *options: str) -> str:
    """Runs a DAG of the cluster's Airflow through its REST API; fails the test when it fails."""
    ran = try_dag(dag, conf, *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def try_dag(dag: str, conf: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """The same for one that may fail."""
    command = [sys.executable, str(ROOT / "k8s/kind/run_dag.py"), dag, "--context", CONTEXT]
    command += ["--conf", json.dumps(conf), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def uid(pod: str) -> str:
    """Which incarnation of a pod is there; empty when there is none."""
    return kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}", check=False)


def until(true: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(POLL_S)
