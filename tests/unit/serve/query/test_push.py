"""Push queries over tables in dicts: contents and changes, tombstones, tokens, who is slow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.config.settings import ServeSettings
from holdfast.errors import PositionLost, Refused, Retriable, StoreCorrupted
from holdfast.serve.queries import Answer, Ask, gone_rows
from holdfast.serve.query import QueryEngine, tails
from tests.support.serve.served import DictCatalog, DictReader, stored_json

SCRIPT = """
CREATE TABLE goods (id STRING PRIMARY KEY, n BIGINT, tag STRING) WITH (KAFKA_TOPIC='goods');
CREATE TABLE others (id STRING PRIMARY KEY, n BIGINT) WITH (KAFKA_TOPIC='others');
"""
EARLIEST = {"auto.offset.reset": "earliest"}
ALL = "SELECT id, n FROM goods EMIT CHANGES;"


class Shop:
    def __init__(self, partitions: int = 2, limits: ServeSettings | None = None) -> None:
        self.partitions = partitions
        self.catalog = DictCatalog(SCRIPT, partitions)
        self.reader = DictReader(self.catalog.table("GOODS"), batch=2)
        self.engine = QueryEngine(self.catalog, self.reader, limits)

    def put(self, name: str, n: int | None, tag: str = "") -> None:
        row = None if n is None else stored_json(n, {"n": n, "tag": tag})
        self.reader.commit({name.encode(): row}, ord(name[0]) % self.partitions)

    def grow(self, partitions: int) -> None:
        """The table's topic has more partitions from now on."""
        self.partitions = partitions
        self.catalog.grow(partitions)
        self.reader.grow(partitions)

    async def ask(self, sql: str = ALL, **ask: Any) -> Answer:
        return await self.engine.ask(Ask(sql, **ask))


async def take(answer: Answer, count: int) -> list[tuple[Any, ...]]:
    """The next rows, and of each whether it is there; whole batches."""
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        batch = await asyncio.wait_for(anext(answer.batches), 60)
        gone = gone_rows(batch)
        there = [i not in gone for i in range(len(batch))]
        found += zip(*(c.to_pylist() for c in batch.columns), there, strict=True)
    return found


