"""Other people's clients of ksqlDB, unmodified: one from PyPI, two from npm."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ksqldb import KSQLdbClient

from tests.support.serve.http_world import Served, served

NPM = ("ksqldb-js@1.1.2", "ksqldb-client@1.0.5")
_SCRIPTS = Path(__file__).parent / "node"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("http")) as found:
        yield found


def _push_to(server: Served, *numbers: int) -> None:
    deadline = time.monotonic() + 60
    while not server.told.open:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    server.push(*numbers)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # it never closes its connections
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_pythons_ksqldb_asks_and_is_pushed_to(server: Served) -> None:
    client = KSQLdbClient(server.url)  # HTTP/2 in clear text, nothing else
    assert client.ksql("show tables;")[0]["tables"][0]["name"] == "CUSTOMERS"
    assert {p["name"] for p in client.get_properties()} > {"application.id"}
    head, row = client.query_sync("SELECT ONE;")
    assert (head["columnNames"], row) == (["NAME", "COUNT"], ["ann", 3])

    async def pushed() -> list[object]:
        found: list[object] = []
        async for row in client.query_async("SELECT LIVE LIMIT 3;"):
            found.append(row)
            if len(found) == 1:
                await asyncio.to_thread(_push_to, server, 1, 2, 3)
        return found

    assert asyncio.run(pushed())[1:] == [["k1", 1], ["k2", 2], ["k3", 3]]
    assert client.close_query("nothing") is False
    gc.collect()


@pytest.fixture(scope="module")
def modules() -> Path:
    """The packages, fetched once into the user's cache."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("Node.js is not installed: its clients of ksqlDB are not tried")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "holdfast" / f"npm-{'-'.join(NPM).replace('@', '-')}"
    if not (folder / ".completed").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        try:
            subprocess.run(
                [*command, "--prefix", str(folder), *NPM],
                check=True, capture_output=True, timeout=200,
            )  # fmt: skip
        except subprocess.SubprocessError:
            pytest.skip("npm cannot be reached, and its clients of ksqlDB are not there yet")
        (folder / ".completed").touch()
    return folder / "node_modules"


@pytest.mark.parametrize("name", ["ksqldb-js", "ksqldb-client"])
def test_node_clients_ask_and_are_pushed_to(server: Served, modules: Path, name: str) -> None:
    command = [str(shutil.which("node")), str(_SCRIPTS / f"{name}.js"), server.url]
    environment = {**os.environ, "NODE_PATH": str(modules)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as node:
        assert node.stdout is not None
        found = []
        for line in node.stdout:
            assert line.startswith("{"), line
            found.append(json.loads(line))
            if "waiting" in found[-1]:
                _push_to(server, 1, 2, 3)
        assert node.wait(60) == 0
    told = {key: value for line in found for key, value in line.items()}
    assert told["pulled"] == [["ann", 3]]
    assert told["table"] == "CUSTOMERS"
    assert told["pushed"] == [["k1", 1], ["k2", 2], ["k3", 3]]
    assert told["refused"] == 40001
    assert told["closed"] is True
