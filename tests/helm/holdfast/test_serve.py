"""Query servers, as the chart makes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.cluster.selftest import command as selftest
from holdfast.cli.servers.serve import command
from holdfast.deploy.kubernetes.release_pods import PodsOfRelease
from holdfast.deploy.kubernetes.release_secrets import PEER_KEY
from holdfast.serve.cluster.members import Plan
from holdfast.serve.workers.pool import Workers
from tests.helm.conftest import CHARTS, Manifest, Refused, Render
from tests.helm.holdfast.examples import CHART, FULL, MINIMAL, SETS, containers, named
from tests.support.servers.kubernetes_api import in_a_pod
from tests.support.servers.release_cluster import Cluster, pod

_PROCESS_BYTES = 64 << 20  # what the chart counts for a process before its first statement


def _container(manifests: list[Manifest], name: str) -> dict[str, Any]:
    (found,) = containers(named(manifests)[f"StatefulSet/{name}"]["spec"]["template"])
    return found


def _options(arguments: list[str]) -> dict[str, Any]:
    """Parses the container's arguments as the command line does."""
    assert arguments[:2] == ["holdfast", "serve"]
    parsed = command.make_context("serve", list(arguments[2:]))
    return parsed.params


def test_there_are_none_unless_they_are_asked_for(render: Render) -> None:
    assert not [name for name in named(render(CHART, MINIMAL)) if "serve" in name]


@pytest.mark.parametrize("values", [SETS["serve"], FULL], ids=["open", "full"])
def test_the_command_line_takes_what_the_chart_gives(
    values: dict[str, Any], render: Render
) -> None:
    container = _container(render(CHART, values, name="movies"), "movies-serve")
    options = _options(container["args"])
    replicas = values["serve"].get("replicas", 2)
    plan = Plan.of(replicas - 1, options["servers"], options["copies"], options["peers"])
    scheme = "https" if "tls" in values["serve"] else "http"
    pods = [f"{scheme}://movies-serve-{n}.movies-serve-pods:8088" for n in range(replicas)]
    assert plan.addresses == tuple(pods)
    assert options["insecure"] == ("existingSecret" not in values["serve"]["auth"])
    mounted = [m["mountPath"] for m in container["volumeMounts"]]
    files = ("tokens", "peer_token_file", "tls_cert", "tls_key", "peer_ca", "config")
    for path in (options[name] for name in files if options[name] is not None):
        assert any(str(path).startswith(f"{place}/") for place in mounted)
    (number,) = [e for e in container["env"] if e["name"] == "HOLDFAST_CLI_SERVER_ID"]
    assert "pod-index" in number["valueFrom"]["fieldRef"]["fieldPath"]


