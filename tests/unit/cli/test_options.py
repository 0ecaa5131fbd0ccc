from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.statements.options import Sql, load_job, load_settings
from holdfast.config.settings import Settings
from holdfast.errors import InvalidConfig, InvalidStatement, Unsupported
from holdfast.local.registry import RegistryStatus
from holdfast.types.births import born

_TABLE = """
CREATE STREAM s (k VARCHAR, v DOUBLE) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
CREATE TABLE t AS SELECT k, {call} AS r FROM s GROUP BY k EMIT CHANGES;
"""
_FUNCTIONS = """
from holdfast.tasks.aggregates.user import aggregate

@aggregate("{name}", args=["DOUBLE"], returns="DOUBLE")
class Product:
    def init(self): return 1.0
    def update(self, state, x): return state * x
    def merge(self, a, b): return a * b
    def finish(self, state): return state
"""


def _file(folder: Path, text: str, name: str = "my job.sql") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_statements_and_properties_become_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_EXECUTORS", "5")
    text = "SET 'state.partitions' = '3'; SET 'replication.factor' = '2';" + _TABLE.format(
        call="SUM(v)"
    )
    overrides = ["replication.factor=1"]
    job = load_job(_file(tmp_path, text), None, overrides, str(tmp_path))
    assert job.settings.application_id == "my-job"
    assert job.settings.state.partitions == 3
    assert job.settings.state.changelog_replicas == 1
    assert job.settings.placement.executors == 5
    assert job.settings.home == str(tmp_path)
    # No Kafka runs in this home: the default stays.
    assert job.settings.bootstrap_servers == Settings("x").bootstrap_servers
    assert [q.id for q in job.topology.queries] == ["ctas_t"]


def test_the_registry_of_a_home_is_that_of_jobs_on_the_same_broker(tmp_path: Path) -> None:
    """Its ids would mean something else in records of another Kafka."""
    (tmp_path / "registry").mkdir()
    status = RegistryStatus(os.getpid(), born(), 18_999, "127.0.0.1:18998")
    (tmp_path / "registry" / "registry.json").write_text(json.dumps(asdict(status)))

    def url(*overrides: str) -> str:
        return load_settings(None, overrides, str(tmp_path)).registry.url

    assert url("bootstrap.servers=127.0.0.1:18998") == status.url
    assert url("bootstrap.servers=localhost:18998") == status.url
    assert url("bootstrap.servers=kafka:18998") == ""
    for key in ("schema.registry.url", "ksql.schema.registry.url"):
        assert url("bootstrap.servers=127.0.0.1:18998", f"{key}=http://x:1") == "http://x:1"
    assert load_settings(None, ["bootstrap.servers=localhost:18998"], None).registry.url == ""


def test_unset_takes_a_property_back(tmp_path: Path) -> None:
    text = "SET 'state.partitions' = '3'; UNSET 'state.partitions';" + _TABLE.format(call="SUM(v)")
    job = load_job(_file(tmp_path, text), None, [], None)
    assert job.settings.state.partitions == Settings("x").state.partitions


def test_functions_are_known_to_the_statements_and_set_may_not_name_them(tmp_path: Path) -> None:
    functions = _file(tmp_path, _FUNCTIONS.format(name="PRODUCT_OF"), "product.py")
    statement = _TABLE.format(call="PRODUCT_OF(v)")
    with pytest.raises(InvalidStatement, match="PRODUCT_OF"):
        load_job(_file(tmp_path, statement), None, [], None)
    named = _file(tmp_path, f"SET 'functions' = '{functions}';" + statement)
    with pytest.raises(InvalidConfig, match=r"functions .* not for SQL to set"):
        load_job(named, None, [], None)
    job = load_job(_file(tmp_path, statement), None, [f"functions={functions}"], None)
    assert job.settings.functions == (str(functions),)
    assert "PRODUCT_OF" in str(job.topology.queries[0].step)


def test_a_wrong_property_in_the_file_is_named_with_the_file(tmp_path: Path) -> None:
    path = _file(tmp_path, "SET 'state.partition' = '3';" + _TABLE.format(call="SUM(v)"))
    with pytest.raises(InvalidConfig, match=r"state\.partition \(SET in .*my job\.sql\)"):
        load_job(path, None, [], None)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidStatement, match=r"no\.sql cannot be read: No such file"):
        load_job(tmp_path / "no.sql", None, [], None)
    with pytest.raises(InvalidStatement, match="cannot be read: Is a directory"):
        load_job(tmp_path, None, [], None)
    path = tmp_path / "latin.sql"
    path.write_bytes(b"-- \xe9\n")
    with pytest.raises(InvalidStatement, match=r"is not UTF-8 text \(byte 3\)"):
        load_job(path, None, [], None)


def test_explain_prints_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _file(tmp_path, _TABLE.format(call="SUM(v)"))
    assert main(["explain", str(path)]) == 0
    out = capsys.readouterr().out
    assert "Query ctas_t" in out
    assert "Source STREAM S" in out


def test_explain_points_at_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _file(tmp_path, _TABLE.format(call="SUM(w)"))
    assert main(["explain", str(path)]) == 2
    assert (
        "Error: line 3, column 33: SELECT column 'W' cannot be resolved" in capsys.readouterr().err
    )


def test_what_comes_later_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        load_job(_file(tmp_path, "SELECT * FROM s;"), None, [], None)


def test_statements_may_be_given_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _TABLE.format(call="SUM(v)")
    assert main(["explain", "--sql", text]) == 0
    given = capsys.readouterr().out
    assert main(["explain", str(_file(tmp_path, text))]) == 0
    assert capsys.readouterr().out == given


def test_just_one_of_file_and_text_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["x.sql", "--sql", "SELECT 1;"]):
        assert main(["check", *arguments]) == 2
        assert "Give either SQL_FILE or --sql TEXT." in capsys.readouterr().err


def test_statements_without_a_file_are_named_after_the_first_table_that_they_make() -> None:
    table = _TABLE.format(call="SUM(v)")
    sql = Sql(given=f"{table} CREATE TABLE other AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;")
    assert load_job(sql, None, [], None).settings.application_id == "t"
    source = table[: table.index("CREATE TABLE")]
    with pytest.raises(InvalidConfig, match="make no table or stream to call the job by"):
        load_job(Sql(given=source), None, [], None)
    assert load_job(sql, None, [], None, name="n").settings.application_id == "n"
    assert load_job(sql, None, ["application.id=o"], None).settings.application_id == "o"


def test_a_wrong_property_in_given_statements_is_named_with_the_option() -> None:
    sql = Sql(given="SET 'state.partition' = '3';" + _TABLE.format(call="SUM(v)"))
    with pytest.raises(InvalidConfig, match=r"state\.partition \(SET in --sql\)"):
        load_job(sql, None, [], None, name="n")
