"""The platform chart: what it makes, what it lets nobody do, what it refuses."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.helm.conftest import CHARTS, HELM, Manifest, Refused, Render

CHART = "holdfast-platform"
WORKLOADS = {
    "Deployment/airflow-api-server",
    "Deployment/airflow-dag-processor",
    "Job/holdfast-platform-init",
    "StatefulSet/airflow-scheduler",
    "StatefulSet/airflow-triggerer",
    "StatefulSet/kafka",
    "StatefulSet/postgresql",
}
EVERYTHING = {"schemaRegistry": {"enabled": True}}
"""Values that leave out no component."""


def _named(manifests: list[Manifest]) -> dict[str, Manifest]:
    return {f"{m['kind']}/{m['metadata']['name']}": m for m in manifests}


def _pods(manifests: list[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, manifest in _named(manifests).items():
        if "template" in manifest.get("spec", {}):
            yield name, manifest["spec"]["template"]["spec"]


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def _environment(container: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e["value"] for e in container["env"] if "value" in e}


def _broker_settings(manifests: list[Manifest]) -> dict[str, str]:
    lines = _named(manifests)["ConfigMap/kafka"]["data"]["settings"].splitlines()
    return dict(line.split("=", 1) for line in lines)


def _grants(role: Manifest) -> set[tuple[str, str]]:
    return {(r, v) for rule in role["rules"] for r in rule["resources"] for v in rule["verbs"]}


def test_airflow_may_lock_jobs_where_they_are(render: Render) -> None:
    role = next(
        m for m in render(CHART)
        if m["kind"] == "Role" and m["metadata"]["name"] == "airflow"
        and m["metadata"]["namespace"] == "holdfast"
    )  # fmt: skip
    assert {("leases", verb) for verb in ("get", "create", "update", "delete")} <= _grants(role)


def test_helm_finds_nothing_to_complain_about() -> None:
    command = [HELM, "lint", "--strict", str(CHARTS / CHART)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_it_makes_kafka_postgresql_and_all_of_airflow(render: Render) -> None:
    assert {name for name, _ in _pods(render(CHART))} == WORKLOADS


def test_kafka_alone_needs_no_database_and_no_rights(render: Render) -> None:
    manifests = render(CHART, {"airflow": {"enabled": False}})
    assert {name for name, _ in _pods(manifests)} == {"StatefulSet/kafka"}
    assert not {m["kind"] for m in manifests} & {"Role", "RoleBinding", "Secret", "ServiceAccount"}


def test_every_pod_passes_the_restricted_standard(render: Render) -> None:
    checked = 0
    for name, pod in _pods(render(CHART, EVERYTHING)):
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", name
        for container in _containers(pod):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["readOnlyRootFilesystem"] is True, name
            assert security["capabilities"] == {"drop": ["ALL"]}, name
            checked += 1
        kinds = {kind for v in pod["volumes"] for kind in v if kind != "name"}
        assert kinds <= {"configMap", "emptyDir", "persistentVolumeClaim"}, name
    assert checked == 12, "eight containers, and the four that wait for the database"


def test_every_container_has_requests_and_a_limit_of_memory(render: Render) -> None:
    for name, pod in _pods(render(CHART, EVERYTHING)):
        for container in _containers(pod):
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}, name
            assert "memory" in container["resources"]["limits"], name


def test_the_requests_leave_room_for_a_job_on_two_cores(render: Render) -> None:
    """The Job has ended when the others begin."""
    staying = [pod for name, pod in _pods(render(CHART)) if not name.startswith("Job/")]
    requests = [pod["containers"][0]["resources"]["requests"] for pod in staying]
    assert sum(int(r["cpu"].removesuffix("m")) for r in requests) <= 200
    assert sum(int(r["memory"].removesuffix("Mi")) for r in requests) <= 2304


def test_every_container_is_probed(render: Render) -> None:
    for name, pod in _pods(render(CHART, EVERYTHING)):
        for container in pod["containers"]:
            probed = {"readinessProbe", "livenessProbe"} <= set(container)
            assert probed != name.startswith("Job/"), name


def test_only_what_talks_to_kubernetes_has_a_token(render: Render) -> None:
    pods = _pods(render(CHART, EVERYTHING))
    with_token = {name for name, pod in pods if pod["automountServiceAccountToken"]}
    assert with_token == {
        "Job/holdfast-platform-init",
        "StatefulSet/airflow-scheduler",
        "StatefulSet/airflow-triggerer",
    }


def test_airflow_has_rights_over_pods_in_the_jobs_namespace_and_nowhere_else(
    render: Render,
) -> None:
    values = {"jobs": {"namespace": "tables"}, "chaos": {"enabled": False}}
    manifests = render(CHART, values, namespace="platform")
    roles = [m for m in manifests if m["kind"] in ("Role", "RoleBinding")
             and m["metadata"]["name"] != "holdfast-platform-init"]  # fmt: skip
    assert {m["metadata"]["namespace"] for m in roles} == {"tables"}
    assert not [m for m in manifests if m["kind"].startswith("Cluster")]
    named = _named(manifests)
    resources = {resource for resource, _ in _grants(named["Role/airflow"])}
    assert resources == {"pods", "pods/log", "pods/exec", "events", "leases"}
    assert named["RoleBinding/airflow"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "airflow", "namespace": "platform"}
    ]


def test_the_deployer_may_make_all_that_the_jobs_chart_makes(render: Render) -> None:
    granted = _grants(_named(render(CHART))["Role/holdfast-deployer"])
    job = {
        "sql": "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;",
        "kafka": {"bootstrapServers": "kafka:9092"},
        "podMonitor": {"enabled": True},
        "dashboard": {"enabled": True},
        "serve": {"enabled": True, "auth": {"insecure": True}, "console": {"pods": True}},
    }
    made = render("holdfast", job)
    kinds = {m["kind"] for m in made if "helm.sh/hook" not in m["metadata"].get("annotations", {})}
    assert {"StatefulSet", "Service", "Role"} <= kinds
    for resource in (_plural(kind) for kind in kinds):
        for verb in ("get", "create", "patch", "delete"):
            assert (resource, verb) in granted
    # Kubernetes lets nobody grant what he does not have himself.
    for role in (m for m in made if m["kind"] == "Role"):
        assert _grants(role) <= granted


CHAOS_RIGHTS = {
    *(("namespaces", "get"), ("pods/ephemeralcontainers", "patch")),
    *(("pods", verb) for verb in ("get", "list", "delete")),
    *(("pods/exec", verb) for verb in ("get", "create")),
    *(("persistentvolumeclaims", verb) for verb in ("get", "delete")),
    *(("networkpolicies", verb) for verb in ("get", "list", "create", "patch", "delete")),
}


def test_chaos_may_break_pods_of_jobs_and_do_nothing_else(render: Render) -> None:
    named = _named(render(CHART, {"jobs": {"namespace": "tables"}}, namespace="platform"))
    role, binding = named["Role/holdfast-chaos"], named["RoleBinding/holdfast-chaos"]
    assert {m["metadata"]["namespace"] for m in (role, binding)} == {"tables"}
    assert _grants(role) == CHAOS_RIGHTS
    account = {"kind": "ServiceAccount", "name": "holdfast-chaos", "namespace": "tables"}
    assert binding["subjects"] == [account]
    assert named["RoleBinding/holdfast-chaos-platform"]["subjects"] == [account]


@pytest.mark.parametrize("brokers", [1, 3])
def test_of_the_platform_chaos_may_touch_broker_and_scheduler_only(
    render: Render, brokers: int
) -> None:
    manifests = render(CHART, {"kafka": {"brokers": brokers}})
    role = _named(manifests)["Role/holdfast-chaos-platform"]
    victims = {f"kafka-{n}" for n in range(brokers)} | {"airflow-scheduler-0"}
    for rule in role["rules"]:
        anywhere = (rule["resources"], rule["verbs"]) == (["pods"], ["list"])
        assert anywhere or set(rule["resourceNames"]) == victims
    assert _targets(manifests) == {
        "StatefulSet/kafka": "broker",
        "StatefulSet/airflow-scheduler": "scheduler",
    }


def test_without_chaos_nothing_is_labelled_and_nobody_may(render: Render) -> None:
    manifests = render(CHART, {"chaos": {"enabled": False}})
    assert _targets(manifests) == {}
    assert not [name for name in _named(manifests) if "chaos" in name]


def test_who_plans_compaction_has_no_rights_without_strimzi(render: Render) -> None:
    named = _named(render(CHART, {"jobs": {"namespace": "tables"}}))
    account = named["ServiceAccount/holdfast-compaction"]
    assert account["metadata"]["namespace"] == "tables"
    assert account["automountServiceAccountToken"] is False
    assert "Role/holdfast-compaction" not in named


def test_with_strimzi_it_may_read_and_patch_kafka_topics_and_nothing_else(render: Render) -> None:
    strimzi = {"enabled": True, "namespace": "brokers"}
    values = {"jobs": {"namespace": "tables"}, "compaction": {"strimzi": strimzi}}
    manifests = render(CHART, values)
    named = _named(manifests)
    role, binding = named["Role/holdfast-compaction"], named["RoleBinding/holdfast-compaction"]
    assert {m["metadata"]["namespace"] for m in (role, binding)} == {"brokers"}
    assert role["rules"] == [
        {
            "apiGroups": ["kafka.strimzi.io"],
            "resources": ["kafkatopics"],
            "verbs": ["get", "list", "patch"],
        }
    ]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "holdfast-compaction", "namespace": "tables"}
    ]
    for name, pod in _pods(manifests):
        if "airflow" in name:
            environment = _environment(pod["containers"][0])
            assert environment["HOLDFAST_STRIMZI_NAMESPACE"] == "brokers"


def _processor(render: Render, values: dict[str, Any]) -> dict[str, str]:
    pods = dict(_pods(render(CHART, values)))
    return _environment(pods["Deployment/airflow-dag-processor"]["containers"][0])


def test_surveys_come_when_they_are_asked_for_and_as(render: Render) -> None:
    def processor(values: dict[str, Any]) -> dict[str, str]:
        return _processor(render, {"compaction": values})

    assert processor({})["HOLDFAST_COMPACTION_SCHEDULE"] == "0 4 * * 0"
    assert "HOLDFAST_COMPACTION_PARAMS" not in processor({})
    assert processor({"schedule": ""})["HOLDFAST_COMPACTION_SCHEDULE"] == ""
    assert processor({"enabled": False})["HOLDFAST_COMPACTION_SCHEDULE"] == ""
    params = {"target_restore_s": 60, "jobs": ["movies"]}
    assert json.loads(processor({"params": params})["HOLDFAST_COMPACTION_PARAMS"]) == params


def test_without_compaction_there_is_nothing_of_it(render: Render) -> None:
    manifests = render(CHART, {"compaction": {"enabled": False}})
    assert not [name for name in _named(manifests) if "compaction" in name]


def test_the_daily_run_is_off_until_it_has_a_job(render: Render) -> None:
    assert "HOLDFAST_CHAOS_JOB" not in _processor(render, {})
    daily = {"job": "movies", "confirm": "movies", "params": {"ask": "none"}}
    given = _processor(render, {"chaos": {"daily": daily}})
    found = [given[f"HOLDFAST_CHAOS_{name}"] for name in ("JOB", "CONFIRM", "PARAMS")]
    assert found == ["movies", "movies", '{"ask":"none"}']


def _targets(manifests: list[Manifest]) -> dict[str, str]:
    found = {
        name: m["spec"]["template"]["metadata"]["labels"].get("holdfast/chaos-target")
        for name, m in _named(manifests).items()
        if "template" in m.get("spec", {})
    }
    return {name: target for name, target in found.items() if target}


def _plural(kind: str) -> str:
    return "networkpolicies" if kind == "NetworkPolicy" else f"{kind.lower()}s"


def test_nobody_is_granted_everything_or_may_become_another(render: Render) -> None:
    for role in (m for m in render(CHART) if m["kind"] == "Role"):
        for resource, verb in _grants(role):
            assert "*" not in (resource, verb)
            assert verb not in ("escalate", "bind", "impersonate")


@pytest.mark.parametrize(("brokers", "replicas", "insync"), [(1, "1", "1"), (3, "3", "2")])
def test_replication_follows_the_number_of_brokers(
    render: Render, brokers: int, replicas: str, insync: str
) -> None:
    manifests = render(CHART, {"kafka": {"brokers": brokers}})
    settings = _broker_settings(manifests)
    for topic in ("default", "offsets.topic", "transaction.state.log"):
        assert settings[f"{topic}.replication.factor"] == replicas
    assert settings["min.insync.replicas"] == insync
    assert settings["transaction.state.log.min.isr"] == insync
    voters = _named(manifests)["ConfigMap/kafka"]["data"]["voters"]
    assert voters == ",".join(f"{n}@kafka-{n}:9093" for n in range(brokers))
    addresses = [m for m in _named(manifests) if re.fullmatch(r"Service/kafka-\d", m)]
    assert len(addresses) == brokers


def test_a_setting_of_the_user_comes_last_and_so_wins(render: Render) -> None:
    manifests = render(CHART, {"kafka": {"settings": {"min.insync.replicas": 7}}})
    assert _broker_settings(manifests)["min.insync.replicas"] == "7"


def test_a_cluster_keeps_its_id(render: Render) -> None:
    ids = {_named(render(CHART))["ConfigMap/kafka"]["data"]["cluster-id"] for _ in range(2)}
    assert len(ids) == 1
    assert len(base64.urlsafe_b64decode(ids.pop() + "==")) == 16


def test_tasks_learn_where_things_are(render: Render) -> None:
    values = {"image": {"tag": "1.2"}, "jobs": {"namespace": "tables"}}
    for name, pod in _pods(render(CHART, values, namespace="platform")):
        if "airflow" not in name:
            continue
        environment = _environment(pod["containers"][0])
        assert environment["HOLDFAST_IMAGE"] == "holdfast:1.2"
        assert environment["HOLDFAST_NAMESPACE"] == "tables"
        assert environment["HOLDFAST_BOOTSTRAP_SERVERS"] == "kafka.platform.svc:9092"
        extra = json.loads(environment["AIRFLOW_CONN_KUBERNETES_DEFAULT"])["extra"]
        assert extra["xcom_sidecar_container_image"] == "holdfast:1.2"
        assert extra["in_cluster"] is True
        assert extra["namespace"] == "tables"


def test_the_users_own_airflow_settings_win(render: Render) -> None:
    values = {"airflow": {"config": {"AIRFLOW__CORE__PARALLELISM": "9"}}}
    scheduler = dict(_pods(render(CHART, values)))["StatefulSet/airflow-scheduler"]
    names = [e["name"] for e in scheduler["containers"][0]["env"]]
    assert names.count("AIRFLOW__CORE__PARALLELISM") == 1
    assert _environment(scheduler["containers"][0])["AIRFLOW__CORE__PARALLELISM"] == "9"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kafka": {"brokres": 3}}, "brokres"),
        ({"kafka": {"brokers": 2}}, "/kafka/brokers"),
        ({"kafka": {"resources": {"limit": {}}}}, "limit"),
        ({"kafka": {"volume": {"size": "ten"}}}, "/kafka/volume/size"),
        ({"airflow": {"config": {"PARALLELISM": "1"}}}, "PARALLELISM"),
        ({"airflow": {"scheduler": {"replicas": 2}}}, "replicas"),
        ({"jobs": {"bootstrapServers": "kafka"}}, "/jobs/bootstrapServers"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"chaos": {"daily": {"job": "My Job"}}}, "/chaos/daily/job"),
        ({"compaction": {"strimzi": {"namespace": "A B"}}}, "/compaction/strimzi/namespace"),
        ({"kafka": {"enabled": False}}, "jobs.bootstrapServers is required"),
    ],
)
def test_values_that_mean_nothing_are_refused(
    refused: Refused, values: dict[str, Any], words: str
) -> None:
    assert words in refused(CHART, values)


def _open_objects(schema: Any, path: str = "") -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _open_objects(item, path)
    elif isinstance(schema, dict):
        if "properties" in schema and schema.get("additionalProperties") is not False:
            yield path
        for key, value in schema.items():
            yield from _open_objects(value, f"{path}/{key}")


def test_the_schema_is_closed_at_every_level() -> None:
    schema = json.loads((CHARTS / CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert list(_open_objects(schema)) == []


def _leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{path}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{key}.")


def test_the_schema_knows_every_value() -> None:
    schema = json.loads((CHARTS / CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHARTS / CHART / "values.yaml").read_text(encoding="utf-8"))
    for leaf in _leaves(values):
        assert _known(schema, schema, leaf.split(".")), leaf


def _known(root: dict[str, Any], schema: dict[str, Any], path: list[str]) -> bool:
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if not path:
        return True
    child = schema.get("properties", {}).get(path[0])
    return child is not None and _known(root, child, path[1:])


def test_the_broker_image_has_the_jars_of_the_version_that_holdfast_knows() -> None:
    from holdfast.config.jar_sums import jar_sums
    from holdfast.config.versions import KAFKA_VERSION, LOG4J_VERSION, SCALA_VERSION

    jars = jar_sums()
    assert f"kafka_{SCALA_VERSION}-{KAFKA_VERSION}.jar" in jars
    assert f"log4j-slf4j-impl-{LOG4J_VERSION}.jar" in jars
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in jars.values())
