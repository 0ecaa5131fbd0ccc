"""The chart's objects: valid, restricted, with least rights, and kept where they must be kept."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from holdfast.deploy.kubernetes.release_secrets import KEY
from tests.helm.conftest import CHARTS, HELM, KUBERNETES, Manifest, Render
from tests.helm.holdfast.examples import CHART, FULL, MINIMAL, SETS, containers, named, pods

DRIVER, EXECUTOR = "StatefulSet/tried-driver", "StatefulSet/tried-executor"
PREFLIGHT, TEST = "Job/tried-preflight", "Pod/tried-test"
ALL_PODS = {DRIVER, EXECUTOR, PREFLIGHT, TEST}
HOOK_ORDER = "helm.sh/hook-weight"


def _template(manifests: list[Manifest], name: str) -> Manifest:
    return dict(pods(manifests))[name]


def _settings(manifests: list[Manifest], name: str = "ConfigMap/tried") -> dict[str, Any]:
    text = named(manifests)[name]["data"]["properties.yaml"]
    settings: dict[str, Any] = yaml.safe_load(text)
    return settings


def _environment(pod: Manifest) -> dict[str, Any]:
    (container,) = containers(pod)
    return {e["name"]: e for e in container.get("env", [])}


def _changed(before: list[Manifest], after: list[Manifest]) -> set[str]:
    """Pods that an upgrade starts anew: their templates differ."""
    old, new = dict(pods(before)), dict(pods(after))
    return {name for name in (DRIVER, EXECUTOR) if old[name] != new[name]}


@pytest.mark.parametrize("values", SETS.values(), ids=SETS.keys())
def test_helm_finds_nothing_to_complain_about(values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    command = [HELM, "lint", "--strict", "--kube-version", KUBERNETES, "--values", str(file)]
    ran = subprocess.run([*command, str(CHARTS / CHART)], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stdout.decode()


@pytest.mark.parametrize("values", SETS.values(), ids=SETS.keys())
def test_every_object_is_what_kubernetes_takes(values: dict[str, Any], render: Render) -> None:
    checked = set()
    for manifest in render(CHART, values):
        if manifest["kind"] not in ("PodMonitor", "ScaledObject"):  # not Kubernetes' own
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
            checked.add(manifest["kind"])
    assert checked >= {"StatefulSet", "Service", "ConfigMap"}


def test_the_check_against_kubernetes_finds_a_typo(render: Render) -> None:
    manifest = named(render(CHART, MINIMAL))[DRIVER]
    manifest["spec"]["template"]["spec"]["terminationGracePeriod"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize("values", [MINIMAL, FULL], ids=["minimal", "full"])
def test_every_pod_passes_the_restricted_standard(values: dict[str, Any], render: Render) -> None:
    found = dict(pods(render(CHART, values)))
    served = {"StatefulSet/tried-serve"} if "serve" in values else set()
    assert set(found) == ALL_PODS | served
    for name, pod in found.items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), name
        kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
        assert kinds <= {"configMap", "emptyDir", "projected", "secret"}, name
        for container in containers(pod):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["readOnlyRootFilesystem"] is True, name
            assert security["capabilities"] == {"drop": ["ALL"]}, name
            assert {"requests", "limits"} <= set(container["resources"]), name


def test_the_driver_sees_and_labels_pods_and_nobody_else_has_a_token(render: Render) -> None:
    manifests = render(CHART, MINIMAL)
    roles = [m for m in manifests if m["kind"] in ("Role", "ClusterRole")
             and m["metadata"]["name"] != "tried-preflight"]  # fmt: skip
    pods_rule = {"apiGroups": [""], "resources": ["pods"],
                 "verbs": ["get", "list", "watch", "patch"]}  # fmt: skip
    secret_rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["tried-spark"],
                   "verbs": ["get", "patch"]}  # fmt: skip
    set_rule = {"apiGroups": ["apps"], "resources": ["statefulsets"],
                "resourceNames": ["tried-executor"], "verbs": ["get"]}  # fmt: skip
    assert [r["rules"] for r in roles] == [[pods_rule, set_rule, secret_rule]]
    assert "ClusterRole" not in {m["kind"] for m in manifests}
    bindings = {n: m for n, m in named(manifests).items() if n.startswith("RoleBinding/")}
    assert {n: m["subjects"][0]["name"] for n, m in bindings.items()} == {
        "RoleBinding/tried-driver": "tried-driver",
        "RoleBinding/tried-preflight": "tried-preflight",
    }
    for name, pod in pods(manifests):
        spec = pod["spec"]
        if name == DRIVER:
            assert spec["serviceAccountName"] == "tried-driver"
        else:
            assert spec["automountServiceAccountToken"] is False, name
            assert ("serviceAccountName" in spec) == (name == PREFLIGHT), name


def test_the_preflight_may_read_the_sets_of_its_release(render: Render) -> None:
    role = named(render(CHART, MINIMAL))["Role/tried-preflight"]
    names = ["tried-driver", "tried-executor", "tried-serve"]
    assert role["rules"] == [{"apiGroups": ["apps"], "resources": ["statefulsets"],
                              "resourceNames": names, "verbs": ["get"]}]  # fmt: skip


def test_an_account_of_ones_own_is_taken_and_no_role_is_made(render: Render) -> None:
    manifests = render(CHART, SETS["bare"])
    assert not {m["kind"] for m in manifests} & {"Role", "RoleBinding", "ServiceAccount"}
    assert _template(manifests, DRIVER)["spec"]["serviceAccountName"] == "ours"


def test_spark_finds_the_executors_by_their_labels(render: Render) -> None:
    manifests = render(CHART, FULL)
    labels = _template(manifests, EXECUTOR)["metadata"]["labels"]
    assert labels["spark-app-selector"] == "tried"
    assert labels["spark-role"] == "executor"
    assert labels["spark-exec-resourceprofile-id"] == "0"
    assert labels["team"] == "films"
    driver = _template(manifests, DRIVER)
    assert "spark-role" not in driver["metadata"]["labels"]
    assert "spark.app.id=tried" in json.dumps(driver)
    assert _environment(_template(manifests, EXECUTOR))["SPARK_APPLICATION_ID"]["value"] == "tried"


@pytest.mark.parametrize("values", [MINIMAL, FULL], ids=["minimal", "full"])
def test_selectors_choose_their_own_pods(values: dict[str, Any], render: Render) -> None:
    manifests = render(CHART, values)
    templates = {name: pod["metadata"]["labels"] for name, pod in pods(manifests)}

    def chosen(labels: dict[str, str]) -> set[str]:
        return {n for n, own in templates.items() if labels.items() <= own.items()}

    everything = named(manifests)
    for name in (DRIVER, EXECUTOR):
        assert chosen(everything[name]["spec"]["selector"]["matchLabels"]) == {name}
    for component, name in (("driver", DRIVER), ("executor", EXECUTOR), ("test", TEST)):
        policy = everything[f"NetworkPolicy/tried-{component}"]["spec"]["podSelector"]
        assert chosen(policy["matchLabels"]) == {name}
        if component != "test":
            budget = everything[f"PodDisruptionBudget/tried-{component}"]["spec"]
            assert chosen(budget["selector"]["matchLabels"]) == {name}
    assert chosen(everything["Service/tried-driver"]["spec"]["selector"]) == {DRIVER}


def test_changed_statements_and_properties_start_the_driver_only(render: Render) -> None:
    before = render(CHART, MINIMAL)
    assert _changed(before, render(CHART, MINIMAL)) == set()
    sql = MINIMAL | {"sql": MINIMAL["sql"] + "SET 'emit' = 'batch';"}
    assert _changed(before, render(CHART, sql)) == {DRIVER}
    properties = MINIMAL | {"properties": {"trigger.interval.ms": 100}}
    assert _changed(before, render(CHART, properties)) == {DRIVER}
    # The driver asks the StatefulSet how many executors to expect.
    assert _changed(before, render(CHART, MINIMAL | {"executor": {"replicas": 3}})) == set()


def test_changed_functions_and_images_start_both(render: Render) -> None:
    before = render(CHART, MINIMAL)
    functions = MINIMAL | {"functions": {"mine.py": "x = 1\n"}}
    assert _changed(before, render(CHART, functions)) == {DRIVER, EXECUTOR}
    more = MINIMAL | {"functions": {"mine.py": "x = 2\n"}}
    assert _changed(render(CHART, functions), render(CHART, more)) == {DRIVER, EXECUTOR}
    assert _changed(before, render(CHART, MINIMAL | {"image": {"tag": "9"}})) == {DRIVER, EXECUTOR}


def test_no_pod_has_the_charts_version(render: Render) -> None:
    # Or a new version of the chart alone would start everything anew.
    for name, pod in pods(render(CHART, MINIMAL)):
        if name != TEST:
            assert "helm.sh/chart" not in pod["metadata"]["labels"], name


def test_claims_outlive_pods_scaling_and_the_release(render: Render) -> None:
    everything = named(render(CHART, MINIMAL))
    for name in (DRIVER, EXECUTOR):
        spec = everything[name]["spec"]
        retained = {"whenDeleted": "Retain", "whenScaled": "Retain"}
        assert spec["persistentVolumeClaimRetentionPolicy"] == retained
        (claim,) = spec["volumeClaimTemplates"]
        labels = claim["metadata"]["labels"]
        assert labels == {
            "app.kubernetes.io/name": "holdfast",
            "app.kubernetes.io/instance": "tried",
        }
    state = everything[EXECUTOR]["spec"]["volumeClaimTemplates"][0]["spec"]
    assert state["accessModes"] == ["ReadWriteOncePod"]
    assert "storageClassName" not in state
    full = named(render(CHART, FULL))
    state = full[EXECUTOR]["spec"]["volumeClaimTemplates"][0]["spec"]
    assert (state["accessModes"], state["storageClassName"]) == (["ReadWriteOnce"], "fast")
    assert state["resources"]["requests"]["storage"] == "1Ti"
    assert "volumeClaimTemplates" not in full[DRIVER]["spec"]


def test_network_policies_let_through_what_is_needed(render: Render) -> None:
    everything = named(render(CHART, FULL))
    spec = {
        c: everything[f"NetworkPolicy/tried-{c}"]["spec"] for c in ("driver", "executor", "test")
    }

    def open_to_all(component: str) -> set[int]:
        rules = spec[component]["egress"]
        return {p["port"] for rule in rules if "to" not in rule for p in rule["ports"]}

    assert open_to_all("executor") == open_to_all("test") == {53, 9093, 9094}
    assert open_to_all("driver") == {53, 9093, 9094, 443, 6443}
    assert all(s["policyTypes"] == ["Ingress", "Egress"] for s in spec.values())
    assert "ingress" not in spec["test"]
    monitoring = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    assert spec["driver"]["ingress"][1] == {"ports": [{"port": 8090}], "from": [monitoring]}
    assert len(spec["executor"]["ingress"]) == 1


def test_driver_and_executors_reach_the_place_of_their_snapshots(render: Render) -> None:
    def open_to_all(values: dict[str, Any], component: str) -> set[int]:
        spec = named(render(CHART, values))[f"NetworkPolicy/tried-{component}"]["spec"]
        return {p["port"] for rule in spec["egress"] if "to" not in rule for p in rule["ports"]}

    snapshots = {"properties": {"snapshot.uri": "s3://bucket/jobs"}}
    assert open_to_all(MINIMAL | snapshots, "executor") == {53, 9092, 443}
    other = snapshots | {"networkPolicy": {"snapshotPorts": [9000, 80]}}
    # It writes and reads the documents of savepoints.
    assert open_to_all(MINIMAL | other, "driver") == {53, 9092, 9000, 80, 443, 6443}
    assert open_to_all(MINIMAL | other, "executor") == {53, 9092, 9000, 80}
    assert open_to_all(MINIMAL | other, "test") == open_to_all(MINIMAL, "executor") == {53, 9092}


@pytest.mark.parametrize("prefix", ["", "ksql."])
def test_every_pod_that_reads_a_format_with_a_registry_reaches_it(
    render: Render, prefix: str
) -> None:
    given = {"properties": {f"{prefix}schema.registry.url": "http://registry:8085"}}
    ports = {"networkPolicy": {"registryPorts": [8085]}}
    serve = {"serve": {"enabled": True, "auth": {"insecure": True}}}
    everything = named(render(CHART, MINIMAL | given | ports | serve))
    for component in ("driver", "executor", "test", "serve"):
        rules = everything[f"NetworkPolicy/tried-{component}"]["spec"]["egress"]
        assert {"ports": [{"port": 8085}]} in rules
    without = named(render(CHART, MINIMAL | ports))["NetworkPolicy/tried-driver"]["spec"]["egress"]
    assert {"ports": [{"port": 8085}]} not in without


def test_the_driver_alone_reaches_the_collector_of_traces(render: Render) -> None:
    def ports(component: str, more: dict[str, Any]) -> set[int]:
        spec = named(render(CHART, MINIMAL | more))[f"NetworkPolicy/tried-{component}"]["spec"]
        return {p["port"] for rule in spec["egress"] for p in rule.get("ports", ())}

    traced = {"properties": {"tracing.endpoint": "http://otel.example.com:4318"}}
    assert ports("driver", traced) - ports("driver", {}) == {4318}
    other = traced | {"networkPolicy": {"tracingPorts": [443, 4317]}}
    assert 4317 in ports("driver", other)
    assert ports("executor", traced) == ports("executor", {})


def test_executors_with_stores_in_a_database_have_no_volumes(render: Render) -> None:
    everything = named(render(CHART, SETS["remote"]))
    spec = everything[EXECUTOR]["spec"]
    assert "volumeClaimTemplates" not in spec
    assert "persistentVolumeClaimRetentionPolicy" not in spec
    volumes = {v["name"]: v for v in spec["template"]["spec"]["volumes"]}
    assert volumes["state"] == {"name": "state", "emptyDir": {"sizeLimit": "64Mi"}}
    assert "volumeClaimTemplates" in everything[DRIVER]["spec"]
    kept = named(render(CHART, MINIMAL))[EXECUTOR]["spec"]
    assert "state" not in {v["name"] for v in kept["template"]["spec"]["volumes"]}


def test_only_executors_reach_the_database_and_have_its_password(render: Render) -> None:
    manifests = render(CHART, SETS["remote"])
    with_password = {
        name
        for name, pod in pods(manifests)
        if any(volume["name"] == "remote-state" for volume in pod["spec"]["volumes"])
    }
    assert with_password == {EXECUTOR}
    volumes = {v["name"]: v for v in _template(manifests, EXECUTOR)["spec"]["volumes"]}
    secret = volumes["remote-state"]["secret"]
    assert (secret["secretName"], secret["items"][0]["key"]) == ("clerk", "password")
    file = _settings(manifests)["state.remote.password.file"]
    assert file == "/etc/holdfast/remote/password"
    with_way = {
        name
        for name, manifest in named(manifests).items()
        if manifest["kind"] == "NetworkPolicy"
        and any({"port": 6379} in rule.get("ports", []) for rule in manifest["spec"]["egress"])
    }
    assert with_way == {"NetworkPolicy/tried-executor"}


def test_secrets_reach_whoever_opens_kafka_clients(render: Render) -> None:
    manifests = render(CHART, FULL)
    found = dict(pods(manifests))
    items = [{"key": "password", "path": "sasl.password"}]
    for name, pod in found.items():
        volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
        # Executors get settings with their work; files they must have themselves.
        assert ("kafka-secrets" in volumes) == (name != EXECUTOR), name
        if name != EXECUTOR:
            (source,) = volumes["kafka-secrets"]["projected"]["sources"]
            assert source == {"secret": {"name": "kafka-user", "items": items}}, name
            container = containers(pod)[-1]
            mounts = {m["name"]: m for m in container["volumeMounts"]}
            assert mounts["kafka-secrets"]["mountPath"] == "/etc/holdfast/secrets", name
        assert volumes["tls"]["secret"]["secretName"] == "kafka-tls", name
        container = containers(pod)[-1]
        mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        assert (mounts["tls"], mounts["functions"]) == (
            "/etc/holdfast/tls",
            "/etc/holdfast/functions",
        )
    for config in ("ConfigMap/tried", "ConfigMap/tried-preflight"):
        settings = _settings(manifests, config)
        assert settings["kafka.ssl.ca.location"] == "/etc/holdfast/tls/ca.crt"
        assert settings["kafka.ssl.key.location"] == "/etc/holdfast/tls/tls.key"
        assert settings["kafka.security.protocol"] == "SASL_SSL"
        assert settings["kafka.sasl.password.file"] == "/etc/holdfast/secrets/sasl.password"
        assert "kafka.sasl.password" not in settings


def test_driver_and_executors_alone_have_sparks_secret(render: Render) -> None:
    for values, name in (
        (MINIMAL, "tried-spark"),
        (FULL | {"spark": {"existingSecret": "ours"}}, "ours"),
    ):
        manifests = render(CHART, values)
        assert _settings(manifests)["spark.secret.file"] == "/etc/holdfast/spark/secret"
        found = {n: {v["name"]: v for v in pod["spec"]["volumes"]} for n, pod in pods(manifests)}
        holders = {n for n, volumes in found.items() if "spark-secret" in volumes}
        assert holders == {DRIVER, EXECUTOR}
        wanted = {"secretName": name, "items": [{"key": KEY, "path": "secret"}],
                  "defaultMode": 0o440}  # fmt: skip
        assert found[EXECUTOR]["spark-secret"]["secret"] == wanted
        ours = name == "ours"
        assert found[DRIVER]["spark-secret"].get("secret") == (wanted if ours else None)
        arguments = containers(_template(manifests, DRIVER))[0]["args"]
        assert (f"--fill-secret={name}" in arguments) == (not ours)
        assert (f"Secret/{name}" in named(manifests)) == (not ours)
        rules = [r for m in manifests if m["kind"] == "Role" for r in m["rules"]]
        assert ("secrets" in {kind for r in rules for kind in r["resources"]}) == (not ours)


def test_the_secret_of_sparks_is_empty_in_every_rendering(render: Render) -> None:
    made = named(render(CHART, FULL))["Secret/tried-spark"]
    assert not {"data", "stringData", "immutable"} & set(made)


def test_an_image_may_be_named_by_its_digest(render: Render) -> None:
    digest = "sha256:" + "0a" * 32
    manifests = render(CHART, MINIMAL | {"image": {"tag": "1.2.3", "digest": digest}})
    images = {c["image"] for _, pod in pods(manifests) for c in containers(pod)}
    assert images == {f"holdfast:1.2.3@{digest}"}


def test_without_client_certificates_only_the_brokers_are_checked(render: Render) -> None:
    settings = _settings(render(CHART, SETS["tls"]))
    assert [k for k in settings if k.startswith("kafka.ssl")] == ["kafka.ssl.ca.location"]


def test_job_files_are_what_was_given(render: Render) -> None:
    manifests = render(CHART, FULL)
    everything = named(manifests)
    for config in ("ConfigMap/tried", "ConfigMap/tried-preflight"):
        assert everything[config]["data"]["job.sql"] == FULL["sql"]
        settings = _settings(manifests, config)
        assert settings["max.offsets.per.trigger"] == 100_000_000
        assert (settings["executors"], settings["executor.memory.mb"]) == (5, 2048)
        assert everything[f"{config}-functions"]["data"] == FULL["functions"]
    assert everything[EXECUTOR]["spec"]["replicas"] == 5
    assert _environment(_template(manifests, EXECUTOR))["EXECUTOR_HEAP_MIB"]["value"] == "2048"


def test_the_preflight_comes_first_and_has_its_own_files(render: Render) -> None:
    everything = named(render(CHART, FULL))
    hooks = {n: m["metadata"]["annotations"] for n, m in everything.items()
             if "preflight" in n}  # fmt: skip
    assert all(a["helm.sh/hook"] == "pre-install,pre-upgrade" for a in hooks.values())
    for name, notes in hooks.items():
        # A refused Job stays for its log, until Kubernetes deletes it; the rest goes at once.
        gone = notes["helm.sh/hook-delete-policy"].split(",")
        assert ("hook-failed" in gone) == (name != PREFLIGHT)
        assert {"before-hook-creation", "hook-succeeded"} <= set(gone)
    assert everything[PREFLIGHT]["spec"]["ttlSecondsAfterFinished"] == 3600
    files = [int(a[HOOK_ORDER]) for n, a in hooks.items() if n.startswith("ConfigMap")]
    assert len(files) == 2
    assert max(files) < int(hooks[PREFLIGHT][HOOK_ORDER])
    assert everything[PREFLIGHT]["spec"]["backoffLimit"] == 0
    used = {v["configMap"]["name"] for v in
            everything[PREFLIGHT]["spec"]["template"]["spec"]["volumes"]
            if "configMap" in v}  # fmt: skip
    assert {f"ConfigMap/{name}" for name in used} == {n for n in hooks if n.startswith("ConfigMap")}


def test_the_preflight_compares_the_claims_that_are_rendered(render: Render) -> None:
    """Not by `lookup`: a GitOps tool renders without a cluster."""
    everything = named(render(CHART, FULL))
    compared = yaml.safe_load(everything["ConfigMap/tried-preflight"]["data"]["claims.yaml"])
    of_sets = {
        m["metadata"]["name"]: (m["spec"].get("volumeClaimTemplates") or [{"spec": {}}])[0]["spec"]
        for n, m in everything.items()
        if n.startswith("StatefulSet/")
    }
    assert {one["statefulSet"]: one["claim"] for one in compared} == of_sets
    assert len(of_sets) == 3
    (check,) = containers(everything[PREFLIGHT]["spec"]["template"])
    looks, checks = check["args"][-1].splitlines()
    assert looks == "python -m holdfast.cli.in_pod.claims /etc/holdfast/claims/claims.yaml"
    assert checks.startswith("exec holdfast check /etc/holdfast/job/job.sql ")
    assert {"claims", "account"} <= {m["name"] for m in check["volumeMounts"]}


def test_without_accounts_of_its_own_the_preflight_asks_no_api(render: Render) -> None:
    manifests = render(CHART, MINIMAL | {"serviceAccount": {"create": False, "name": "given"}})
    assert not [m for m in manifests if m["kind"] in {"Role", "RoleBinding", "ServiceAccount"}]
    (check,) = containers(named(manifests)[PREFLIGHT]["spec"]["template"])
    assert "claims" not in check["args"][-1]
    assert not {"claims", "account"} & {m["name"] for m in check["volumeMounts"]}


def test_a_driver_without_a_volume_has_no_claim(render: Render) -> None:
    everything = named(render(CHART, MINIMAL | {"driver": {"persistence": {"enabled": False}}}))
    driver, *_ = yaml.safe_load(everything["ConfigMap/tried-preflight"]["data"]["claims.yaml"])
    assert (driver["value"], driver["claim"]) == ("driver.persistence", {})


def test_helm_test_runs_the_selftest_and_asks_the_driver(render: Render) -> None:
    pod = named(render(CHART, FULL))[TEST]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (container,) = containers(pod)
    assert container["args"][:2] == ["holdfast", "selftest"]
    assert "--driver=http://tried-driver:8090" in container["args"]
    assert "--timeout=220" in container["args"]
    assert pod["spec"]["activeDeadlineSeconds"] == 240


def test_monitors_are_made_on_demand(render: Render) -> None:
    assert "PodMonitor" not in {m["kind"] for m in render(CHART, MINIMAL)}
    assert "ConfigMap/tried-dashboard" not in named(render(CHART, MINIMAL))
    monitor = named(render(CHART, FULL))["PodMonitor/tried"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["interval"]) == ("http", "/metrics", "30s")
    labels = _template(render(CHART, FULL), DRIVER)["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_everything_optional_can_be_left_out(render: Render) -> None:
    kinds = {m["kind"] for m in render(CHART, SETS["bare"])}
    assert kinds == {"ConfigMap", "Secret", "Service", "StatefulSet"}


def test_scheduling_reaches_both(render: Render) -> None:
    manifests = render(CHART, FULL)
    for name, values in ((DRIVER, FULL["driver"]), (EXECUTOR, FULL["executor"])):
        spec = _template(manifests, name)["spec"]
        for field in ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
            assert spec[field] == values[field], (name, field)
        assert spec["priorityClassName"] == "important"
        assert _environment(_template(manifests, name))["TZ"]["value"] == "UTC"
        assert spec["imagePullSecrets"] == [{"name": "registry"}, {"name": "other"}]
        note = _template(manifests, name)["metadata"]["annotations"]["example.org/note"]
        assert note == 'it\'s "quoted": yes'
    assert "topologySpreadConstraints" not in _template(render(CHART, MINIMAL), DRIVER)["spec"]
    assert "affinity" not in _template(render(CHART, MINIMAL), DRIVER)["spec"]


def test_the_preflight_brings_a_new_image_to_the_drivers_node(render: Render) -> None:
    manifests = render(CHART, MINIMAL)
    (preflight,) = (m for m in manifests if m["kind"] == "Job")
    ((kind, (beside,)),) = preflight["spec"]["template"]["spec"]["affinity"]["podAffinity"].items()
    assert kind == "preferredDuringSchedulingIgnoredDuringExecution"  # there may be no driver yet
    term = beside["podAffinityTerm"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    driver = _template(manifests, DRIVER)["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= driver.items()


def test_an_executor_is_ready_once_it_has_answered_the_driver(render: Render) -> None:
    """The next one rolls only then, and not before a batch had time."""
    manifests = render(CHART, MINIMAL)
    (container,) = _template(manifests, EXECUTOR)["spec"]["containers"]
    assert container["args"] == ["holdfast-executor"]
    test, flag, file = container["readinessProbe"]["exec"]["command"]
    assert (test, flag) == ("test", "-e")
    entry = CHARTS.parent / "k8s/images/holdfast/bin/holdfast-executor"
    assert f"export EXECUTOR_READY_FILE={file}\n" in entry.read_text(encoding="utf-8")
    assert named(manifests)[EXECUTOR]["spec"]["minReadySeconds"] == 5


def test_executors_are_spread_over_nodes_also_where_nodes_have_no_zone(render: Render) -> None:
    """The scheduler ignores a node in all spread constraints if it lacks the label of one."""
    template = _template(render(CHART, MINIMAL), EXECUTOR)
    (zones,) = template["spec"]["topologySpreadConstraints"]
    assert zones["topologyKey"] == "topology.kubernetes.io/zone"
    assert zones["whenUnsatisfiable"] == "ScheduleAnyway"
    ((kind, (apart,)),) = template["spec"]["affinity"]["podAntiAffinity"].items()
    assert kind == "preferredDuringSchedulingIgnoredDuringExecution"
    assert apart["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    for term in (zones, apart["podAffinityTerm"]):
        assert (
            term["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        )
