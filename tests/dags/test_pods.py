"""The pods that tasks run in must be allowed in a namespace of pod security `restricted`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from kubernetes.client import ApiClient

from holdfast_airflow import steps
from holdfast_airflow.chaos import ChaosOperator
from holdfast_airflow.compaction import CompactionOperator
from holdfast_airflow.operator import HoldfastOperator
from holdfast_airflow.request import Request

STEPS = [steps.CHECK, steps.TOPICS, steps.DEPLOY, steps.SMOKE, steps.ROLL_BACK]
CHAOS_STEPS = [
    steps.PRECHECK, steps.BASELINE, steps.WORKLOAD, steps.NEMESIS,
    steps.HEAL, steps.QUIESCE, steps.VERIFY, steps.REPORT,
]  # fmt: skip
COMPACTION_STEPS = [
    steps.REPAIR, steps.SURVEY, steps.PLAN, steps.APPLY, steps.VERIFY_COMPACTION,
]  # fmt: skip
KAFKA = {
    "properties": {"security.protocol": "SASL_SSL"},
    "secretProperties": {"sasl.password": {"name": "kafka-user", "key": "password"}},
    "tls": {"existingSecret": "kafka-ca"},
}


def _pod(operator: KubernetesPodOperator) -> dict[str, Any]:
    built = operator.build_pod_request_obj(dry_run=True)
    pod: dict[str, Any] = ApiClient().sanitize_for_serialization(built)
    return pod


def _pod_of(step: steps.Step, params: dict[str, Any]) -> dict[str, Any]:
    operator = HoldfastOperator(task_id=step.name, step=step)
    operator.prepare_pod(Request.of({**params, "target": "kubernetes"}))
    return _pod(operator)


def _chaos_pod(step: steps.Step, params: dict[str, Any]) -> dict[str, Any]:
    operator = ChaosOperator(task_id=step.name, step=step)
    operator.prepare_pod(Request.of(params, "run-1"))
    return _pod(operator)


def _compaction_pod(step: steps.Step, params: dict[str, Any]) -> dict[str, Any]:
    operator = CompactionOperator(task_id=step.name, step=step)
    operator.prepare_pod(Request.of(params, "run-1"))
    return _pod(operator)


def _shares(pod: dict[str, Any], claim: str, folder: str) -> bool:
    """Whether a pod has the claim as this folder, and is on the node of the others that do."""
    spec = pod["spec"]
    mounted = {"name": "runs", "mountPath": folder} in spec["containers"][0]["volumeMounts"]
    claims = [v["persistentVolumeClaim"] for v in spec["volumes"] if "persistentVolumeClaim" in v]
    (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    wanted = term["labelSelector"]["matchLabels"].items()
    # The first one has to find itself.
    beside = wanted <= pod["metadata"]["labels"].items() and ("holdfast/volume", claim) in wanted
    return mounted and claims == [{"claimName": claim}] and beside


def _violations(pod: dict[str, Any]) -> Iterator[str]:
    """A pod's violations of the pod security standard `restricted`."""
    spec = pod["spec"]
    security = spec.get("securityContext", {})
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "seccompProfile"
    if not security.get("runAsNonRoot") or security.get("runAsUser") == 0:
        yield "runAsNonRoot"
    allowed = {"emptyDir", "projected", "secret", "persistentVolumeClaim"}
    if any(allowed.isdisjoint(volume) for volume in spec.get("volumes", [])):
        yield "volumes"
    for container in spec["containers"]:
        own = container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{container['name']}: allowPrivilegeEscalation"
        if own.get("capabilities") != {"drop": ["ALL"]}:
            yield f"{container['name']}: capabilities"


