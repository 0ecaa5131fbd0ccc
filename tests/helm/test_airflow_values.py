"""Values for the official Airflow chart, judged by that chart: AIRFLOW_CHART says where it is.

It is a folder or an archive: `helm pull apache-airflow/airflow`, or chart/ of Airflow's sources.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.helm.conftest import HELM, KUBERNETES
from tests.support.doc_commands import ROOT

VALUES = ROOT / "k8s" / "airflow" / "values.yaml"
CHART = os.environ.get("AIRFLOW_CHART", "")
_RUN_DAGS = ("scheduler", "dag-processor", "triggerer", "base")  # `base` is of a task's pod


@pytest.fixture(scope="module")
def made() -> list[dict[str, Any]]:
    """Objects that the chart makes of our values; helm compares them with its schema first."""
    if not CHART:
        pytest.skip("AIRFLOW_CHART does not say where Airflow's chart is")
    command = [HELM, "template", "airflow", CHART, "--namespace", "airflow"]
    command += ["--kube-version", KUBERNETES, "--values", str(VALUES)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [each for each in yaml.safe_load_all(ran.stdout) if each]


def _pods(made: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The specifications of all pods, also of the one that a task's pod is made from."""
    for each in made:
        template = each.get("spec", {}).get("template")
        if template:
            yield f"{each['kind']} {each['metadata']['name']}", template["spec"]
        task = each.get("data", {}).get("pod_template_file.yaml")
        if task:
            yield "a task", yaml.safe_load(task)["spec"]


def test_the_chart_takes_the_values_and_renders_them(made: list[dict[str, Any]]) -> None:
    accounts = {m["metadata"]["name"] for m in made if m["kind"] == "ServiceAccount"}
    assert "airflow-worker" in accounts, "the RoleBinding in values.yaml names it"
    given = {variable["name"] for variable in yaml.safe_load(VALUES.read_text())["env"]}
    run = {c["name"]: c for _, pod in _pods(made) for c in pod["containers"]}
    for name in _RUN_DAGS:
        assert given <= {variable["name"] for variable in run[name]["env"]}, name


def test_nobody_has_a_default_password(made: list[dict[str, Any]]) -> None:
    assert "admin@example.com" not in yaml.safe_dump(made)
    assert "create-user" not in yaml.safe_dump(made)


def test_every_pod_may_run_in_a_restricted_namespace(made: list[dict[str, Any]]) -> None:
    """The pod security standard `restricted`."""
    pods = dict(_pods(made))
    assert "a task" in pods
    assert len(pods) > 4
    for name, pod in pods.items():
        of_pod = pod["securityContext"]
        assert of_pod["runAsNonRoot"], name
        assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"] + pod.get("initContainers", []):
            own = container.get("securityContext", {})
            assert own.get("allowPrivilegeEscalation") is False, (name, container["name"])
            assert own["capabilities"] == {"drop": ["ALL"]}, (name, container["name"])


def test_every_variable_of_ours_is_one_that_the_dags_read() -> None:
    given = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    known = (ROOT / "dags" / "holdfast_airflow" / "environment.py").read_text(encoding="utf-8")
    ours = [each["name"] for each in given["env"] if each["name"].startswith("HOLDFAST_")]
    assert ours
    assert [name for name in ours if f'"{name}"' not in known] == []
