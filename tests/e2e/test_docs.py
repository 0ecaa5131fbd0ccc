"""The commands of README and jobs/docs as a reader types them, in one folder with one broker."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from holdfast.config.table import markdown
from holdfast.local.broker import LocalKafka
from holdfast.local.probe import free_port
from tests.e2e.first_hour.transcript import not_for_people
from tests.support.doc_commands import SCENES, make_workspace
from tests.support.place import COMMAND_S, PORT, Place

pytestmark = pytest.mark.timeout(600)


def play(place: Place, scene: str) -> dict[str, str]:
    """Runs a scene's commands; returns what each one prints."""
    return {command: place.run(command) for command in SCENES[scene]}


def _one(told: dict[str, str], words: str) -> str:
    (found,) = [text for command, text in told.items() if words in command]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A folder in which the quick start has been followed and `movies` is deployed."""
    folder = make_workspace(tmp_path_factory.mktemp("reader"))
    made = Place(folder, free_port())
    made.make_tools()
    try:
        told = play(made, "quick start") | play(made, "deploy")
        assert "Aliens" in _one(told, "inspect")
        assert "valid" in _one(told, "verify")
        assert [line for text in told.values() for line in not_for_people(text)] == []
        yield made
        play(made, "the end")
    finally:
        for last in ("holdfast undeploy movies", "holdfast kafka stop"):
            made.start(last).communicate(timeout=COMMAND_S)


def test_sql(place: Place) -> None:
    told = play(place, "sql")
    assert "JSON_RECORDS" in _one(told, "functions json")
    assert "RANGE_OF" in _one(told, "explain")
    assert "CTAS_MOVIE_TICKETS_SOLD" in _one(told, "SHOW QUERIES").upper()


def test_statements_are_tested(place: Place) -> None:
    for text in play(place, "tests of statements").values():
        assert "1 passed" in text


def test_messages_and_a_registry(place: Place) -> None:
    told = play(place, "schema registry")
    assert "optional int32 CENTS = 1;" in _one(told, "explain")
    assert "Aliens" in _one(told, "inspect")
    assert "2 partitions committed" in _one(told, "smoke")
    assert "The registry runs at http://127.0.0.1:" in _one(told, "registry start")
    assert "/apis/ccompat/v7" in _one(told, "registry status")
    assert "The registry stopped." in _one(told, "registry stop")


def test_serving(place: Place) -> None:
    serve, *others = SCENES["serving"]
    with _serving(place, serve):
        told = {command: place.run(command) for command in others}
    assert "Aliens" in _one(told, "WHERE title")
    assert len(json.loads(_one(told, "curl"))["rows"]) > 1
    assert _one(told, "EMIT CHANGES").count('"TITLE"') == 3
    assert "MOVIE_*" in (place.folder / "tokens.toml").read_text(encoding="utf-8")


@contextmanager
def _serving(place: Place, command: str) -> Iterator[None]:
    """The server while it answers; it is ended as by Ctrl-C."""
    process = place.start(f"exec {command} --listen 127.0.0.1{PORT}")
    try:
        told: Sequence[str] = iter(process.stdout or ())  # type: ignore[assignment]
        assert any("answers at" in line for line in told)
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=COMMAND_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_compaction(place: Place) -> None:
    told = play(place, "compaction")
    assert "changelog" in _one(told, "survey")
    assert "plan.json" in _one(told, "plan")


def test_looking_in(place: Place) -> None:
    told = play(place, "looking in")
    assert _one(told, "config --markdown") == markdown()
    assert json.loads(_one(told, "--json"))
    assert "MOVIE_TICKETS_SOLD" in told["holdfast inspect"]
    assert "belongs to" in told["holdfast sinks"]


def test_your_own_data(place: Place) -> None:
    """The page from its first line to its last, with the broker's port in place of its 9092.

    The last one: `holdfast inspect` shows the job that has run last.
    """
    kafka = LocalKafka(place.folder / ".holdfast").status()
    assert kafka is not None
    producer = place.folder / "producer.py"
    text = producer.read_text(encoding="utf-8")
    producer.write_text(text.replace("localhost:9092", kafka.bootstrap_servers), encoding="utf-8")
    commands = list(SCENES["your own data"])
    serve = next(command for command in commands if command.startswith("holdfast serve"))
    before, after = commands[: commands.index(serve)], commands[commands.index(serve) + 1 :]
    told = {command: place.run(command) for command in before}
    with _serving(place, serve):
        told |= {command: place.run(command) for command in after}
    assert "4 partitions" in _one(told, "kafka topic")
    assert "cellar" in _one(told, "inspect")
    assert "attic" in _one(told, "WHERE room")
    assert _one(told, "EMIT CHANGES").count('"WARMEST"') == 2
    assert "no JSON at all" in told["holdfast dead-letters rooms"]
    assert "Written to their source topics again: 1 record." in _one(told, "--replay")
    refused = place.folder / "rooms-3.sql"
    changed = (place.folder / "rooms.sql").read_text(encoding="utf-8")
    refused.write_text(changed.replace("MAX(", "MIN(celsius) AS coldest, MAX("), encoding="utf-8")
    told_why = place.run("holdfast check rooms-3.sql --set application.id=rooms", status=2)
    assert "MIN(CELSIUS) is new" in told_why