def test_peers_are_found_before_they_are_ready_and_clients_only_after(render: Render) -> None:
    found = named(render(CHART, SETS["serve"], name="movies"))
    peers, clients = found["Service/movies-serve-pods"], found["Service/movies-serve"]
    assert peers["spec"]["clusterIP"] == "None"
    assert peers["spec"]["publishNotReadyAddresses"] is True
    assert "publishNotReadyAddresses" not in clients["spec"]
    stateful = found["StatefulSet/movies-serve"]["spec"]
    assert stateful["serviceName"] == "movies-serve-pods"
    labels = stateful["template"]["metadata"]["labels"]
    for service in (peers, clients, found["PodDisruptionBudget/movies-serve"]):
        selector = service["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels.items()


def test_volumes_outlive_their_pods(render: Render) -> None:
    stateful = named(render(CHART, FULL, name="movies"))["StatefulSet/movies-serve"]["spec"]
    kept = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert stateful["persistentVolumeClaimRetentionPolicy"] == kept
    (claim,) = stateful["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Ti"


def test_a_changed_statement_starts_no_server_anew(render: Render) -> None:
    def template(values: dict[str, Any]) -> Any:
        return named(render(CHART, values))["StatefulSet/tried-serve"]["spec"]["template"]

    values = SETS["serve"]
    changed = values | {"sql": values["sql"] + "-- more"}
    assert template(changed) == template(values)
    assert template(values | {"properties": {"state.partitions": 3}}) != template(values)


def test_clients_with_certificates_need_no_token(render: Render) -> None:
    tls = {"existingSecret": "certs", "clientCertificate": True}
    values = MINIMAL | {"serve": {"enabled": True, "tls": tls}}
    container = _container(render(CHART, values), "tried-serve")
    assert str(_options(container["args"])["client_ca"]).endswith("ca.crt")
    assert container["readinessProbe"].keys() == {"tcpSocket", "periodSeconds"}


def test_servers_know_each_other_by_a_secret_that_the_chart_makes_or_is_given(
    render: Render,
) -> None:
    for values in (SETS["serve"], FULL):
        found = named(render(CHART, values, name="movies"))
        container = _container(list(found.values()), "movies-serve")
        token = _options(container["args"])["peer_token_file"]
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == "auth"]
        assert str(token) == f"{mount['mountPath']}/peer-token"
        spec = found["StatefulSet/movies-serve"]["spec"]["template"]["spec"]
        (volume,) = [v for v in spec["volumes"] if v["name"] == "auth"]
        given, made = volume["secret"]["secretName"], found.get("Secret/movies-serve-peers")
        if values is FULL:
            assert (given, made) == ("readers", None)
        else:
            assert made is not None
            assert given == made["metadata"]["name"]
            assert "data" not in made, "the same in every rendering: the driver fills it"
            assert volume["secret"]["items"] == [{"key": PEER_KEY, "path": "peer-token"}]
            arguments = _container(list(found.values()), "movies-driver")["args"]
            assert f"--fill-peer-token={given}" in arguments
            rules = found["Role/movies-driver"]["rules"]
            of_it = [r["verbs"] for r in rules if r.get("resourceNames") == [given]]
            assert of_it == [["get", "patch"]]


def test_who_may_ask_must_be_said(refused: Refused) -> None:
    assert "who may ask" in refused(CHART, MINIMAL | {"serve": {"enabled": True}})
    tls = {"clientCertificate": True}
    values = MINIMAL | {"serve": {"enabled": True, "tls": tls}}
    assert "needs serve.tls.existingSecret" in refused(CHART, values)


def test_only_named_pods_may_ask(render: Render) -> None:
    policy = named(render(CHART, FULL, name="movies"))["NetworkPolicy/movies-serve"]["spec"]
    (from_all,) = [rule for rule in policy["ingress"] if rule.get("ports") == [{"port": 8088}]]
    assert from_all["from"] == FULL["networkPolicy"]["queriesFrom"]


@pytest.mark.parametrize(
    ("serve", "asked"),
    [
        ({"enabled": True, "auth": {"insecure": True}}, True),
        ({"enabled": True, "auth": {"existingSecret": "s", "testTokenKey": "t"}}, True),
        ({"enabled": True, "auth": {"existingSecret": "s"}}, False),
        ({"enabled": False}, False),
    ],
)
def test_helm_test_reads_tables_where_it_may(
    serve: dict[str, Any], asked: bool, render: Render
) -> None:
    (container,) = containers(named(render(CHART, MINIMAL | {"serve": serve}))["Pod/tried-test"])
    options = selftest.make_context("selftest", list(container["args"][2:])).params
    assert options["server"] == ("http://tried-serve:8088" if asked else None)
    token = [e for e in container.get("env", ()) if e["name"] == "HOLDFAST_CLI_SERVER_TOKEN"]
    assert bool(token) == ("testTokenKey" in serve.get("auth", {}))


def test_helm_test_checks_the_servers_certificate(render: Render) -> None:
    (container,) = containers(named(render(CHART, FULL, name="movies"))["Pod/movies-test"])
    options = selftest.make_context("selftest", list(container["args"][2:])).params
    assert options["server"] == "https://movies-serve:8088"
    mounted = [m["mountPath"] for m in container["volumeMounts"]]
    assert str(options["server_ca"].parent) in mounted


def test_prometheus_shows_a_token_where_one_is_asked_for(render: Render) -> None:
    monitor = named(render(CHART, FULL, name="movies"))["PodMonitor/movies-serve"]["spec"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "readers", "key": "test"}
    assert endpoint["scheme"] == "https"
    assert monitor["selector"]["matchLabels"]["app.kubernetes.io/component"] == "serve"


@pytest.mark.parametrize("values", [SETS["serve"], FULL], ids=["defaults", "full"])
def test_its_memory_is_enough_for_all_its_processes(values: dict[str, Any], render: Render) -> None:
    manifests = render(CHART, values, name="movies")
    text = named(manifests)["ConfigMap/movies"]["data"]["properties.yaml"]
    told = yaml.safe_load(text)
    defaults = yaml.safe_load((CHARTS / CHART / "values.yaml").read_text())["serve"]
    own = values["serve"].get("memoryMiB", defaults["memoryMiB"]) << 20
    processes = 2 * told["serve.query.threads"] + 1
    each = told["serve.query.memory.bytes"] + _PROCESS_BYTES
    limits = _container(manifests, "movies-serve")["resources"]["limits"]
    assert int(limits["memory"].removesuffix("Mi")) << 20 == own + processes * each
    assert limits.get("cpu") == values["serve"].get("resources", {}).get("limits", {}).get("cpu")


def test_a_process_begins_with_less_than_the_chart_counts() -> None:
    workers = Workers(1, 64 << 20, 30)
    try:
        pid = workers.call(os.getpid)
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    finally:
        workers.close()
    # Clean pages are of files: the kernel drops them under pressure, and maps more than were used.
    (private,) = (int(line.split()[1]) << 10 for line in lines if line.startswith("Private_Dirty"))
    assert 0 < private < _PROCESS_BYTES


@pytest.mark.parametrize(
    ("serve", "properties", "told"),
    [
        ({"resources": {"limits": {"memory": "1Gi"}}}, {}, "serve.memoryMiB"),
        ({}, {"serve.query.threads": 8}, "serve.query.threads"),
        ({}, {"serve.query.memory.bytes": 1 << 30}, "serve.query.processMemoryMiB"),
    ],
)
def test_its_memory_is_said_in_one_place(
    serve: dict[str, Any], properties: dict[str, Any], told: str, refused: Refused
) -> None:
    values = SETS["serve"]
    changed = values | {"serve": values["serve"] | serve, "properties": properties}
    assert told in refused(CHART, changed)


def _console(**more: Any) -> dict[str, Any]:
    serve = SETS["serve"]["serve"] | {"console": {"pods": True} | more}
    return SETS["serve"] | {"serve": serve}


def test_servers_have_no_account_unless_the_console_shows_pods(render: Render) -> None:
    found = named(render(CHART, SETS["serve"], name="movies"))
    assert "ServiceAccount/movies-serve" not in found
    assert "Role/movies-serve" not in found
    spec = found["StatefulSet/movies-serve"]["spec"]["template"]["spec"]
    assert (spec["automountServiceAccountToken"], "serviceAccountName" in spec) == (False, False)
    ports = _egress(found)
    assert 6443 not in ports


def _egress(found: dict[str, Manifest]) -> set[int]:
    rules = found["NetworkPolicy/movies-serve"]["spec"]["egress"]
    return {port["port"] for rule in rules for port in rule.get("ports", [])}


def test_the_console_s_account_reads_the_release_s_own_pods_by_name_and_lists_nothing(
    render: Render,
) -> None:
    found = named(render(CHART, _console(), name="movies"))
    spec = found["StatefulSet/movies-serve"]["spec"]["template"]["spec"]
    account, binding = found["ServiceAccount/movies-serve"], found["RoleBinding/movies-serve"]
    assert spec["serviceAccountName"] == account["metadata"]["name"]
    assert spec["automountServiceAccountToken"] is True
    assert [s["name"] for s in binding["subjects"]] == ["movies-serve"]
    sets, pods = found["Role/movies-serve"]["rules"]
    assert {verb for rule in (sets, pods) for verb in rule["verbs"]} == {"get"}
    assert pods["resources"] == ["pods", "pods/log"]
    assert sets["resourceNames"] == ["movies-driver", "movies-executor", "movies-serve"]
    assert pods["resourceNames"] == [
        "movies-driver-0", "movies-executor-0", "movies-executor-1", "movies-serve-0",
        "movies-serve-1",
    ]  # fmt: skip
    assert 6443 in _egress(found)


def test_executors_of_an_autoscaler_are_among_them(render: Render) -> None:
    scaled = {"executor": {"replicas": 1, "autoscaling": {"kind": "keda", "maxReplicas": 3}}}
    rules = named(render(CHART, _console() | scaled, name="movies"))["Role/movies-serve"]["rules"]
    executors = [name for name in rules[1]["resourceNames"] if "executor" in name]
    assert executors == [f"movies-executor-{n}" for n in range(3)]


def test_an_account_of_ones_own_gets_no_role_of_the_chart(render: Render) -> None:
    found = named(render(CHART, _console(serviceAccount="ours"), name="movies"))
    spec = found["StatefulSet/movies-serve"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "ours"
    assert not {"ServiceAccount/movies-serve", "Role/movies-serve"} & set(found)


def test_the_role_is_enough_for_what_the_console_asks(
    render: Render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = named(render(CHART, _console(), name="movies"))
    sets = [m for name, m in found.items() if name.startswith("StatefulSet/")]
    replicas = {m["metadata"]["name"]: m["spec"].get("replicas", 1) for m in sets}
    pods = {
        f"{m['metadata']['name']}-{n}": pod(
            f"{m['metadata']['name']}-{n}", containers(m["spec"]["template"])[0]["name"]
        )
        for m in sets
        for n in range(replicas[m["metadata"]["name"]])
    }
    logs = dict.fromkeys(pods, "a line\n")
    cluster = Cluster(pods, replicas, logs, found["Role/movies-serve"]["rules"])
    options = _options(_container(list(found.values()), "movies-serve")["args"])
    with in_a_pod(cluster, tmp_path, monkeypatch):
        release = PodsOfRelease(options["pods_of"])
        assert {one["name"]: one["state"] for one in release.all()} == dict.fromkeys(
            pods, "Running"
        )
        for name in pods:
            assert release.log(name, 100, previous=False) == "a line\n"
