from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.load import (
    Origin,
    application_id_of,
    build_settings,
    from_environment,
    from_overrides,
    from_yaml,
)
from holdfast.config.properties import KAFKA_RESERVED, PROPERTIES
from holdfast.config.settings import Settings
from holdfast.errors import InvalidConfig


def _build(**values: object) -> Settings:
    named = {key.replace("__", "."): value for key, value in values.items()}
    return build_settings([Origin("test", named)], "app")


def test_without_sources_the_dataclass_defaults_hold() -> None:
    assert build_settings([], "app") == Settings(application_id="app")


def test_a_nested_field_is_set_and_its_neighbours_keep_their_defaults() -> None:
    settings = _build(rocksdb__compression="zstd", state__partitions="4")
    assert settings.state.rocksdb.compression == "zstd"
    assert settings.state.partitions == 4
    assert settings.state.rocksdb.block_bytes == Settings("app").state.rocksdb.block_bytes
    assert settings.ingest == Settings("app").ingest


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("executors: 3\nstate.partitions: 3\nmetrics.port: 3\ntrigger.interval.ms: 3\n")
    origins = [
        from_yaml(file),
        from_environment({"HOLDFAST_STATE_PARTITIONS": "4", "HOLDFAST_METRICS_PORT": "4"}),
        Origin("SET", {"metrics.port": "5"}),
        from_overrides(["metrics.port=6"]),
    ]
    assert build_settings(origins[:3], "app").metrics_port == 5
    settings = build_settings(origins, "app")
    assert settings.placement.executors == 3
    assert settings.state.partitions == 4
    assert settings.metrics_port == 6
    assert settings.ingest.trigger_interval_ms == 3


def test_every_problem_is_named_at_once_with_where_it_comes_from() -> None:
    origins = [
        Origin("file a.yaml", {"state.partition": 4, "executors": "many"}),
        Origin("--set", {"rocksdb.compression": "gzip", "kafka.acks": "1"}),
    ]
    with pytest.raises(InvalidConfig) as caught:
        build_settings(origins, "app")
    fact = caught.value.fact
    assert fact.startswith("4 properties are wrong:")
    assert "state.partition (file a.yaml): no such property; did you mean state.partitions?" in fact
    assert "executors (file a.yaml): 'many' is no number; it takes: 1 to 1,000" in fact
    assert "rocksdb.compression (--set): 'gzip' is none of them" in fact
    assert "kafka.acks (--set): not yours to set" in fact


def test_a_name_like_no_other_points_to_the_list() -> None:
    with pytest.raises(InvalidConfig, match="`holdfast config` lists what there is"):
        _build(zzz=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state.partitions", 0),
        ("state.partitions", 1_025),
        ("state.partitions", True),
        ("state.partitions", 1.5),
        ("metrics.port", 65_536),
        ("fail.on.data.loss", "maybe"),
        ("auto.offset.reset", "middle"),
        ("processing.guarantee", "at_least_once"),
        ("emit", "record"),
        ("bootstrap.servers", "localhost"),
        ("bootstrap.servers", "localhost:0"),
        ("bootstrap.servers", "localhost:99999"),
        ("bootstrap.servers", " , "),
        ("application.id", "a b"),
        ("application.id", "a" * 101),
        ("application.id", ""),
        ("home", None),
        ("home", {"a": 1}),
        ("kafka.", "x"),
        ("kafka.client.id", ["a"]),
        ("functions", "no/such/file.py"),
    ],
)
def test_what_does_not_fit_is_refused(key: str, value: object) -> None:
    with pytest.raises(InvalidConfig, match=key.replace(".", r"\.")):
        build_settings([Origin("test", {key: value})], "app")


@pytest.mark.parametrize("name", sorted(KAFKA_RESERVED))
def test_client_settings_that_exactly_once_rests_on_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match="not yours to set"):
        build_settings([Origin("test", {f"kafka.{name}": "x"})], "app")


def test_state_in_memory_has_no_standbys() -> None:
    assert _build(standby__replicas="2").placement.standbys == 2
    with pytest.raises(InvalidConfig, match=r"state\.backend=memory has no standbys"):
        _build(standby__replicas=1, state__backend="memory")
    assert _build(standby__replicas=0, state__backend="memory").placement.standbys == 0


