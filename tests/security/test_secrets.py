"""A password that is a canary: wherever it is given, it is looked for in every place there is."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.cli.chaos.opening import asked_job
from holdfast.cli.chaos.options import JobOptions
from holdfast.cli.main import _COMMANDS, main
from holdfast.cli.statements.options import Sql, load_settings, named_properties
from holdfast.config.load import build_settings, from_overrides, from_yaml
from holdfast.config.secrets import is_secret, names_file, redacted
from holdfast.deploy.local.revisions import JobFiles, Revisions
from holdfast.errors import InvalidConfig, KafkaUnavailable
from holdfast.transport.cluster.admin import Admin
from tests.support.servers.secured_kafka import PASSWORD, SecuredKafka, Way

CANARY, USER = PASSWORD, "clerk"
_SQL = """CREATE STREAM s (k STRING KEY, v INT)
  WITH (KAFKA_TOPIC='canary-in', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Client properties of a user with a password and all rights."""
    everybody = {"super.users": f"User:ANONYMOUS;User:{USER}"}
    with SecuredKafka(tmp_path_factory.mktemp("secured"), everybody) as kafka:
        yield kafka.client(USER, Way.PLAIN)


@pytest.fixture
def config(client: dict[str, str], tmp_path: Path) -> Path:
    """Properties with the password in clear, as a user may write them."""
    file = tmp_path / "given.yaml"
    servers, *kafka = (f"{name}: {value}" for name, value in client.items())
    own = ["state.partitions: 1", "executors: 1", "kafka:", *(f"  {line}" for line in kafka)]
    file.write_text("\n".join([servers, *own, ""]))
    return file


@pytest.fixture
def sql(tmp_path: Path) -> Path:
    file = tmp_path / "canary.sql"
    file.write_text(_SQL)
    return file


# -- how a password comes in -----------------------------------------------------------------


def test_a_command_line_is_refused_with_the_ways_there_are() -> None:
    with pytest.raises(InvalidConfig) as refused:
        load_settings(None, [f"kafka.sasl.password={CANARY}", "kafka.ssl.key.pem=x"], None)
    said = str(refused.value)
    for way in ("kafka.sasl.password.file=PATH", "--config", "HOLDFAST_KAFKA_SASL_PASSWORD"):
        assert way in said
    assert "kafka.ssl.key.pem" in said
    assert CANARY not in said


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_a_yaml_file_and_the_environment_give_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    file, config = tmp_path / "password", tmp_path / "job.yaml"
    file.write_bytes(f" {CANARY}{end}".encode())
    wanted = {"sasl.password": f" {CANARY}"}
    assert load_settings(None, [f"kafka.sasl.password.file={file}"], None).kafka == wanted
    config.write_text(f"kafka.sasl.password.file: {file}\n")
    assert load_settings(config, [], None).kafka == wanted
    monkeypatch.setenv("HOLDFAST_KAFKA_SASL_PASSWORD_FILE", str(file))
    assert load_settings(None, [], None).kafka == wanted
    monkeypatch.delenv("HOLDFAST_KAFKA_SASL_PASSWORD_FILE")
    monkeypatch.setenv("HOLDFAST_KAFKA_SASL_PASSWORD", CANARY)
    assert load_settings(None, [], None).kafka == {"sasl.password": CANARY}
    # What the environment gives is this process's own: no release and no session is told.
    assert named_properties(None, []) == {}


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe" + CANARY.encode()])
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"for kafka\.sasl\.password is") as refused:
        load_settings(None, [f"kafka.sasl.password.file={file}"], None)
    assert CANARY not in str(refused.value)
    with pytest.raises(InvalidConfig, match="cannot be read"):
        load_settings(None, [f"kafka.sasl.password.file={tmp_path / 'none'}"], None)


def test_a_file_gives_no_setting_that_is_holdfasts_own(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="not yours to set"):
        load_settings(None, [f"kafka.acks.file={tmp_path}"], None)
    own = "kafka.sasl.oauthbearer.assertion.private.key.file"  # librdkafka's, a path
    assert not names_file(own)
    assert load_settings(None, [f"{own}=/p"], None).kafka == {own.removeprefix("kafka."): "/p"}


# -- where it must not come out --------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"kafka.sasl.password: {CANARY}\n  bad: [",
        f"kafka: {{sasl.password: '{CANARY}\n",
        f"kafka.sasl.password: [{CANARY}]\n",
        f"- {CANARY}\n",
        f"{CANARY}\n",
        f"kafka.sasl.password: {CANARY}\nno.such.property: 1\n",
        f"kafka.sasl.password: {CANARY}\nexecutors: many\n",
    ],
)
def test_what_is_wrong_with_a_file_is_told_without_its_content(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(InvalidConfig) as refused:
        build_settings([from_yaml(file)], "x")
    chain = [refused.value, refused.value.__cause__, refused.value.__context__]
    shown = [e for e in chain[:2] if e is not None]
    if not refused.value.__suppress_context__ and chain[2] is not None:
        shown.append(chain[2])
    assert CANARY not in "\n".join(map(str, shown))


def test_settings_do_not_show_it(config: Path) -> None:
    settings = load_settings(config, [], None)
    assert settings.client()["sasl.password"] == CANARY
    assert CANARY not in f"{settings!r} {from_yaml(config)!r} {from_overrides(['a=b'])!r}"
    assert redacted("kafka.sasl.password", CANARY) == "(not shown)"
    assert redacted("kafka.sasl.username", USER) == USER


def test_a_wrong_password_is_told_as_one(client: dict[str, str]) -> None:
    with pytest.raises(KafkaUnavailable) as refused:
        Admin(client | {"sasl.password": f"not-{CANARY}"}).wait_ready(3.0)
    assert "rejects this client" in refused.value.cause
    assert "no broker is running" not in str(refused.value)
    assert "sasl.password" in refused.value.action
    assert CANARY not in str(refused.value)


# By command, what is tried with it; everything is asked with the canary in its file of properties.
_TRIED: dict[str, list[list[str]]] = {
    "run": [], "serve": [], "deploy": [], "selftest": [], "chaos": [],  # real processes, below
    "demo": [], "kafka": [], "registry": [], "test": [], "query": [], "token": [],  # take none
    "version": [],
    "status": [], "smoke": [], "rollback": [], "undeploy": [], "stores": [], "functions": [],
    "produce": [["produce", "movies", "--config", "{config}", "--limit", "1"]],
    "dead-letters": [["dead-letters", "x", "--config", "{config}"]],
    "acls": [["acls", "{sql}", "--config", "{config}"]],
    "explain": [["explain", "{sql}", "--config", "{config}"]],
    "sql": [["sql", "{sql}", "--config", "{config}", "-e", "SHOW PROPERTIES; SHOW ALL TOPICS;"]],
    "pause": [["pause", "ctas_t", "--config", "{config}", "--timeout", "0"]],
    "resume": [["resume", "ctas_t", "--config", "{config}", "--timeout", "0"]],
    "terminate": [["terminate", "ctas_t", "--config", "{config}", "--timeout", "0"]],
    "inspect": [["inspect", "--config", "{config}"]],
    "verify": [["verify", "{sql}", "--config", "{config}"]],
    "compaction": [["compaction", "survey", "--config", "{config}"]],
    "savepoint": [["savepoint", "create", "job", "s", "--config", "{config}",
                   "--set", "snapshot.uri=/tmp", "--timeout", "1"]],
    "rescale": [["rescale", "ctas_t", "--state-partitions", "4", "--config", "{config}",
                 "--timeout", "0"]],
    "topics": [["topics", "{sql}", "--config", "{config}"]],
    "check": [["check", "{sql}", "--config", "{config}", "--json"]],
    "sinks": [["sinks", "--config", "{config}"]],
    "config": [["config"], ["config", "--markdown"]],
}  # fmt: skip


def test_every_command_is_thought_about() -> None:
    assert set(_TRIED) == set(_COMMANDS)


def test_no_command_prints_it(
    config: Path,
    sql: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    home, worked = tmp_path / "home", set()
    for arguments in (given for every in _TRIED.values() for given in every):
        filled = [part.format(config=config, sql=sql) for part in arguments]
        more = [] if filled[0] == "config" else ["--home", str(home)]
        status = main(["--log-level", "DEBUG", *filled, *more])
        worked |= {filled[0]} if status == 0 else set()
        out, err = capfd.readouterr()
        assert CANARY not in out + err, filled
        assert CANARY not in caplog.text, filled
        caplog.clear()
    assert _holding(home) == []
    # The others ask for a job that has run, and say that there is none.
    assert worked >= {"produce", "explain", "sql", "topics", "check", "config"}


def _holding(folder: Path) -> list[str]:
    """Files with the canary in them, or in their names."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    return sorted(
        str(file.relative_to(folder))
        for file in files
        if CANARY.encode() in file.read_bytes() or CANARY in str(file)
    )