def test_the_check_of_these_tests_can_fail() -> None:
    pod = _pod(KubernetesPodOperator(task_id="plain", image="i", do_xcom_push=True))
    assert len(list(_violations(pod))) == 6


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_pods_are_restricted(step: steps.Step, params: dict[str, Any]) -> None:
    pod = _pod_of(step, params)
    assert list(_violations(pod)) == []
    for container in pod["spec"]["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert {"requests", "limits"} <= set(container["resources"])
        assert container["image"] == params["image"], "one image is enough, the sidecar's as well"


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_only_pods_that_run_helm_may_talk_to_kubernetes(
    step: steps.Step, params: dict[str, Any]
) -> None:
    spec = _pod_of(step, params)["spec"]
    helm = step in {steps.DEPLOY, steps.ROLL_BACK}
    assert spec["automountServiceAccountToken"] is helm
    assert spec["serviceAccountName"] == ("holdfast-deployer" if helm else "holdfast-task")


@pytest.mark.parametrize("step", CHAOS_STEPS, ids=lambda step: step.name)
def test_pods_of_a_chaos_run_are_restricted_and_share_a_volume(
    step: steps.Step, chaos_params: dict[str, Any]
) -> None:
    pod = _chaos_pod(step, chaos_params)
    assert list(_violations(pod)) == []
    assert _shares(pod, "holdfast-chaos", "/var/lib/holdfast-chaos")


def test_a_table_s_name_becomes_one_that_pods_may_have(chaos_params: dict[str, Any]) -> None:
    meta = _chaos_pod(steps.PRECHECK, {**chaos_params, "name": "Tickets_Sold"})["metadata"]
    assert meta["name"].startswith("tickets-sold-precheck")
    assert meta["labels"]["holdfast/job"] == "Tickets_Sold"


@pytest.mark.parametrize("step", COMPACTION_STEPS, ids=lambda step: step.name)
def test_pods_that_plan_a_compaction_are_restricted_and_share_a_volume(
    step: steps.Step, compaction_params: dict[str, Any]
) -> None:
    pod = _compaction_pod(step, {**compaction_params, "values": {"kafka": KAFKA}})
    assert list(_violations(pod)) == []
    assert _shares(pod, "holdfast-compaction", "/var/lib/holdfast-compaction")
    variables = {variable["name"] for variable in pod["spec"]["containers"][0]["env"]}
    assert "HOLDFAST_KAFKA_SASL_PASSWORD_FILE" in variables


@pytest.mark.parametrize("strimzi", ["kafka", None])
@pytest.mark.parametrize("step", COMPACTION_STEPS, ids=lambda step: step.name)
def test_a_compaction_talks_to_kubernetes_only_about_kafka_topics(
    step: steps.Step, strimzi: str | None, compaction_params: dict[str, Any]
) -> None:
    spec = _compaction_pod(step, {**compaction_params, "strimzi_namespace": strimzi})["spec"]
    assert spec["serviceAccountName"] == "holdfast-compaction"
    assert spec["automountServiceAccountToken"] is (bool(strimzi) and step is not steps.PLAN)


def test_what_has_something_to_take_back_is_given_the_time(
    compaction_params: dict[str, Any],
) -> None:
    pods = {s.name: _compaction_pod(s, compaction_params)["spec"] for s in COMPACTION_STEPS}
    assert pods["apply"]["terminationGracePeriodSeconds"] >= 120
    assert pods["survey"]["terminationGracePeriodSeconds"] < 60


@pytest.mark.parametrize("step", CHAOS_STEPS, ids=lambda step: step.name)
def test_only_steps_that_look_at_pods_may_touch_them(
    step: steps.Step, chaos_params: dict[str, Any]
) -> None:
    spec = _chaos_pod(step, chaos_params)["spec"]
    looking = {steps.PRECHECK, steps.BASELINE, steps.VERIFY}
    breaker = step in {steps.NEMESIS, steps.HEAL, *looking}
    assert spec["automountServiceAccountToken"] is breaker
    assert spec["serviceAccountName"] == ("holdfast-chaos" if breaker else "holdfast-task")


def test_a_sidecar_ends_with_its_pod(params: dict[str, Any]) -> None:
    sidecar = _pod_of(steps.CHECK, params)["spec"]["containers"][1]
    assert 'trap "exit 0" INT TERM;' in sidecar["command"][2]


SERVE = {
    "enabled": True,
    "auth": {"existingSecret": "who-may", "testTokenKey": "smoke"},
    "tls": {"existingSecret": "serve-tls"},
}


def test_of_a_chaos_run_those_have_the_query_servers_token_that_ask_them(
    chaos_params: dict[str, Any],
) -> None:
    having = set()
    for step in CHAOS_STEPS:
        pod = _chaos_pod(step, {**chaos_params, "values": {"serve": SERVE}})
        names = {variable["name"] for variable in pod["spec"]["containers"][0]["env"]}
        having |= {step.name} if "HOLDFAST_CLI_SERVER_TOKEN" in names else set()
    assert having == {"precheck", "workload"}


def test_only_the_smoke_check_has_the_query_servers_token(params: dict[str, Any]) -> None:
    given = {**params, "values": {"serve": SERVE}}
    base = _pod_of(steps.SMOKE, given)["spec"]["containers"][0]
    token = next(v for v in base["env"] if v["name"] == "HOLDFAST_CLI_SERVER_TOKEN")
    assert token["valueFrom"] == {"secretKeyRef": {"name": "who-may", "key": "smoke"}}
    mount = {"name": "serve-tls", "mountPath": "/etc/holdfast/serve-tls", "readOnly": True}
    assert mount in base["volumeMounts"]
    other = _pod_of(steps.DEPLOY, given)["spec"]["containers"][0]
    assert not [v for v in other["env"] if v["name"] == "HOLDFAST_CLI_SERVER_TOKEN"]
    assert mount not in other["volumeMounts"]


def test_statements_are_arguments_never_part_of_a_script(params: dict[str, Any]) -> None:
    sql = "SELECT '$(id)', \"`id`\", {{ x }}; --"
    base = _pod_of(steps.DEPLOY, {**params, "sql": sql})["spec"]["containers"][0]
    assert f"--sql={sql}" in base["args"]
    assert not any("$(id)" in part for part in base["command"])


def test_a_task_pod_reaches_kafka_the_way_the_job_does(params: dict[str, Any]) -> None:
    spec = _pod_of(steps.CHECK, {**params, "values": {"kafka": KAFKA}})["spec"]
    base = spec["containers"][0]
    variables = {variable["name"]: variable for variable in base["env"]}
    assert variables["HOLDFAST_KAFKA_SECURITY_PROTOCOL"]["value"] == "SASL_SSL"
    password = variables["HOLDFAST_KAFKA_SASL_PASSWORD_FILE"]["value"]
    assert password == "/etc/holdfast/secrets/sasl.password"
    assert not [v for v in base["env"] if "valueFrom" in v and "secretKeyRef" in v["valueFrom"]]
    mounts = {mount["name"]: mount["mountPath"] for mount in base["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert mounts["kafka-secrets"] == "/etc/holdfast/secrets"
    items = [{"key": "password", "path": "sasl.password"}]
    assert volumes["kafka-secrets"]["projected"]["sources"] == [
        {"secret": {"name": "kafka-user", "items": items}}
    ]
    assert variables["HOLDFAST_KAFKA_SSL_CA_LOCATION"]["value"] == "/etc/holdfast/tls/ca.crt"
    assert {"name": "tls", "mountPath": "/etc/holdfast/tls", "readOnly": True} in (
        base["volumeMounts"]
    )