def test_state_in_memory_has_no_snapshots() -> None:
    assert _build(snapshot__uri="/mnt/snapshots").snapshots.uri == "/mnt/snapshots"
    with pytest.raises(InvalidConfig, match=r"state\.backend=memory has no snapshots"):
        _build(snapshot__uri="/mnt/snapshots", state__backend="memory")


@pytest.mark.parametrize(
    "uri",
    ["", "/mnt/snapshots", "file:///mnt/s", "s3://bucket/jobs?region=eu-central-1", "gs://b/jobs",
     "hdfs://name:8020/jobs", "abfs://container@account.dfs.core.windows.net/jobs"],
)  # fmt: skip
def test_a_place_of_snapshots_is_a_path_or_a_uri(uri: str) -> None:
    assert _build(snapshot__uri=uri).snapshots.uri == uri


@pytest.mark.parametrize("uri", ["relative/path", "ftp://host/x", "s3:/bucket", "bucket:x"])
def test_anything_else_is_refused(uri: str) -> None:
    with pytest.raises(InvalidConfig, match=r"snapshot\.uri \(test\): .* it takes: an absolute"):
        build_settings([Origin("test", {"snapshot.uri": uri})], "app")


@pytest.mark.parametrize("uri", ["s3://AKIA:hush@bucket/x", "abfs://AKIA:hush@account/x"])
def test_credentials_in_a_place_are_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(InvalidConfig, match="in the environment") as caught:
        build_settings([Origin("test", {"snapshot.uri": uri})], "app")
    assert "hush" not in str(caught.value)
    assert "AKIA" not in str(caught.value)


def test_sql_does_not_say_where_snapshots_are() -> None:
    for key in ("snapshot.uri", "snapshot.interval.ms", "snapshot.retained"):
        with pytest.raises(InvalidConfig, match="not for SQL to set"):
            build_settings([Origin("SET", {key: "1000"}, of_statements=True)], "app")


def test_other_client_settings_pass_as_text() -> None:
    settings = build_settings(
        [Origin("t", {"kafka.security.protocol": "SSL", "kafka.log.queue": True})], "app"
    )
    assert settings.kafka == {"security.protocol": "SSL", "log.queue": "true"}
    assert settings.client()["security.protocol"] == "SSL"


def test_values_that_fit_are_taken_as_typed_or_as_text(tmp_path: Path) -> None:
    functions = tmp_path / "f.py"
    functions.touch()
    settings = _build(
        bootstrap__servers="a:1, [::1]:2",
        fail__on__data__loss="False",
        max__offsets__per__trigger="1_000",
        deserialization__error="FAIL",
        functions=[str(functions)],
        application__id="mine",
    )
    assert settings.bootstrap_servers == "a:1,[::1]:2"
    assert settings.ingest.fail_on_data_loss is False
    assert settings.ingest.max_offsets_per_trigger == 1_000
    assert settings.ingest.on_undecodable == "fail"
    assert settings.functions == (str(functions),)
    assert settings.application_id == "mine"


def test_ksqldb_spelling_of_streams_properties_is_understood() -> None:
    origin = Origin("SET", {"ksql.streams.auto.offset.reset": "latest"})
    assert build_settings([origin], "app").ingest.auto_offset_reset == "latest"


def test_properties_of_statements_are_given_by_set_alone() -> None:
    given = {
        "emit": "record",
        "ksql.timestamp.throw.on.invalid": "true",
        "ksql.functions.collect_list.limit": "3",
    }
    assert build_settings([Origin("SET", given, of_statements=True)], "app") == Settings("app")
    with pytest.raises(InvalidConfig) as caught:
        build_settings([Origin("--set", given)], "app")
    assert str(caught.value).count("for statements only; SET it in the SQL file") == len(given)
    with pytest.raises(InvalidConfig, match="it takes: batch, record"):
        build_settings([Origin("SET", {"emit": "now"}, of_statements=True)], "app")


