"""Values for the official Airflow chart, judged by that chart: AIRFLOW_CHART says where it is.

It is a folder or an archive: `helm pull apache-airflow/airflow`, or chart/ of Airflow's sources.
"""

from __future__ import annotations

import os
import subprocess

import pytest
import yaml

from tests.helm.conftest import HELM, KUBERNETES
from tests.support.doc_commands import ROOT

VALUES = ROOT / "k8s" / "airflow" / "values.yaml"
CHART = os.environ.get("AIRFLOW_CHART", "")


@pytest.mark.skipif(not CHART, reason="AIRFLOW_CHART does not say where Airflow's chart is")
def test_the_chart_takes_the_values_and_renders_them() -> None:
    command = [HELM, "template", "airflow", CHART, "--namespace", "airflow"]
    command += ["--kube-version", KUBERNETES, "--values", str(VALUES)]
    # helm holds the values against the chart's values.schema.json first.
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    made = [each for each in yaml.safe_load_all(ran.stdout) if each]
    accounts = {m["metadata"]["name"] for m in made if m["kind"] == "ServiceAccount"}
    assert "airflow-worker" in accounts, "the RoleBinding in values.yaml names it"
    variables = {
        variable["name"]
        for m in made
        if m["kind"] == "Deployment"
        for container in m["spec"]["template"]["spec"]["containers"]
        for variable in container.get("env", [])
    }
    given = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    assert {variable["name"] for variable in given["env"]} <= variables


def test_every_variable_of_ours_is_one_that_the_dags_read() -> None:
    given = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    known = (ROOT / "dags" / "holdfast_airflow" / "environment.py").read_text(encoding="utf-8")
    ours = [each["name"] for each in given["env"] if each["name"].startswith("HOLDFAST_")]
    assert ours
    assert [name for name in ours if f'"{name}"' not in known] == []
