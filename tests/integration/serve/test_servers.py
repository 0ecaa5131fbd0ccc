"""Three query servers as processes, two copies: one is killed, and no look-up fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
import pytest

from holdfast.local.broker import BrokerStatus
from tests.support.jobs.table_job import TableJob, settings_of
from tests.support.serve.processes import Servers

WAIT_S = 60.0
KEYS = 200
SERVERS = 3


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[TableJob]:
    topic = kafka_topic_name("in")
    job = TableJob(
        settings_of(kafka.bootstrap_servers, f"{topic}-app", tmp_path, partitions=6), topic
    )
    yield job
    job.close()


@pytest.fixture
def servers(job: TableJob, tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(job, tmp_path, count=SERVERS)
    yield servers
    servers.stop()


async def ready(http: httpx.AsyncClient, address: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                if (await http.get(f"{address}/healthcheck")).status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)


@dataclass(frozen=True)
class Answer:
    """A key's count, and the state of the table that it is of."""

    count: int
    partition: int
    position: int


async def look_up(http: httpx.AsyncClient, address: str, key: str) -> Answer:
    answer = await http.post(
        f"{address}/v1/query", json={"sql": f"SELECT n FROM counts WHERE id = '{key}';"}
    )
    assert answer.status_code == httpx.codes.OK, answer.text
    found = answer.json()
    ((partition, state),) = found["partitions"].items()
    return Answer(found["rows"][0][0], int(partition), state["position"])


async def reading(http: httpx.AsyncClient, address: str, done: asyncio.Event) -> list[Answer]:
    """Looks keys up one after the other; answers never go back."""
    answers: list[Answer] = []
    seen: Counter[int] = Counter()
    looked = 0
    while not done.is_set():
        key = f"k{looked % KEYS}"
        found = await look_up(http, address, key)
        assert found.position >= seen[found.partition]
        seen[found.partition] = found.position
        answers.append(found)
        looked += 1
    return answers


async def told(http: httpx.AsyncClient, address: str, changes: dict[str, list[int]]) -> None:
    """Takes every change of the table, as long as it is let."""
    sql = "SELECT id, n FROM counts EMIT CHANGES;"
    asked = http.stream("POST", f"{address}/query-stream", json={"sql": sql}, timeout=None)
    async with asked as answer:
        async for line in answer.aiter_lines():
            if line.startswith("["):
                key, count = orjson.loads(line)
                changes.setdefault(key, []).append(count)
            else:
                assert "columnNames" in line, line


def test_one_server_is_killed_and_no_look_up_fails(
    job: TableJob, servers: Servers, tmp_path: Path
) -> None:
    every = Counter(f"k{i}" for i in range(KEYS))

    async def run() -> None:
        commits = [job.commit(every)]
        for number in range(SERVERS):
            servers.start(number)
        async with httpx.AsyncClient(timeout=30.0) as http:
            for address in servers.addresses:
                await ready(http, address)
            done = asyncio.Event()
            reads = [
                asyncio.create_task(reading(http, address, done))
                for address in servers.addresses[:2]
            ]
            changes: list[dict[str, list[int]]] = [{} for _ in reads]
            push = [
                asyncio.create_task(told(http, *each))
                for each in zip(servers.addresses, changes, strict=False)
            ]
            commits.append(await asyncio.to_thread(job.commit, every))
            servers.kill(2)
            commits.append(await asyncio.to_thread(job.commit, every))
            await asyncio.gather(*(at_least(http, a, 3) for a in servers.addresses[:2]))
            servers.start(2)
            await ready(http, servers.addresses[2])
            commits.append(await asyncio.to_thread(job.commit, every))
            await asyncio.gather(*(at_least(http, a, 4) for a in servers.addresses))
            done.set()
            for answers in await asyncio.gather(*reads):
                assert len(answers) > KEYS
                for given in answers:  # each is a state that the table really had
                    before = [c for c in commits if c[given.partition] <= given.position]
                    assert given.count == len(before)
            async with asyncio.timeout(WAIT_S):
                while not all(all_told(each, 4) for each in changes):
                    assert not any(task.done() for task in push)
                    await asyncio.sleep(0.05)
            for task in push:
                task.cancel()
            await asyncio.gather(*push, return_exceptions=True)
            for counts in (c for each in changes for c in each.values()):
                assert counts == sorted(set(counts))  # none twice, none late

    asyncio.run(run())
    restarted = (tmp_path / "server-2.log").read_text()
    assert restarted.count("the store is empty") == 4  # 6 partitions, two copies, three servers
    assert "the changelog's tail" in restarted


def all_told(changes: dict[str, list[int]], last: int) -> bool:
    return len(changes) == KEYS and all(counts[-1] == last for counts in changes.values())


async def at_least(http: httpx.AsyncClient, address: str, count: int) -> None:
    """Every key has been counted so often, wherever it is read."""
    async with asyncio.timeout(WAIT_S):
        for number in range(KEYS):
            while (await look_up(http, address, f"k{number}")).count < count:
                continue
