"""A fleet on the platform chart: jobs that a ConfigMap declares, in several namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.helm.conftest import Manifest, Refused, Render

CHART = "holdfast-platform"
HERE, JOBS, MORE = "platform-of-tests", "tables", ["sales", "web"]
FLEET: dict[str, Any] = {"fleet": {"configMap": "jobs"}}
SEVERAL: dict[str, Any] = {
    "jobs": {"namespace": JOBS, "moreNamespaces": MORE},
    "schemaRegistry": {"enabled": True},
    "compaction": {"strimzi": {"enabled": True, "namespace": "brokers"}},
    "kafka": {"tls": {"enabled": True}},
}
AIRFLOW = {"airflow-api-server", "airflow-dag-processor", "airflow-scheduler", "airflow-triggerer"}


def _pods(manifests: list[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    for each in manifests:
        if each["metadata"]["name"] in AIRFLOW and "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def _fleet_variables(pod: dict[str, Any]) -> dict[str, str]:
    (container,) = pod["containers"]
    ours = ("HOLDFAST_FLEET", "HOLDFAST_SQL_FOLDER")
    return {e["name"]: e["value"] for e in container["env"] if e["name"].startswith(ours)}


def test_airflow_reads_jobs_and_their_statements_from_the_configmap(render: Render) -> None:
    pods = dict(_pods(render(CHART, FLEET)))
    assert set(pods) == AIRFLOW
    for name, pod in pods.items():
        given = _fleet_variables(pod)
        assert given["HOLDFAST_FLEET_SCHEDULE"] == "*/15 * * * *", name
        (volume,) = (v for v in pod["volumes"] if v["name"] == "fleet")
        # Airflow runs without it, and the DAG tells.
        assert volume["configMap"] == {"name": "jobs", "optional": True}, name
        (mount,) = (m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "fleet")
        # A mount of a single file (subPath) would not change with the ConfigMap.
        assert mount == {"name": "fleet", "mountPath": given["HOLDFAST_FLEET"], "readOnly": True}
        assert given["HOLDFAST_SQL_FOLDER"] == given["HOLDFAST_FLEET"], name


def test_a_fleet_is_looked_for_in_all_namespaces_of_jobs(render: Render) -> None:
    for _, pod in _pods(render(CHART, FLEET | SEVERAL)):
        assert _fleet_variables(pod)["HOLDFAST_FLEET_NAMESPACES"] == "tables,sales,web"


def test_a_fleet_may_be_looked_at_by_hand_only(render: Render) -> None:
    values = {"fleet": {"configMap": "jobs", "schedule": ""}}
    for _, pod in _pods(render(CHART, values)):
        assert _fleet_variables(pod)["HOLDFAST_FLEET_SCHEDULE"] == ""


def test_without_a_fleet_nothing_of_it_is_there(render: Render) -> None:
    for _, pod in _pods(render(CHART)):
        assert _fleet_variables(pod) == {}
        assert "fleet" not in {v["name"] for v in pod["volumes"]}


def _of_namespace(manifests: list[Manifest], namespace: str) -> dict[str, Any]:
    """Accounts of a namespace of jobs, Roles with their rules, bindings with their subjects."""
    return {
        f"{m['kind']}/{m['metadata']['name']}": m.get("rules") or m.get("subjects")
        for m in manifests
        if m["metadata"].get("namespace") == namespace
    }


def test_every_namespace_of_jobs_gets_the_same(render: Render) -> None:
    manifests = render(CHART, SEVERAL, namespace=HERE)
    first = _of_namespace(manifests, JOBS)
    assert {"Role/airflow", "Role/holdfast-deployer", "Role/holdfast-chaos"} <= set(first)
    assert {"ServiceAccount/holdfast-task", "ServiceAccount/holdfast-compaction"} <= set(first)
    for namespace in MORE:
        there = _of_namespace(manifests, namespace)
        assert there.keys() == first.keys()
        for name, given in first.items():
            if name.startswith("Role/"):
                assert there[name] == given, name
        of_airflow, of_helm = there["RoleBinding/airflow"], there["RoleBinding/holdfast-deployer"]
        assert [s["namespace"] for s in of_airflow] == [HERE]
        assert [s["namespace"] for s in of_helm] == [namespace]


def test_nothing_is_granted_for_the_whole_cluster(render: Render) -> None:
    manifests = render(CHART, SEVERAL, namespace=HERE)
    assert not [m for m in manifests if m["kind"].startswith("Cluster")]
    roles = {m["metadata"].get("namespace", HERE) for m in manifests if m["kind"] == "Role"}
    assert roles == {HERE, "brokers", JOBS, *MORE}


def test_what_the_namespaces_share_lets_all_of_them_in(render: Render) -> None:
    """Chaos reaches the broker, compaction its KafkaTopics, pods the schema registry."""
    named = {
        f"{m['kind']}/{m['metadata']['name']}": m for m in render(CHART, SEVERAL, namespace=HERE)
    }
    for binding in ("holdfast-chaos-platform", "holdfast-compaction"):
        subjects = named[f"RoleBinding/{binding}"]["subjects"]
        assert [s["namespace"] for s in subjects] == [JOBS, *MORE], binding
    (rule,) = named["NetworkPolicy/schema-registry"]["spec"]["ingress"]
    who = [
        f["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for f in rule["from"]
    ]
    assert who == [HERE, JOBS, *MORE]


def test_a_namespace_that_is_named_twice_gets_it_once(render: Render) -> None:
    manifests = render(CHART, {"jobs": {"moreNamespaces": ["holdfast"]}}, namespace=HERE)
    found = [(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in manifests]
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"jobs": {"moreNamespaces": ["A B"]}}, "/jobs/moreNamespaces/0"),
        ({"jobs": {"moreNamespaces": "sales"}}, "/jobs/moreNamespaces"),
        ({"fleet": {"configMap": "A B"}}, "/fleet/configMap"),
        ({"fleet": {"folder": "/jobs"}}, "folder"),
    ],
)
def test_what_makes_no_sense_is_refused(
    refused: Refused, values: dict[str, Any], words: str
) -> None:
    assert words in refused(CHART, values)
