"""The local schema registry: start, kill, start again, stop."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psutil
import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli, main
from holdfast.config.versions import REGISTRY_VERSION
from holdfast.errors import Refused, RegistryUnavailable
from holdfast.ingest.formats import key_decoder, value_decoder
from holdfast.local.broker import BrokerStatus, LocalKafka
from holdfast.local.ivy import REPOSITORY_VARIABLE
from holdfast.local.probe import free_port, taken
from holdfast.local.registry import LocalRegistry, RegistryStatus
from holdfast.sql import compile_text
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.transport.cluster.topic_settings import SettingValue, TopicSettings
from holdfast.transport.reader import PartitionReader
from holdfast.transport.registry import open_registry
from holdfast.types.columns.schema import STRING, Column
from holdfast.types.columns.schemas import SchemaKind
from holdfast.types.statements.sources import Format
from tests.support.servers.registry_2 import registry_2

_AVRO = '{"type": "record", "name": "R", "fields": [{"name": "f%d", "type": "int"}]}'
_MANY = 200


def test_its_topics_never_expire_by_a_setting_of_their_own(registry: RegistryStatus) -> None:
    """A broker's default of seven days would take the schemas of older records."""
    topics = ("_registry-journal", "_registry-snapshots", "_registry-events")
    found = TopicSettings({"bootstrap.servers": registry.bootstrap_servers}).of(topics)
    kept = {settings["retention.ms"] for settings in found.values()}
    assert kept == {SettingValue("-1", "topic")}


def _register(url: str, subject: str, number: int) -> int:
    answer = httpx.post(
        f"{url}/subjects/{subject}/versions", json={"schema": _AVRO % number}, timeout=60
    )
    return int(answer.raise_for_status().json()["id"])


def test_schemas_survive_a_kill_all_of_them_and_under_their_ids(
    own_registry: LocalRegistry,
) -> None:
    """It serves before it has read its topics: a start must wait until it has."""
    first = own_registry.start(port=0)
    assert own_registry.start(port=0) == first
    connections = psutil.Process(first.pid).net_connections()
    listening = {c.laddr[0] for c in connections if c.status == "LISTEN" and c.laddr}
    assert listening
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}  # no other interface
    ids = {n: _register(first.url, f"kept-{n}", n) for n in range(_MANY)}
    with pytest.raises(Refused, match=rf"runs on port {first.port} already"):
        own_registry.start(port=free_port())
    os.kill(first.pid, signal.SIGKILL)
    psutil.Process(first.pid).wait(60)
    assert own_registry.status() is None

    second = own_registry.start(port=0)
    subjects = httpx.get(f"{second.url}/subjects", timeout=60).json()
    assert {f"kept-{n}" for n in range(_MANY)} <= set(subjects)
    for number in (0, _MANY - 1):
        found = httpx.get(f"{second.url}/schemas/ids/{ids[number]}", timeout=60).json()
        assert f"f{number}" in found["schema"]
    assert _register(second.url, "another", _MANY) > max(ids.values())

    assert own_registry.stop() is True
    assert not psutil.pid_exists(second.pid)
    assert not taken(second.port)
    assert own_registry.stop() is False


def test_a_json_schema_of_a_single_value_is_taken(registry: RegistryStatus) -> None:
    """Apicurio wants to be told that it is one; ksqlDB's schemas do not say it."""
    client = open_registry({"url": registry.url})
    language = LANGUAGES[Format.JSON_SR]
    for unwrapped in (True, False):
        schema = language.schema_of([Column("ID", STRING)], "", unwrapped=unwrapped)
        first = client.register(f"json-{unwrapped}", schema)
        assert client.register(f"json-{unwrapped}", schema) == first
        found = client.latest(f"json-{unwrapped}")
        assert found is not None
        assert (found.id, found.version) == (first, 1)
        assert client.by_id(first).kind is SchemaKind.JSON
        columns = language.columns_of(found.schema, "", unwrapped=unwrapped, key=True)
        assert [c.type for c in columns] == [STRING]