def test_from_now_on(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop()
        shop.put("a", 1)
        answer = await shop.ask()
        assert answer.push
        assert [c.name for c in answer.columns] == ["ID", "N"]
        shop.put("a", 2)
        shop.put("b", 3)
        assert sorted(await take(answer, 2)) == [("a", 2, True), ("b", 3, True)]
        await answer.batches.aclose()  # type: ignore[attr-defined]
        await shop.engine.aclose()

    loop.run(scenario())


def test_what_comes_elsewhere_between_two_reads_is_heard(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop(3)
        answer = await shop.ask()
        for number in range(5):
            for name in "abc":  # one in each partition, the others idle meanwhile
                waiting = asyncio.create_task(take(answer, 1))
                (tail,) = shop.engine._push._tails.values()
                while not tail.moved()._waiters:  # noqa: ASYNC110 - it has no event of its own
                    await asyncio.sleep(0)
                shop.put(name, number)
                assert await waiting == [(name, number, True)]
                shop.put(chr(ord(name) + 1), 100)
                assert len(await take(answer, 1)) == 1
        await shop.engine.aclose()

    loop.run(scenario())


def test_contents_first_and_then_every_change(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop()
        for name in "abcde":
            shop.put(name, 1)
        answer = await shop.ask(properties=EARLIEST)
        found = await take(answer, 1)
        shop.put("b", 2)  # while the contents are read: after them, not within
        found += await take(answer, 4)
        assert sorted(found) == [("a", 1, True), ("b", 1, True), ("b", 2, True),
                                 *((name, 1, True) for name in "cde")]  # fmt: skip
        shop.put("b", None)
        assert await take(answer, 1) == [("b", None, False)]
        await shop.engine.aclose()

    loop.run(scenario())


def test_rows_leave_when_they_do_not_pass_any_more(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop(1)
        answer = await shop.ask("SELECT id, n * 10 AS m FROM goods WHERE n > 5 EMIT CHANGES;")
        for name, n in [("a", 1), ("a", 2), ("b", 9), ("b", 3), ("b", None), ("a", None), ("c", 7)]:
            shop.put(name, n)
        found = await take(answer, 3)
        assert found == [("b", 90, True), ("b", None, False), ("c", 70, True)]
        await shop.engine.aclose()

    loop.run(scenario())


def test_only_what_may_pass_is_looked_at(loop: asyncio.Runner) -> None:
    """A thousand rows change at a time, and only the requested one is decoded."""

    async def scenario() -> None:
        shop = Shop(1)
        sql = "SELECT id, n FROM goods WHERE id = 'k7' OR id >= 'k995' AND n > 3 EMIT CHANGES;"
        answer = await shop.ask(sql)
        keys = [f"k{i}".encode() for i in range(1_000)]
        bad = b"\0" * 8 + b"no json"
        shop.reader.commit(dict.fromkeys(keys, bad) | {b"k7": stored_json(1, {"n": 1})})
        shop.put("k995", 4)
        shop.put("k995", 3)
        shop.reader.commit({b"k7": None, b"k8": None})
        assert await take(answer, 4) == [
            ("k7", 1, True), ("k995", 4, True), ("k995", None, False), ("k7", None, False),
        ]  # fmt: skip
        await shop.engine.aclose()

    loop.run(scenario())


def test_limit_ends_it(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop(1)
        for name in "abc":
            shop.put(name, 1)
        answer = await shop.ask("SELECT id FROM goods EMIT CHANGES LIMIT 4", properties=EARLIEST)
        found = await take(answer, 3)
        shop.put("a", None)  # nothing that is there
        shop.reader.commit({k: stored_json(1, {"n": 1}) for k in (b"x", b"y", b"z")}, 0)
        found += await take(answer, 2)
        assert found[3:] == [("a", False), ("x", True)]
        with pytest.raises(StopAsyncIteration):
            await anext(answer.batches)
        nothing = await shop.ask("SELECT id FROM goods EMIT CHANGES LIMIT 0", properties=EARLIEST)
        assert [b async for b in nothing.batches] == []
        await shop.engine.aclose()

    loop.run(scenario())


def test_a_token_goes_on_where_it_ended(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop()
        for name in "abcd":
            shop.put(name, 1)
        answer = await shop.ask(properties=EARLIEST)
        await take(answer, 4)
        shop.put("a", 2)
        await take(answer, 1)
        token = answer.token
        await answer.batches.aclose()  # type: ignore[attr-defined]
        shop.put("a", 3)
        shop.put("b", 4)
        again = await shop.ask(token=token)
        assert sorted(await take(again, 2)) == [("a", 3, True), ("b", 4, True)]
        await again.batches.aclose()  # type: ignore[attr-defined]
        fresh = (await shop.ask(properties=EARLIEST)).token  # nothing read yet: all is to come
        assert len(await take(await shop.ask(token=fresh), 4)) == 4
        await shop.engine.aclose()

    loop.run(scenario())


@pytest.mark.parametrize("token", ["x", "!!", "e30", "W10", "eyJ0YWJsZSI6MX0", "é"])
def test_what_is_no_token(loop: asyncio.Runner, token: str) -> None:
    with pytest.raises(Refused, match="token"):
        loop.run(Shop().ask(token=token))


def test_a_token_is_of_one_table(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop()
        token = (await shop.ask()).token
        with pytest.raises(Refused, match="belongs to GOODS"):
            await shop.ask("SELECT * FROM others EMIT CHANGES", token=token)
        await shop.engine.aclose()

    loop.run(scenario())


def test_one_tail_for_all_who_listen(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop()
        answers = [await shop.ask() for _ in range(300)]
        waiting = [asyncio.create_task(take(a, 1)) for a in answers]
        await asyncio.sleep(0)
        shop.put("a", 1)
        assert await asyncio.gather(*waiting) == [[("a", 1, True)]] * 300
        assert shop.reader.reads["since"] == shop.partitions
        for answer in answers:
            await answer.batches.aclose()  # type: ignore[attr-defined]
        assert shop.engine._push._tails == {}
        await shop.engine.aclose()

    loop.run(scenario())


def test_who_is_slow_reads_the_changelog_and_hurts_nobody(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop(1, ServeSettings(tail_bytes_max=600))
        slow, quick = await shop.ask(), await shop.ask()
        for n in range(100):
            shop.put("a", n)
            assert await take(quick, 1) == [("a", n, True)]
        (tail,) = shop.engine._push._tails.values()
        assert tail._parts[0]._bytes <= 600
        assert shop.reader.reads["since"] == 1
        assert await take(slow, 100) == [("a", n, True) for n in range(100)]
        assert shop.reader.reads["since"] == 2
        shop.put("b", 1)
        assert await take(slow, 1) == await take(quick, 1) == [("b", 1, True)]
        assert slow.token == quick.token
        await shop.engine.aclose()

    loop.run(scenario())


@pytest.mark.parametrize("tail_bytes", [0, 1 << 20])
def test_holders_that_go_away_leave_no_gap(loop: asyncio.Runner, tail_bytes: int) -> None:
    async def scenario() -> None:
        shop = Shop(1, ServeSettings(tail_bytes_max=tail_bytes))
        answer = await shop.ask()
        for n in range(6):
            shop.reader.failures = n % 3
            shop.put("a", n)
            shop.put("b", n)
            assert await take(answer, 2) == [("a", n, True), ("b", n, True)]
        assert shop.reader.failures == 0
        await shop.engine.aclose()

    loop.run(scenario())


def test_what_cannot_be_followed_is_told_and_followed_anew(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop(1)
        shop.reader.failures, shop.reader.failure = 1, StoreCorrupted("a row cannot be read")
        answer = await shop.ask()
        with pytest.raises(StoreCorrupted):
            await take(answer, 1)
        again = await shop.ask()
        shop.put("a", 1)
        assert await take(again, 1) == [("a", 1, True)]
        await shop.engine.aclose()

    loop.run(scenario())


def test_a_tail_whose_place_is_lost_goes_on_from_now(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop(1)
        first = await shop.ask()
        shop.put("a", 1)
        shop.reader.forget()
        with pytest.raises(PositionLost):
            await take(first, 1)
        second = await shop.ask()
        (tail,) = shop.engine._push._tails.values()
        while tail.position(0) < 2:
            await tail.moved().wait()
        third = await shop.ask()
        shop.put("a", 2)
        assert await take(third, 1) == [("a", 2, True)]
        await second.batches.aclose()  # type: ignore[attr-defined]
        await shop.engine.aclose()

    loop.run(scenario())


def test_what_the_changelog_has_lost_is_said(loop: asyncio.Runner) -> None:
    async def scenario() -> None:
        shop = Shop(1)
        answer = await shop.ask()
        token = answer.token
        await answer.batches.aclose()  # type: ignore[attr-defined]
        shop.put("a", 1)
        shop.reader.forget()
        again = await shop.ask(token=token)
        with pytest.raises(PositionLost):
            await take(again, 1)
        await shop.engine.aclose()

    loop.run(scenario())


def test_who_listens_is_told_when_partitions_are_added(
    loop: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "LOOK_S", 0.01)

    async def scenario() -> None:
        shop = Shop(2)
        answer = await shop.ask()
        shop.put("a", 1)
        assert await take(answer, 1) == [("a", 1, True)]
        shop.grow(3)
        shop.put("b", 7)  # into the third
        with pytest.raises(Retriable, match="GOODS has 3 partitions now, 2 when"):
            await take(answer, 1)
        resumed = await shop.ask(token=answer.token)
        assert await take(resumed, 1) == [("b", 7, True)]
        await shop.engine.aclose()

    loop.run(scenario())
