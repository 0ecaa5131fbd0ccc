"""The schema registry of the platform chart: off unless asked for, and whose address goes where."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.helm.conftest import CHARTS, Manifest, Refused, Render

CHART = "holdfast-platform"
NAMESPACE = "platform-of-tests"
ON: dict[str, Any] = {"enabled": True}
URL = f"http://schema-registry.{NAMESPACE}.svc:8081/apis/ccompat/v7"


def _named(render: Render, values: dict[str, Any]) -> dict[str, Manifest]:
    manifests = render(CHART, values, namespace=NAMESPACE)
    return {f"{m['kind']}/{m['metadata']['name']}": m for m in manifests}


def _pod(manifests: dict[str, Manifest]) -> dict[str, Any]:
    pod: dict[str, Any] = manifests["Deployment/schema-registry"]["spec"]["template"]["spec"]
    return pod


def _settings(render: Render, values: dict[str, Any]) -> dict[str, str]:
    (container,) = _pod(_named(render, values))["containers"]
    (lines,) = (e["value"] for e in container["env"] if e["name"] == "REGISTRY_SETTINGS")
    return dict(line.split("=", 1) for line in lines.splitlines())


def _told(manifests: dict[str, Manifest]) -> dict[str, str | None]:
    """By component of Airflow, the address that its DAGs give to jobs."""
    found = {}
    for name, manifest in manifests.items():
        if "airflow" in name and "template" in manifest.get("spec", {}):
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            environment = {e["name"]: e.get("value") for e in container["env"]}
            found[name] = environment.get("HOLDFAST_SCHEMA_REGISTRY_URL")
    return found


def test_without_it_nothing_is_there_and_nobody_is_told(render: Render) -> None:
    manifests = _named(render, {})
    assert not [name for name in manifests if "schema-registry" in name]
    assert set(_told(manifests).values()) == {None}


def test_all_of_airflow_is_told_where_it_listens(render: Render) -> None:
    manifests = _named(render, {"schemaRegistry": ON})
    assert len(_told(manifests)) == 4
    assert set(_told(manifests).values()) == {URL}
    service = manifests["Service/schema-registry"]["spec"]
    (port,) = service["ports"]
    (container,) = _pod(manifests)["containers"]
    labels = manifests["Deployment/schema-registry"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert [p["containerPort"] for p in container["ports"]] == [port["port"]] == [8081]


def test_pods_of_jobs_may_call_its_port_by_default(render: Render) -> None:
    """Policies are about pods' ports, not about Services'."""
    policy = _named(render, {"schemaRegistry": ON, "jobs": {"namespace": "tables"}})[
        "NetworkPolicy/schema-registry"
    ]["spec"]
    (rule,) = policy["ingress"]
    assert policy["policyTypes"] == ["Ingress"]
    who = [f["namespaceSelector"]["matchLabels"] for f in rule["from"]]
    assert who == [{"kubernetes.io/metadata.name": n} for n in (NAMESPACE, "tables")]
    chart = yaml.safe_load((CHARTS / "holdfast/values.yaml").read_text(encoding="utf-8"))
    assert {p["port"] for p in rule["ports"]} <= set(chart["networkPolicy"]["registryPorts"])


def test_its_schemas_are_in_the_kafka_of_the_jobs(render: Render) -> None:
    servers = "apicurio.kafkasql.bootstrap.servers"
    own = _settings(render, {"schemaRegistry": ON})
    assert own == {servers: f"kafka.{NAMESPACE}.svc:9092"}
    jobs = {"bootstrapServers": "elsewhere:9092"}
    tls = {"tls": {"enabled": True, "clientCertificates": True}}
    others = _settings(render, {"schemaRegistry": ON, "jobs": jobs, "kafka": tls})
    assert others == {servers: "elsewhere:9092"}, "the platform's authority is not theirs"


def test_a_setting_of_the_user_comes_last_and_so_wins(render: Render) -> None:
    settings = {"apicurio.kafkasql.bootstrap.servers": "mine:9092", "quarkus.log.level": "WARN"}
    found = _settings(render, {"schemaRegistry": {**ON, "settings": settings}})
    assert found == settings


def test_with_tls_it_has_the_authority_and_no_key(render: Render) -> None:
    values = {"schemaRegistry": ON, "kafka": {"tls": {"enabled": True}}}
    (volume,) = (v for v in _pod(_named(render, values))["volumes"] if v["name"] == "tls")
    assert volume["secret"]["secretName"] == "kafka-tls"
    assert [item["key"] for item in volume["secret"]["items"]] == ["ca.crt"]
    found = _settings(render, values)
    assert found["apicurio.kafka.common.security.protocol"] == "SSL"
    assert found["apicurio.kafka.common.ssl.endpoint.identification.algorithm"] == "https", (
        "Apicurio asks for no name unless told to"
    )
    location = found["apicurio.kafka.common.ssl.truststore.location"]
    (container,) = _pod(_named(render, values))["containers"]
    assert location.removesuffix("/ca.crt") in [m["mountPath"] for m in container["volumeMounts"]]


def test_kafka_being_away_is_no_reason_for_a_restart(render: Render) -> None:
    """A new pod would have to read from the Kafka that is away."""
    (container,) = _pod(_named(render, {"schemaRegistry": ON}))["containers"]
    paths = {p: container[f"{p}Probe"]["httpGet"]["path"] for p in ("startup", "liveness")}
    assert paths["startup"] == "/health/ready", "before that it serves some of its schemas"
    assert "health" not in paths["liveness"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"schemaRegistry": {"enabled": "yes"}}, "enabled"),
        ({"schemaRegistry": {"replicas": 2}}, "replicas"),
        ({"schemaRegistry": {"settings": {"a": [1]}}}, "settings"),
        (
            {"schemaRegistry": ON, "kafka": {"tls": {"enabled": True, "clientCertificates": True}}},
            "needs kafka.tls.clientCertificates=false",
        ),
        ({"schemaRegistry": ON, "kafka": {"enabled": False}}, "jobs.bootstrapServers is required"),
    ],
)
def test_what_cannot_work_is_refused(refused: Refused, values: dict[str, Any], words: str) -> None:
    assert words in refused(CHART, values)