@pytest.mark.parametrize("form", [Format.AVRO, Format.JSON_SR])
def test_produce_writes_a_stream_in_its_formats(
    registry: RegistryStatus, kafka: BrokerStatus, tmp_path: Path, form: Format
) -> None:
    topic = f"produced-{form}-{tmp_path.name}"
    statements, lines = tmp_path / "x.sql", tmp_path / "x.ndjson"
    statements.write_text(
        "CREATE STREAM orders (id BIGINT KEY, item STRING, price DECIMAL(6, 2), t ARRAY<STRING>) "
        f"WITH (KAFKA_TOPIC='{topic}', FORMAT='{form}', PARTITIONS=1);"
    )
    rows = [{"id": i, "item": f"i{i}", "price": i / 4, "t": ["a"]} for i in range(2_500)]
    lines.write_text("".join(json.dumps(r) + "\n" for r in rows))
    properties = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "schema.registry.url": registry.url,
    }
    options = [o for p in properties.items() for o in ("--set", "=".join(p))]
    given = ["produce", str(lines), "--statements", str(statements), "--source", "orders"]
    assert main([*given, *options]) == 0
    schemas = open_registry({"url": properties["schema.registry.url"]})
    source = compile_text(statements.read_text()).sources[0]
    reader = PartitionReader({"bootstrap.servers": kafka.bootstrap_servers}, topic, 0)
    start, end = reader.bounds()
    chunks = list(reader.read(start, end))
    reader.close()
    keys = [k for c in chunks for k in c.keys]
    values = [v for c in chunks for v in c.values]
    key = key_decoder(form, source.key_columns, source.key_columns, schemas=schemas).decode(keys)
    value = value_decoder(form, source.value_columns, source.value_columns, schemas=schemas)
    found = value.decode(values)
    assert not key.bad
    assert not found.bad
    assert key.columns[0].to_pylist() == [r["id"] for r in rows]
    assert found.columns[0].to_pylist() == [r["item"] for r in rows]
    assert found.columns[1].cast("float64").to_pylist() == [r["price"] for r in rows]


def test_without_kafka_it_says_what_to_start(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"Kafka .* does not run") as refused:
        LocalRegistry(tmp_path).start()
    assert "holdfast kafka start" in refused.value.action
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_named_with_its_holder(own_registry: LocalRegistry) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Refused, match=rf"Port {port} .* in use by pid {os.getpid()}"):
            own_registry.start(port=port)
    assert own_registry.status() is None


def test_a_mirror_that_gives_another_archive_is_found_out(
    own_registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "apicurio-registry-app"
    folder = tmp_path / "mirror/io/apicurio" / name / REGISTRY_VERSION
    folder.mkdir(parents=True)
    (folder / f"{name}-{REGISTRY_VERSION}-all.tar.gz").write_bytes(b"another's")
    handler = functools.partial(_Quiet, directory=str(tmp_path / "mirror"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv(REPOSITORY_VARIABLE, f"http://127.0.0.1:{server.server_port}/")
        with pytest.raises(Refused, match="is not the pinned one"):
            own_registry.start(port=0)
        server.shutdown()
    monkeypatch.setenv(REPOSITORY_VARIABLE, f"http://127.0.0.1:{free_port()}/")
    with pytest.raises(RegistryUnavailable, match="could not be downloaded") as caught:
        own_registry.start(port=0)
    assert "schema.registry.url" in caught.value.action
    kept = [p for p in (tmp_path / "cache/holdfast").iterdir() if p.is_dir()]
    assert kept == []


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_commands_of_a_home_end_the_registry_with_its_kafka(tmp_path: Path) -> None:
    """And a reset home knows no schema."""
    ask = CliRunner()
    home = ["--home", str(tmp_path)]
    try:
        LocalKafka(tmp_path).start(port=0)
        assert ask.invoke(cli, ["registry", "status", *home], obj={}).exit_code == 3
        started = ask.invoke(cli, ["registry", "start", *home, "--port", "0"], obj={})
        assert started.exit_code == 0, started.output
        running = LocalRegistry(tmp_path).status()
        assert running is not None
        assert running.url in started.output
        assert running.url in ask.invoke(cli, ["registry", "status", *home], obj={}).output
        _register(running.url, "gone", 1)
        ended = ask.invoke(cli, ["kafka", "stop", *home], obj={})
        assert ended.output == "The registry stopped.\nKafka stopped.\n"
        assert not psutil.pid_exists(running.pid)

        LocalKafka(tmp_path).start(port=0)
        again = LocalRegistry(tmp_path).start(port=0)
        assert httpx.get(f"{again.url}/subjects", timeout=60).json() == ["gone"]
        ask.invoke(cli, ["kafka", "reset", *home], obj={})
        assert not psutil.pid_exists(again.pid)
        assert list(tmp_path.iterdir()) == []
    finally:
        LocalRegistry(tmp_path).wipe()
        LocalKafka(tmp_path).wipe()


def test_apicurio_2_speaks_the_same_api(tmp_path: Path) -> None:
    with registry_2(tmp_path) as url:
        number = _register(url, "old", 1)
        assert "f1" in httpx.get(f"{url}/schemas/ids/{number}", timeout=60).json()["schema"]