def test_revisions_are_for_their_owner_alone(tmp_path: Path) -> None:
    old = tmp_path / "revision-1.yaml"
    old.write_text(CANARY)
    old.chmod(0o644)  # by an older version
    files = JobFiles("x", "SELECT", CANARY, (), "", "")
    assert CANARY not in repr(files)
    revisions = Revisions(tmp_path)
    assert revisions.add(files) == 1
    assert revisions.files(1) == files
    modes = {f.name: f.stat().st_mode & 0o777 for f in tmp_path.glob("revision-*")}
    assert modes == {"revision-1.json": 0o600, "revision-1.yaml": 0o600}


def test_a_chaos_run_keeps_no_file_with_a_password_in_it(config: Path, sql: Path) -> None:
    options = JobOptions("canary", Sql(sql), "local", "", config, (), None)
    with pytest.raises(InvalidConfig, match="chaos run keeps that file's text") as refused:
        asked_job(options)
    assert CANARY not in str(refused.value)
    password = config.with_name("password")
    password.write_text(CANARY)
    text = config.read_text().replace(f"sasl.password: {CANARY}", f"sasl.password.file: {password}")
    config.write_text(text)
    job, _, kept, overrides = asked_job(options)
    assert job.settings.kafka["sasl.password"] == CANARY
    assert CANARY not in f"{kept} {overrides}"


