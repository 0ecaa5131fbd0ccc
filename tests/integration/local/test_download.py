"""Kafka's jars by the real Ivy, from repositories that fail."""

from __future__ import annotations

import functools
import os
import socket
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from holdfast.config.jar_sums import jar_sums
from holdfast.config.versions import KAFKA_VERSION, LOG4J_VERSION, SCALA_VERSION
from holdfast.errors import KafkaUnavailable, Refused
from holdfast.local.jars import JARS_VARIABLE, REPOSITORY_VARIABLE, cache_folder, kafka_jars
from holdfast.local.probe import free_port


def _environment(cache: Path, repository: str) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if key != JARS_VARIABLE}
    return env | {"XDG_CACHE_HOME": str(cache), REPOSITORY_VARIABLE: repository}


def test_offline_says_what_to_do_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    env = _environment(tmp_path, f"http://127.0.0.1:{free_port()}/")
    said: list[str] = []
    with pytest.raises(KafkaUnavailable, match="could not be downloaded") as caught:
        kafka_jars(said.append, env)
    assert "kafka_2.13" in caught.value.fact
    for way_out in (JARS_VARIABLE, REPOSITORY_VARIABLE, "proxy", "bootstrap.servers"):
        assert way_out in caught.value.action
    assert said
    assert not cache_folder(env).exists()
    assert [p.name for p in (tmp_path / "holdfast").iterdir() if p.is_dir()] == []


def test_a_second_download_waits_for_the_first(tmp_path: Path) -> None:
    """The repository answers nobody until both callers are there."""
    with socket.create_server(("127.0.0.1", 0)) as repository:
        env = _environment(tmp_path, f"http://127.0.0.1:{repository.getsockname()[1]}/")
        waiting = threading.Event()

        def call(said: list[str]) -> None:
            def report(text: str) -> None:
                said.append(text)
                waiting.set()

            with pytest.raises(KafkaUnavailable):
                kafka_jars(report, env)

        first: list[str] = []
        second: list[str] = []
        one = threading.Thread(target=call, args=(first,))
        one.start()
        assert waiting.wait(30)
        waiting.clear()
        two = threading.Thread(target=call, args=(second,))
        two.start()
        assert waiting.wait(30)
        assert second == ["waiting for another process that is downloading Kafka"]
        repository.close()
        one.join(60)
        two.join(60)
        assert first[0].startswith("downloading Kafka")
        assert second[1].startswith("downloading Kafka")


def test_a_mirror_that_gives_other_jars_is_found_out(tmp_path: Path) -> None:
    """They are downloaded, and neither run nor kept."""
    mirror = tmp_path / "mirror"
    for group, name, version in (
        ("org/apache/kafka", f"kafka_{SCALA_VERSION}", KAFKA_VERSION),
        ("org/apache/logging/log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ):
        folder = mirror / group / name / version
        folder.mkdir(parents=True)
        (folder / f"{name}-{version}.pom").write_text(
            "<project><modelVersion>4.0.0</modelVersion>"
            f"<groupId>{group.replace('/', '.')}</groupId><artifactId>{name}</artifactId>"
            f"<version>{version}</version></project>"
        )
        (folder / f"{name}-{version}.jar").write_bytes(b"another's")
    handler = functools.partial(_Quiet, directory=str(mirror))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = _environment(tmp_path, f"http://127.0.0.1:{server.server_port}/")
        with pytest.raises(Refused, match="are not the pinned ones") as refused:
            kafka_jars(lambda _: None, env)
        server.shutdown()
    assert f"{len(jar_sums())} of the jars" in refused.value.fact
    assert not cache_folder(env).exists()
    assert [p.name for p in (tmp_path / "holdfast").iterdir() if p.is_dir()] == []


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass
