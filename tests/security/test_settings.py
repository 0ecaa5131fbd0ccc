"""Statements come from more people than run a job: what SET in them may reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.statements.options import load_job
from holdfast.config.load import Origin, build_settings
from holdfast.config.properties import PROPERTIES, default_text
from holdfast.config.sql_properties import SQL_MAY_SET, refused_in_sql
from holdfast.config.statement_properties import LIMIT
from holdfast.config.values import name, servers
from holdfast.errors import InvalidConfig, InvalidStatement
from holdfast.sql import compile_text

_TABLE = """CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""
# What starts programs, opens files, names connections, or is for who runs processes.
_NEVER = (
    "application.id", "bootstrap.servers", "driver.lease", "driver.memory.mb",
    "executor.memory.mb", "executors",
    "executors.keep", "functions", "home", "metrics.port", "spark.master", "spark.secret.file",
    "savepoint.from", "savepoint.topics", "snapshot.interval.ms", "snapshot.retained",
    "snapshot.uri", "standby.replicas",
    "state.cleanup.delay.ms", "state.dir", "state.remote.password.file",
    "state.remote.timeout.ms", "state.remote.uri", "state.remote.user",
    "tracing.endpoint", "tracing.links", "tracing.sample.share",
    "kafka.plugin.library.paths", "kafka.sasl.kerberos.kinit.cmd", "kafka.bootstrap.servers",
    "kafka.sasl.password", "kafka.sasl.password.file", "kafka.ssl.engine.location",
    "kafka.ssl.ca.location", "kafka.debug", "kafka.client.id", "kafka.",
)  # fmt: skip
# How the same SET can be written so that a look for `SET '<name>'` does not find it.
_WRITTEN = (
    "SET '{name}' = '1';",
    "set\n\t'{name}'='1';",
    "SET/**/'{name}'/* -- */='1';",
    "SET -- ';\n '{name}' = '1';",
    "SET 'emit'='--'; SET '{name}' = '1';",
    "SET 'ksql.streams.{name}' = '1';",
    "DEFINE n = '{name}'; SET '${{n}}' = '1';",
)


def _load(folder: Path, text: str) -> None:
    file = folder / "job.sql"
    file.write_text(text + _TABLE)
    load_job(file, None, [], str(folder))


@pytest.mark.parametrize("written", _WRITTEN)
@pytest.mark.parametrize("given", _NEVER)
def test_a_reserved_setting_is_refused_however_its_set_is_written(
    tmp_path: Path, given: str, written: str
) -> None:
    text = written.format(name=given)
    with pytest.raises((InvalidConfig, InvalidStatement), match="not for SQL to set"):
        _load(tmp_path, text)
    # A session and a query server plan without settings.
    with pytest.raises(InvalidStatement, match="not for SQL to set"):
        compile_text(text + _TABLE)


def test_functions_named_in_sql_do_not_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    functions = tmp_path / "evil.py"
    functions.write_text(f"open({str(ran)!r}, 'w')\n")
    with pytest.raises(InvalidConfig, match="functions"):
        _load(tmp_path, f"SET 'functions' = '{functions}';")
    assert not ran.exists()


def test_every_property_is_thought_about() -> None:
    """A new one is refused in SQL until it is put on one of the two lists."""
    never = {n for n in PROPERTIES if refused_in_sql(n)}
    assert set(PROPERTIES) >= SQL_MAY_SET
    assert never == {
        n for n in PROPERTIES if n in _NEVER or n.startswith(("serve.", "schema.registry."))
    }


@pytest.mark.parametrize("allowed", sorted(SQL_MAY_SET))
def test_what_is_about_the_statements_may_be_set(tmp_path: Path, allowed: str) -> None:
    values = {"dead.letter.topic": "letters", "ksql.output.topic.name.prefix": "p-"}
    value = values.get(allowed) or default_text(PROPERTIES[allowed])
    _load(tmp_path, f"SET '{allowed}' = '{value}';")


@pytest.mark.parametrize(
    "key", ["ksql.streams.ksql.streams.ksql.streams.home", "Functions", " functions", "functions\n"]
)
def test_what_looks_like_a_setting_is_none(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidConfig, match="no such property"):
        _load(tmp_path, f"SET '{key}' = '{tmp_path}/x.py';")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\x0b", " \n"])
def test_a_newline_at_the_end_passes_no_guard(end: str) -> None:
    with pytest.raises(ValueError, match="other characters"):
        name(100).parse(f"a{end}b")
    assert name(100).parse(f"a{end}") == "a"  # stripped, not passed on
    assert servers().parse(f"h:1{end}") == "h:1"
    assert not LIMIT.fullmatch(f"ksql.functions.collect_list.limit{end}")
    given = {f"ksql.functions.collect_list.limit{end}": "1"}
    with pytest.raises(InvalidConfig, match="no such property"):
        build_settings([Origin("SET", given, of_statements=True)], "x")