def test_a_deployed_job_shows_it_to_nobody(config: Path, sql: Path, tmp_path: Path) -> None:
    """Supervisor, driver, Java, executors, Python workers, a query server: their command lines and
    all that they write; and Spark's own secret as well.
    """
    home = tmp_path / "home"
    holdfast = [sys.executable, "-m", "holdfast.cli.main"]
    where = ["--home", str(home)]
    subprocess.run(
        [*holdfast, "topics", str(sql), "--config", str(config), *where],
        check=True, capture_output=True,
    )  # fmt: skip
    deploy = [*holdfast, "deploy", "canary", str(sql), "--config", str(config), "--servers", "1"]
    try:
        ran = subprocess.run([*deploy, *where], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        status = subprocess.run(
            [*holdfast, "status", "canary", "--json", *where],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        ours = [p for p in psutil.process_iter() if str(home) in " ".join(_command(p))]
        lines = "\n".join(" ".join(_command(p)) for p in ours)
        secrets = {s for p in ours if (s := _environment(p).get("_SPARK_AUTH_SECRET"))}
        written = _holding(home)
        modes = {file: (home / file).stat().st_mode & 0o777 for file in written}
    finally:
        subprocess.run([*holdfast, "undeploy", "canary", *where], check=False, capture_output=True)
    assert CANARY not in ran.stdout + ran.stderr + status + lines
    assert "spark.authenticate=true" in lines
    assert len(secrets) == 1
    assert not any(secret in lines for secret in secrets)
    revision = "deploy/canary/revision-1"
    assert modes == {f"{revision}.json": 0o600, f"{revision}.yaml": 0o600}


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def test_the_names_of_secrets() -> None:
    for name in ("sasl.password", "kafka.ssl.key.password", "SASL.PASSWORD", "ssl.key.pem"):
        assert is_secret(name)
    for name in ("sasl.password.file", "ssl.key.location", "ssl.ca.pem", "sasl.username",
                 "sasl.oauthbearer.token.endpoint.url"):  # fmt: skip
        assert not is_secret(name)