def test_only_our_variables_are_properties() -> None:
    origin = from_environment(
        {
            "PATH": "/bin",
            "HOLDFAST_LOCAL_KAFKA_JARS": "/jars",
            "HOLDFAST_CLASS_ARCHIVE": "off",
            "HOLDFAST_CLI_DEBUG": "1",
            "HOLDFAST_ROCKSDB_BLOCK_CACHE_BYTES": "2000000",
            "HOLDFAST_KAFKA_SECURITY_PROTOCOL": "SSL",
        }
    )
    assert origin.values == {
        "rocksdb.block.cache.bytes": "2000000",
        "kafka.security.protocol": "SSL",
    }


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_every_property_can_be_named_by_a_variable(name: str) -> None:
    variable = "HOLDFAST_" + name.upper().replace(".", "_")
    assert set(from_environment({variable: "x"}).values) == {name}


def test_yaml_may_nest(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("rocksdb:\n  compression: none\n  block:\n    bytes: 4096\n")
    settings = build_settings([from_yaml(file)], "app")
    assert settings.state.rocksdb.compression == "none"
    assert settings.state.rocksdb.block_bytes == 4096


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "is not YAML"), ("- 1\n", "holds a list"), ("\xff", "is not YAML")],
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidConfig, match=message):
        from_yaml(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"no\.yaml cannot be read \(No such file"):
        from_yaml(tmp_path / "no.yaml")


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("# nothing yet\n")
    assert from_yaml(file).values == {}


def test_an_override_needs_a_value_and_may_hold_equal_signs() -> None:
    assert from_overrides(["kafka.sasl.jaas.config=a=b"]).values == {
        "kafka.sasl.jaas.config": "a=b"
    }
    with pytest.raises(InvalidConfig, match=r"not 'executors'"):
        from_overrides(["executors"])


@pytest.mark.parametrize(
    ("file", "expected"),
    [("flights.sql", "flights"), ("a b/ä c.sql", "c"), ("...sql", "holdfast"), ("x.y.sql", "x.y")],
)
def test_the_application_id_follows_from_the_file(file: str, expected: str) -> None:
    assert application_id_of(Path(file)) == expected


def test_a_file_of_functions_may_be_given_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.py").touch()
    monkeypatch.chdir(tmp_path)
    assert _build(functions="f.py").functions == (str(tmp_path / "f.py"),)


_REMOTE = {"state__backend": "remote", "state__remote__uri": "redis://db:6379/0"}


@pytest.mark.parametrize(
    "uri",
    [
        "redis://clerk:canary@db:6379/0", "redis://:canary@db", "http://db", "redis:///1",
        "redis://db/rows", "redis://db/0?password=canary", "redis://db:99999", "dynamodb:///rows",
        "dynamodb://id:canary@eu-west-1/rows", "dynamodb://eu-west-1", "dynamodb://eu-west-1/a/b",
        "dynamodb://eu-west-1:80/rows", "dynamodb://eu-west-1/rows?key=canary",
    ],
)  # fmt: skip
def test_a_database_is_a_server_and_a_number_without_credentials(uri: str) -> None:
    with pytest.raises(InvalidConfig, match=r"state\.remote\.uri") as refused:
        _build(state__backend="remote", state__remote__uri=uri)
    assert "canary" not in str(refused.value)


def test_a_remote_store_has_a_database() -> None:
    with pytest.raises(InvalidConfig, match=r"state\.backend=remote needs a database"):
        _build(state__backend="remote")
    assert not _build(**_REMOTE).state.on_volumes


def test_dynamodb_has_no_user_of_its_own() -> None:
    remote = {"state__backend": "remote", "state__remote__uri": "dynamodb://eu-west-1/holdfast"}
    assert _build(**remote).state.remote.uri == "dynamodb://eu-west-1/holdfast"
    with pytest.raises(InvalidConfig) as refused:
        _build(**remote, state__remote__user="me", state__remote__password__file="/p")
    assert "state.remote.user: DynamoDB has none" in str(refused.value)
    assert "state.remote.password.file: DynamoDB has none" in str(refused.value)


def test_a_remote_store_has_neither_standbys_nor_snapshots() -> None:
    with pytest.raises(InvalidConfig) as refused:
        _build(**_REMOTE, standby__replicas=1, snapshot__uri="/mnt/snapshots")
    assert "standby.replicas: state.backend=remote has no standbys" in str(refused.value)
    assert "snapshot.uri: state.backend=remote has no snapshots" in str(refused.value)


def test_executors_find_the_password_of_a_database_in_whatever_folder_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = _build(state__remote__password__file="password")
    assert found.state.remote.password_file == str(tmp_path / "password")
