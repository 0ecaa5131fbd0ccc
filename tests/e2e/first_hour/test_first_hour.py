"""A stranger's first hour: their own data, six statements, four ways to ask."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.first_hour.answers import by_client, by_command, by_console, by_curl
from tests.e2e.first_hour.counts import Counted, Rows, counted
from tests.e2e.first_hour.shop import Shop, make_shop
from tests.e2e.first_hour.transcript import Transcript, not_for_people
from tests.support.place import Place

pytestmark = pytest.mark.timeout(900)  # an hour's work takes three minutes on an idle machine

_HERE = Path(__file__).parent
_FILES = ("orders.sql", "my_functions.py", "producer.py")
_CAUGHT_UP_S = 300
_WITH = "--set functions=my_functions.py"
_WAYS: tuple[Callable[[Transcript, str, Counted], Rows], ...] = (
    by_command,
    by_curl,
    by_client,
    by_console,
)


@pytest.fixture
def seed() -> int:
    """`FIRST_HOUR_SEED` repeats a run."""
    seed = int(os.environ.get("FIRST_HOUR_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"FIRST_HOUR_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    return seed


@pytest.fixture
def shop(seed: int, tmp_path: Path) -> Shop:
    made = make_shop(seed)
    made.write(tmp_path, random.Random(seed))
    for name in _FILES:
        shutil.copy(_HERE / name, tmp_path)
    return made


@pytest.fixture
def transcript(tmp_path: Path, seed: int) -> Iterator[Transcript]:
    place = Place(tmp_path)
    place.make_tools()
    path = Path(os.environ.get("FIRST_HOUR_TRANSCRIPT") or tmp_path / "transcript.txt")
    path.write_text("", encoding="utf-8")
    made = Transcript(place, path)
    made.note(f"# FIRST_HOUR_SEED={seed}\n\n")
    try:
        yield made
    finally:
        for last in ("holdfast undeploy orders", "holdfast kafka stop"):
            place.start(last).communicate()


def test_a_first_hour(shop: Shop, transcript: Transcript) -> None:
    began = time.monotonic()
    _send(transcript)
    _deploy(transcript)
    url = _caught_up(transcript)
    for asked in counted(shop):
        assert asked.rows
        for way in _WAYS:
            _check_same(way(transcript, url, asked), asked, way.__name__)
    _look(shop, transcript)
    assert "orders is undeployed" in transcript.run("holdfast undeploy orders")
    assert "Kafka stopped" in transcript.run("holdfast kafka stop")
    transcript.note(f"# {(time.monotonic() - began) / 60:.1f} minutes in all\n")
    assert not_for_people(transcript.text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "org.apache.kafka.common.errors.TimeoutException: no broker",
        "\tat org.apache.spark.SparkContext.runJob(SparkContext.scala:2488)",
        "26/11/28 02:03:17 WARN NativeCodeLoader: Unable to load native-hadoop library",
        "py4j.protocol.Py4JJavaError: An error occurred",
        "DeprecationWarning: read_text is deprecated",
    ],
)
def test_lines_that_no_stranger_understands_are_found(line: str) -> None:
    assert not_for_people(f"all is well\n{line}\nwarning: 5 of 10 input records") == [line]


def _send(transcript: Transcript) -> None:
    started = transcript.run("holdfast kafka start")
    (kafka,) = re.findall(r"runs at (\S+)", started)
    transcript.run("holdfast kafka topic orders 3")
    transcript.run("holdfast kafka topic customers 2")
    transcript.run(f"python producer.py {kafka}")


def _deploy(transcript: Transcript) -> None:
    transcript.run(f"holdfast explain orders.sql {_WITH}")
    assert "can be deployed" in transcript.run(f"holdfast check orders.sql {_WITH}")
    transcript.run(f"holdfast deploy orders orders.sql {_WITH} --servers 1")


def _caught_up(transcript: Transcript) -> str:
    """Waits until every query has read what the one before it has written; the server's address."""
    deadline, seen = time.monotonic() + _CAUGHT_UP_S, 0
    while seen < 3:  # a query may have caught up with one that has not
        assert time.monotonic() < deadline, transcript.run("holdfast status orders")
        found = json.loads(transcript.quietly("holdfast status orders --json"))
        seen = seen + 1 if found["caught_up"] and found["lag"] == 0 else 0
        time.sleep(1)  # else a good part of the machine is busy with the question
    transcript.run("holdfast status orders")
    transcript.run(f"holdfast smoke orders.sql {_WITH}")
    url: str = found["servers"][0]["url"]
    return url


def _check_same(found: Rows, asked: Counted, way: str) -> None:
    missing, more = asked.rows - found, found - asked.rows
    assert not missing + more, (
        f"{asked.name} {way}: {missing.total()} rows are missing, such as {list(missing)[:3]}; "
        f"{more.total()} should not be there, such as {list(more)[:3]}"
    )


def _look(shop: Shop, transcript: Transcript) -> None:
    """Dead letters, rows and their verdict."""
    transcript.run("holdfast inspect RUSHES orders.sql --limit 5" + f" {_WITH}")
    transcript.run("holdfast dead-letters orders")
    letters = json.loads(transcript.quietly("holdfast dead-letters orders --json"))
    assert len(letters["letters"]) == len(shop.undecodable)
    assert "verdict: valid" in transcript.run(f"holdfast verify orders.sql {_WITH}")
