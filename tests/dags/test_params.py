"""The parameters that the trigger form and the API accept, and their use in a run."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError

from holdfast_airflow.chaos_params import chaos_params
from holdfast_airflow.compaction_params import compaction_params as all_compaction_params
from holdfast_airflow.params import _HIDDEN_NAMES, deploy_params, undeploy_params
from holdfast_airflow.request import InvalidRequest, Request

if TYPE_CHECKING:
    from pathlib import Path

GOOD: dict[str, Any] = {"name": "movies", "sql": "SELECT 1;"}


def _validated(**given: Any) -> dict[str, Any]:
    params = ParamsDict(deploy_params())
    params.update({**GOOD, **given})
    return dict(params.validate())


def test_a_name_and_sql_are_enough() -> None:
    filled = _validated()
    assert filled["target"] == "kubernetes"
    assert filled["executors"] == 2
    assert filled["image"].startswith("holdfast:")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Movies"},
        {"name": ""},
        {"name": "m" * 41},
        {"name": "movies; rm -rf /"},
        {"target": "docker"},
        {"executors": 0},
        {"executors": "2"},
        {"servers": -1},
        {"state_partitions": 1025},
        {"replicas": 0},
        {"namespace": "Not_A_Namespace"},
        {"properties": {"emit": {"nested": 1}}},
        {"properties": {"--delete-state": 1, "a b": 2}},
        {"properties": ["a=b"]},
        {"bootstrap_servers": "kafka"},
        {"values": "replicas: 2"},
        {"deploy_timeout_minutes": 0},
        {"name": "movies\n"},
        {"namespace": "holdfast\n"},
        {"bootstrap_servers": "kafka:9092\n"},
        {"properties": {"emit\n": 1}},
        {"properties": {"kafka.sasl.password": "hush"}},
        {"properties": {"kafka.ssl.key.pem": "hush"}},
        {"values": {"kafka": {"properties": {"sasl.password": "hush"}}}},
        {"image": "holdfast:1\n"},
        {"image": "holdfast:1\n          command: [id]"},
        {"image": "holdfast:1 --privileged"},
        {"image": "{holdfast: 1}"},
        {"image": "holdfast:1@sha256:0"},
        {"image": ""},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_before_a_run_starts(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        _validated(**wrong)


def test_a_run_needs_a_name() -> None:
    with pytest.raises(ParamValidationError):
        ParamsDict(undeploy_params()).validate()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sql": None}, "Neither"),
        ({"sql": ""}, "Neither"),
        ({"sql_file": "movies.sql"}, "Both"),
    ],
)
def test_sql_and_sql_file_exclude_each_other(
    params: dict[str, Any], given: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"^{says} .*exactly one"):
        Request.of({**params, **given})


def test_an_sql_file_is_read_from_its_folder_only(
    params: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "good.sql").write_text("SELECT 2;", encoding="utf-8")
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_SQL_FOLDER", str(folder))
    assert Request.of({**params, "sql": None, "sql_file": "good.sql"}).sql == "SELECT 2;"
    for outside in ("../secret", str(tmp_path / "secret")):
        with pytest.raises(InvalidRequest, match="outside of"):
            Request.of({**params, "sql": None, "sql_file": outside})
    with pytest.raises(InvalidRequest, match="cannot be read"):
        Request.of({**params, "sql": None, "sql_file": "missing.sql"})


def test_arguments_for_processes(params: dict[str, Any]) -> None:
    request = Request.of({
        **params, "state_partitions": 4, "properties": {"a.b": True}, "home": "/h",
    })  # fmt: skip
    common = ["--set=state.partitions=4", "--set=a.b=true"]
    assert request.statement_arguments() == [
        "--sql=SELECT 1;", "--set=application.id=movies", *common, "--home=/h",
    ]  # fmt: skip
    assert request.deploy_arguments() == [
        "movies", "--target=local", "--home=/h", "--sql=SELECT 1;", *common,
        "--executors=2", "--timeout=900",
    ]  # fmt: skip
    assert request.chart_values() == ""


def test_arguments_for_pods(params: dict[str, Any]) -> None:
    chart = {"executor": {"volume": {"size": "1Gi"}}}
    request = Request.of({
        **params, "target": "kubernetes", "replicas": 3, "values": chart, "image": "r:5000/h:1",
    })  # fmt: skip
    common = [
        "--set=bootstrap.servers=kafka.holdfast-platform.svc:9092", "--set=replication.factor=3",
    ]  # fmt: skip
    assert request.deploy_arguments() == [
        "movies", "--target=kubernetes", "--namespace=holdfast", "--image=r:5000/h:1",
        "--sql=SELECT 1;", *common, "--executors=2", "--timeout=900",
    ]  # fmt: skip
    assert request.chart_values() == '{"executor": {"volume": {"size": "1Gi"}}}'


def test_a_job_gets_the_registry_of_its_brokers_and_of_no_others(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = {**params, "target": "kubernetes"}
    monkeypatch.setenv("HOLDFAST_SCHEMA_REGISTRY_URL", "http://r:8081/v7")
    ours = "--set=schema.registry.url=http://r:8081/v7"
    same = {"bootstrap_servers": "kafka.holdfast-platform.svc:9092"}
    for asked in (pods, pods | same):
        request = Request.of(asked)
        assert ours in request.deploy_arguments()
        assert ours in request.statement_arguments(), "check asks it, too"
    mine = Request.of(pods | {"properties": {"schema.registry.url": "http://mine"}})
    assert "--set=schema.registry.url=http://mine" in mine.deploy_arguments()
    for other in (params, pods | {"bootstrap_servers": "elsewhere:9092"}, mine.params):
        assert ours not in Request.of(other).deploy_arguments()
    monkeypatch.setenv("HOLDFAST_SCHEMA_REGISTRY_URL", "")
    assert "schema.registry.url" not in str(Request.of(pods).deploy_arguments())


def test_query_servers_of_a_local_job_are_deployed_with_it(params: dict[str, Any]) -> None:
    request = Request.of({**params, "servers": 2})
    assert "--servers=2" in request.deploy_arguments()
    assert request.smoke_arguments() == request.statement_arguments(), "it finds them by itself"
    on_kubernetes = Request.of({**params, "servers": 2, "target": "kubernetes"})
    assert not [a for a in on_kubernetes.deploy_arguments() if a.startswith("--servers")]


@pytest.mark.parametrize(
    ("serve", "asked"),
    [
        ({}, []),
        ({"enabled": False, "auth": {"insecure": True}}, []),
        ({"enabled": True, "auth": {"insecure": True}}, ["--server=http://movies-serve:8088"]),
        ({"enabled": True, "auth": {"existingSecret": "s", "testTokenKey": "k"}},
         ["--server=http://movies-serve:8088"]),
        ({"enabled": True, "auth": {"existingSecret": "s"}}, []),
        ({"enabled": True, "tls": {"existingSecret": "t"}},
         ["--server=https://movies-serve:8088",
          "--server-ca=/etc/holdfast/serve-tls/ca.crt"]),
        ({"enabled": True, "tls": {"existingSecret": "t", "clientCertificate": True}}, []),
    ],
)  # fmt: skip
def test_the_smoke_check_asks_query_servers_it_can_ask(
    params: dict[str, Any], serve: dict[str, Any], asked: list[str]
) -> None:
    request = Request.of({**params, "target": "kubernetes", "values": {"serve": serve}})
    more = len(request.statement_arguments())
    assert request.smoke_arguments()[more:] == asked


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 0},
        {"duration": "10"},
        {"duration": "0m"},
        {"seed": -1},
        {"late": 1.5},
        {"distribution": "normal"},
        {"faults": ["explode"]},
        {"moments": ["random", "random"]},
        {"components": ["driver;id"]},
        {"ask": "movies-serve:8088"},
        {"ask": "http://a:1 --token-file=x"},
        {"name": None},
    ],
    ids=str,
)
def test_a_chaos_run_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    params = ParamsDict(chaos_params())
    with pytest.raises(ParamValidationError):
        params.update({"name": "movies", **wrong})


def test_arguments_of_a_chaos_run(chaos_params: dict[str, Any]) -> None:
    asked = {
        **chaos_params, "components": ["driver", "query"], "moments": ["random"], "seed": 0,
        "confirm": "movies", "duration": "10m",
    }  # fmt: skip
    request = Request.of(asked, "manual__2026-11-21T09:00:00+00:00")
    where = ["--run=manual-2026-11-21T09-00-00-00-00", "--home=/var/lib/holdfast-chaos"]
    assert request.chaos_arguments() == where
    assert request.precheck_arguments() == [
        "movies", "--target=kubernetes", "--namespace=holdfast", *where,
        "--components=driver,query", "--moments=random", "--duration=10m", "--seed=0",
        "--confirm=movies", "--rate=200", "--keys=200", "--distribution=uniform",
        "--out-of-order=0.2", "--late=0.0", "--tombstones=0.0", "--garbage=0.0",
    ]  # fmt: skip
    local = Request.of({**asked, "target": "local", "home": "/h"}, "r")
    assert local.chaos_arguments() == ["--run=r", "--home=/h"]
    assert not [a for a in local.precheck_arguments() if a.startswith("--namespace")]


def test_a_chaos_run_reads_from_the_query_servers_that_are_named(
    chaos_params: dict[str, Any],
) -> None:
    serve = {"enabled": True, "tls": {"existingSecret": "serve-tls"}}
    asked = {**chaos_params, "ask": "https://a:1,https://b:1", "values": {"serve": serve}}
    request = Request.of(asked, "r")
    ca = "--server-ca=/etc/holdfast/serve-tls/ca.crt"
    assert request.precheck_arguments()[-2:] == ["--ask=https://a:1,https://b:1", ca]
    assert request.workload_arguments() == [*request.chaos_arguments(), ca]
    local = Request.of({**asked, "target": "local"}, "r")
    assert ca not in [*local.precheck_arguments(), *local.workload_arguments()]
    nobody = Request.of({**chaos_params, "ask": "none"}, "r")
    assert nobody.precheck_arguments()[-1] == "--ask=none"
    assert nobody.workload_arguments() == nobody.chaos_arguments()


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": ["a b"]},
        {"jobs": ["--exact"]},
        {"jobs": "movies"},
        {"target_restore_s": 0},
        {"min_gain": 1.5},
        {"disk_budget_bytes": "1 GB"},
        {"policy": {"--hash": "x"}},
        {"auto_approve": "yes"},
        {"auto_approve_max_cleaner_gb": -1},
        {"approval_timeout_hours": 0},
        {"strimzi_namespace": "Kafka"},
    ],
    ids=str,
)
def test_a_compaction_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    params = ParamsDict(all_compaction_params())
    with pytest.raises(ParamValidationError):
        params.update(wrong)


def test_arguments_of_a_compaction(compaction_params: dict[str, Any]) -> None:
    asked = {
        **compaction_params, "jobs": ["movies"], "target_restore_s": 30, "min_gain": 0.2,
        "policy": {"allow.roll": False}, "properties": {"kafka.client.id": "c"},
    }  # fmt: skip
    run = ["--run=scheduled-2026-11-22", "--home=/var/lib/holdfast-compaction"]
    kafka = [
        "--set=bootstrap.servers=kafka.holdfast-platform.svc:9092", "--set=kafka.client.id=c",
    ]  # fmt: skip
    request = Request.of(asked, "scheduled__2026-11-22")
    status = "--status=http://{name}-driver.holdfast.svc:8090/status"
    assert request.repair_arguments() == ["movies", run[1], *kafka]
    assert request.survey_arguments() == [
        "movies", *run, status, *kafka,
    ]  # fmt: skip
    assert request.plan_arguments() == [
        *run, "--policy=target.restore.s=30", "--policy=min.gain=0.2", "--policy=allow.roll=false",
    ]  # fmt: skip
    assert replace(request, plan_hash="ab").apply_arguments() == [
        *run, "--hash=ab", "--yes", *kafka,
    ]  # fmt: skip
    assert request.verify_arguments() == [*run, status, *kafka]
    strimzi = Request.of({**asked, "strimzi_namespace": "kafka"}, "r").survey_arguments()
    assert strimzi[4:6] == ["--target=kubernetes", "--namespace=kafka"]
    local = Request.of({**compaction_params, "target": "local", "home": "/h"}, "r")
    assert local.survey_arguments() == ["--run=r", "--home=/h"]
    assert local.repair_arguments() == ["--home=/h"]


def test_the_form_offers_the_faults_and_moments_that_there_are(root: Path) -> None:
    tree = ast.parse((root / "jobs/holdfast/chaos/faults/words.py").read_text(encoding="utf-8"))
    known = {
        node.name: [
            item.value.value
            for item in node.body
            if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
        ]
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    params = chaos_params()
    assert params["faults"].schema["items"]["enum"] == known["Fault"]
    assert params["moments"].schema["items"]["enum"] == known["Moment"]


def test_the_precheck_s_json_begins_with_the_job_s_name(root: Path) -> None:
    # The step `precheck` takes it from there; the tests of its DAG show how.
    source = root / "jobs/holdfast/chaos/history/run_file.py"
    (run_file,) = (
        node
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "RunFile"
    )
    fields = [n.target.id for n in run_file.body
              if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]  # fmt: skip
    assert fields[:2] == ["run", "name"]


def test_the_default_image_is_this_version_s(root: Path) -> None:
    source = (root / "jobs" / "holdfast" / "__init__.py").read_text(encoding="utf-8")
    version = next(line for line in source.splitlines() if line.startswith("__version__"))
    assert deploy_params()["image"].value == f"holdfast:{version.split(chr(34))[1]}"


def test_an_image_with_a_digest_and_properties_that_are_no_secrets_are_taken() -> None:
    digest = "@sha256:" + "0a" * 32
    for image in ("holdfast:1.2", f"holdfast{digest}", f"a.example.org:5000/b/c_d:dev{digest}"):
        assert _validated(image=image)["image"] == image
    plain = {
        "kafka.sasl.username": "u",
        "kafka.ssl.key.location": "/k",
        "kafka.sasl.password.file": "/p",
        "max.offsets.per.trigger": 1,
    }
    assert _validated(properties=plain)["properties"] == plain
    values = {"kafka": {"properties": {"security.protocol": "SASL_SSL"}, "tls": {}}}
    assert _validated(values=values)["values"] == values


def _patterns(schema: Any) -> list[str]:
    if not isinstance(schema, dict):
        return []
    own = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    return own + [p for inner in schema.values() for p in _patterns(inner)]


def test_no_pattern_lets_a_newline_at_the_end_pass() -> None:
    every = [deploy_params(), undeploy_params(), chaos_params(None), all_compaction_params()]
    found = [p for params in every for param in params.values() for p in _patterns(param.schema)]
    assert len(found) > 12
    assert [p for p in found if not (p.startswith("^(?:") and p.endswith(")$(?!\\n)"))] == []


def test_secrets_are_those_of_the_command_line(root: Path) -> None:
    # Holdfast cannot be imported beside Airflow.
    home = (root / "jobs/holdfast/config/secrets.py").read_text(encoding="utf-8")
    (line,) = [line for line in home.splitlines() if line.startswith("HIDDEN_NAMES = ")]
    assert ast.literal_eval(line.partition(" = ")[2]) == _HIDDEN_NAMES
