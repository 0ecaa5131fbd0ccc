from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StoreBehind
from holdfast.serve.console import live
from holdfast.serve.console.live import live_changes
from holdfast.serve.contract import Change, ServedTable
from tests.support.console.world import World

Events = AsyncGenerator[dict[str, Any], None]


def listen(world: World, act: Callable[[Events], Awaitable[None]], table: str = "PER_CITY") -> None:
    async def run() -> None:
        serving = world.serving(Path("unused"))
        async with aclosing(live_changes(serving.reader, world.served[table])) as events:
            first = await anext(events)
            assert first["columns"][-1] == {"name": "ROWTIME", "type": "BIGINT"}
            await act(events)

    asyncio.run(asyncio.wait_for(run(), 20))


async def collect(events: Events, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while sum(e["count"] for e in found) < count:
        found.append(await anext(events))
    return found


def test_changes_come_with_their_partition_and_whether_they_are_there() -> None:
    world = World()

    async def act(events: Events) -> None:
        world.put("PER_CITY", ["Oslo"], [1, 10])
        world.put("PER_CITY", ["Bern"], [2, 2**60])
        world.put("PER_CITY", ["Oslo"], None)
        told = await collect(events, 3)
        rows = [(row[0], row[1], row[2]) for e in told for row in e["rows"]]
        assert sorted(rows, key=str) == [("Bern", 2, 2**60), ("Oslo", 1, 10), ("Oslo", None, None)]
        there = {(r[0], p) for e in told for r, p in zip(e["rows"], e["present"], strict=True)}
        assert there == {("Bern", True), ("Oslo", True), ("Oslo", False)}
        table = world.served["PER_CITY"]
        for event in told:
            for row, partition in zip(event["rows"], event["partitions"], strict=True):
                assert partition == table.partition_of(table.key_of([row[0]]))
        assert told[-1]["committed_ms"] > 0

    listen(world, act)


def test_whoever_has_the_columns_misses_nothing() -> None:
    world = World()

    async def act(events: Events) -> None:
        world.put("PER_CITY", ["Oslo"], [1, 10])  # nobody waits for the next event yet
        (event,) = await collect(events, 1)
        assert event["rows"][0][0] == "Oslo"

    listen(world, act)


def test_of_a_flood_the_newest_are_shown_and_all_are_counted() -> None:
    world = World()

    async def act(events: Events) -> None:
        for number in range(1_000):
            world.put("PER_CITY", ["Oslo"], [number, 0])
        told = await collect(events, 1_000)
        assert sum(e["count"] for e in told) == 1_000
        assert max(len(e["rows"]) for e in told) <= 50
        assert told[-1]["rows"][-1][1] == 999

    listen(world, act)


def test_a_busy_partition_does_not_hide_the_others() -> None:
    world = World()

    async def act(events: Events) -> None:
        for number in range(300):
            world.put("PER_CITY", [f"c{number}"], [number, 0])
        for _ in range(4):
            world.put("PER_CITY", ["c0"], [1, 0])
        told = await collect(events, 304)
        fullest = max(told, key=lambda event: event["count"])
        assert set(fullest["partitions"]) == {0, 1, 2, 3}

    listen(world, act)


def test_bounds_of_windows_are_shown_for_removed_rows_too() -> None:
    world = World()

    async def act(events: Events) -> None:
        world.put("PER_PRODUCT_MINUTE", ["tea", 60_000, 120_000], None)
        (event,) = await collect(events, 1)
        assert list(event["rows"][0]) == ["tea", 60_000, 120_000, None, None, None]

    listen(world, act, "PER_PRODUCT_MINUTE")


def test_who_leaves_stops_the_reading() -> None:
    world = World()

    async def act(events: Events) -> None:
        assert len(world.listeners) == 4
        waiting = asyncio.create_task(collect(events, 1))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert world.listeners == []

    listen(world, act)


def test_a_quiet_table_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_QUIET_S", 0.01)

    async def act(events: Events) -> None:
        assert await anext(events) == {"count": 0}
        assert await anext(events) == {"count": 0}

    listen(World(), act)


def test_the_error_of_one_partition_ends_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    reader = world.serving(Path("unused")).reader
    kept = type(reader).changes

    async def changes(self: Any, table: ServedTable, partition: int) -> AsyncIterator[Change]:
        if partition == 2:
            raise StoreBehind("the holder went away.")
        async for change in kept(self, table, partition):
            yield change

    monkeypatch.setattr(type(reader), "changes", changes)

    async def act(events: Events) -> None:
        with pytest.raises(StoreBehind, match="went away"):
            await anext(events)
        assert world.listeners == []

    listen(world, act)
