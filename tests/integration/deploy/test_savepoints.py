"""A local deployment that begins with the savepoint of another one, by the commands of the page."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.transport.reader import PartitionReader

pytestmark = pytest.mark.timeout(600)
WAIT_S = 240.0  # a slow machine is slow, not wrong


class Home:
    """One folder with its deployments."""

    def __init__(self, kafka: BrokerStatus, folder: Path, topic: str) -> None:
        self.servers, self.folder, self.topic = kafka.bootstrap_servers, folder, topic
        self.uri = str(folder / "place")
        self.deployed: list[str] = []
        Admin({"bootstrap.servers": self.servers}).ensure_topic(topic, 2, -1, {})

    def sql(self, sink: str, aggregate: str = "COUNT(*)") -> str:
        return (
            f"CREATE STREAM s (k STRING, v INT) WITH (KAFKA_TOPIC='{self.topic}', "
            f"VALUE_FORMAT='JSON'); CREATE TABLE t WITH (KAFKA_TOPIC="
            f"'{self.topic}-{sink}') AS SELECT k, {aggregate} AS n FROM s GROUP BY k;"
        )

    def produce(self, keys: int) -> None:
        """A record of each key."""
        producer = Producer({"bootstrap.servers": self.servers})
        for n in range(keys):
            producer.send(self.topic, b"%d" % n, orjson.dumps({"k": f"k{n}", "v": n}))
        producer.flush()

    def run(self, *arguments: str, status: int = 0) -> Any:
        """The JSON that a command prints."""
        command = [sys.executable, "-m", "holdfast.cli.main", *arguments, "--json"]
        command += ["--home", str(self.folder), "--set", f"bootstrap.servers={self.servers}"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
        assert ran.returncode == status, ran.stderr
        return json.loads(ran.stdout)

    def deploy(self, name: str, sql: str, *more: str, status: int = 0) -> Any:
        if not status:
            self.deployed.append(name)
        place = ("--set", f"snapshot.uri={self.uri}", "--executors", "1", "--timeout", f"{WAIT_S}")
        return self.run("deploy", name, "--sql", sql, *place, *more, status=status)

    def rows(self, sink: str) -> dict[bytes, int]:
        """The last value of each key in a sink."""
        found = {}
        for partition in range(2):
            topic = f"{self.topic}-{sink}"
            reader = PartitionReader({"bootstrap.servers": self.servers}, topic, partition)
            start, end = reader.bounds()
            for chunk in reader.read(start, end) if start < end else ():
                for key, value in zip(chunk.keys, chunk.values, strict=True):
                    found[key or b""] = json.loads(value or b"{}").get("N")
            reader.close()
        return found

    def until(self, sink: str, rows: dict[bytes, int]) -> None:
        deadline = time.monotonic() + WAIT_S
        while (found := self.rows(sink)) != rows:
            assert time.monotonic() < deadline, found
            time.sleep(0.5)

    def undeploy(self, name: str) -> None:
        command = [sys.executable, "-m", "holdfast.cli.main", "undeploy", name]
        command += ["--home", str(self.folder)]
        subprocess.run(command, capture_output=True, check=False, timeout=WAIT_S)


@pytest.fixture
def home(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Home]:
    made = Home(kafka, tmp_path, kafka_topic_name("in"))
    yield made
    for name in made.deployed:
        made.undeploy(name)


def test_a_deployment_begins_with_the_savepoint_of_another_one(home: Home) -> None:
    old, new = (f"{side}-{home.topic.rpartition('-')[2]}" for side in ("blue", "green"))
    home.produce(7)
    home.deploy(old, home.sql("blue"))
    home.until("blue", {b"k%d" % n: 1 for n in range(7)})
    made = home.run("savepoint", "create", old, "before")
    assert (made["rows"], [q["sink"] for q in made["queries"]]) == (7, ["T"])
    assert sum(made["queries"][0]["offsets"][home.topic].values()) == 7
    assert home.run("savepoint", "create", old, "before", status=2)["ok"] is False
    assert [s["name"] for s in home.run("savepoint", "list", old)] == ["before"]
    shown = {key: value for key, value in made.items() if key != "ok"}
    assert home.run("savepoint", "show", old, "before") == shown
    home.run("savepoint", "export", old, "before", "--to", str(home.folder / "exported"))
    rows = pq.read_table(home.folder / "exported" / "T").to_pylist()
    assert sorted((row["K"], row["N"]) for row in rows) == [(f"k{n}", 1) for n in range(7)]

    home.produce(4)
    from_it = ("--from-savepoint", f"{old}/before")
    wrong = home.deploy(new, home.sql("green", "SUM(v)"), *from_it, status=2)
    assert wrong["error"]["kind"] == "IncompatibleStatement", wrong
    home.deploy(new, home.sql("green"), *from_it, "--set", "state.partitions=3")
    home.until("green", {b"k%d" % n: 2 for n in range(4)})
    assert home.run("savepoint", "delete", old, "before")["ok"]
    home.run("deploy", new, "--sql", home.sql("green"), *from_it, "--executors", "1",
             "--set", f"snapshot.uri={home.uri}", "--set", "state.partitions=3")  # fmt: skip
    home.produce(7)
    home.until("green", {b"k%d" % n: 3 if n < 4 else 2 for n in range(7)})
    home.until("blue", home.rows("green"))
