"""Kafka's jars by the real Ivy, from repositories that fail."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from holdfast.errors import KafkaUnavailable
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
        assert second == ["waiting for another process that downloads Kafka"]
        repository.close()
        one.join(60)
        two.join(60)
        assert first[0].startswith("downloading Kafka")
        assert second[1].startswith("downloading Kafka")
