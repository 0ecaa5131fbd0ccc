"""Pull queries: their limits, their permissions, and several of them at one time."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from holdfast.config.settings import ServeSettings
from holdfast.errors import (
    InvalidConfig,
    InvalidStatement,
    NotAllowed,
    QueryTimedOut,
    QueryTooLarge,
    StoreBehind,
)
from holdfast.serve.queries import Ask
from holdfast.serve.query.evaluate import Evaluation
from holdfast.serve.workers.pool import Interrupt, Worker, Workers
from holdfast.sql.read.asked import EVERYTHING, Read
from holdfast.types.columns.schema import BIGINT, Column
from holdfast.types.statements.sources import Source
from tests.support.serve.served import stored_json
from tests.support.values.expressions import named
from tests.unit.serve.query.shop import SCAN, Shop


def test_limits(loop: asyncio.Runner) -> None:
    shop = Shop("GOODS", limits=ServeSettings(keys_max=2, rows_max=3, bytes_max=100))
    for name in b"abcdef":
        shop.put(bytes([name]), n=1)
    for sql, fact in [
        ("SELECT * FROM goods WHERE id IN ('a', 'b', 'c')", "3 keys, 2 are allowed"),
        ("SELECT * FROM goods", "more than 3 rows"),
        ("SELECT COUNT(id), MIN(tag), MAX(n) FROM goods", "more than 100 bytes"),
    ]:
        with pytest.raises(QueryTooLarge, match=fact):
            loop.run(shop.rows(sql, properties=SCAN))


@pytest.mark.parametrize("sql", ["SELECT * FROM goods WHERE id = 'ant'", "SELECT * FROM goods"])
def test_time_ends(loop: asyncio.Runner, goods: Shop, sql: str) -> None:
    goods.reader.pause = asyncio.Event()
    with pytest.raises(QueryTimedOut):
        loop.run(goods.rows(sql, properties=SCAN, timeout_s=0.01))


def test_a_position_is_waited_for(loop: asyncio.Runner, goods: Shop) -> None:
    sql = "SELECT n FROM goods WHERE id = 'gnu'"

    async def scenario() -> list[tuple[Any, ...]]:
        states = await goods.reader.positions(goods.table)
        wanted = {p: s.position + 2 for p, s in states.items()}
        with pytest.raises(StoreBehind):
            await goods.rows(sql, positions=wanted, wait_s=0.01)
        waiting = asyncio.create_task(goods.rows(sql, positions=wanted))
        for partition in wanted:
            await asyncio.sleep(0)
            goods.reader.commit({b"gnu": stored_json(1, {"n": 9})}, partition)
        return await waiting

    assert (9,) in loop.run(scenario())


def test_permission_comes_first(loop: asyncio.Runner, goods: Shop) -> None:
    sql = "SELECT n FROM goods WHERE id = 'ant'"
    with pytest.raises(NotAllowed, match="GOODS"):
        loop.run(goods.rows("SELECT secret FROM goods", may_read=lambda name: name != "GOODS"))
    for _ in range(2):
        loop.run(goods.rows(sql))
        with pytest.raises(NotAllowed):
            loop.run(goods.rows(sql, may_read=lambda _: False))


def test_names_that_may_not_be_read_are_not_suggested(loop: asyncio.Runner, goods: Shop) -> None:
    with pytest.raises(InvalidStatement) as found:
        loop.run(goods.rows("SELECT * FROM good", may_read=lambda name: name != "GOODS"))
    assert "GOODS" not in str(found.value)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"ksql.query.pull.table.scan.enabled": "perhaps"}, "true"),
        ({"max.allowed.offset.lag": "-1"}, "0 or more"),
        ({"auto.offset.reset": "newest"}, "earliest"),
        ({"Auto.Offset.Reset": "earliest"}, "did you mean"),
    ],
)
def test_properties_that_are_wrong(
    loop: asyncio.Runner, goods: Shop, properties: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        loop.run(goods.rows("SELECT * FROM goods WHERE id = 'a'", properties=properties))


def test_look_ups_of_one_moment_are_read_as_one(loop: asyncio.Runner, goods: Shop) -> None:
    async def scenario() -> list[list[tuple[Any, ...]]]:
        await goods.rows("SELECT n FROM goods WHERE id = 'bee'")  # it is planned
        asked = [goods.rows(f"SELECT n FROM goods WHERE id = '{k}'") for k in ("ant", "dog", "gnu")]
        found = await asyncio.gather(*asked)
        assert goods.reader.reads["get"] == 2
        return list(found)

    assert loop.run(scenario()) == [[(0,)], [(3,)], []]


def test_each_is_told_of_its_own_partitions(loop: asyncio.Runner) -> None:
    shop = Shop("COPIED")

    async def scenario() -> None:
        sql = "SELECT n FROM copied WHERE id = '{}'"
        answers = await asyncio.gather(*(shop.engine.ask(Ask(sql.format(k))) for k in "abcdef"))
        told = [set(answer.states) for answer in answers]
        assert told == [{shop.table.partition_of(k.encode())} for k in "abcdef"]
        assert len(set.union(*map(set, told))) > 1

    loop.run(scenario())


def test_one_that_fails_takes_no_other_with_it(loop: asyncio.Runner, goods: Shop) -> None:
    get, failed = goods.reader.get, StoreBehind("this one is behind")

    async def of_some(table: Any, keys: Any, *args: Any, **named: Any) -> Any:
        if b"bee" in keys:
            raise failed
        return await get(table, keys, *args, **named)

    async def scenario() -> list[Any]:
        goods.reader.get = of_some  # type: ignore[method-assign]
        await goods.rows("SELECT n FROM goods WHERE id = 'cat'")
        asked = [goods.rows(f"SELECT n FROM goods WHERE id = '{k}'") for k in ("ant", "bee")]
        return list(await asyncio.gather(*asked, return_exceptions=True))

    assert loop.run(scenario()) == [[(0,)], failed]


def test_what_nobody_waits_for_is_not_computed() -> None:
    endless = named("(SELECT count(*) FROM range(1000000000000))", Column("X", BIGINT))
    read = Read(Source("T", "TABLE", "t", (), ()), False, (endless,), None, EVERYTHING)
    workers, interrupt, begun = Workers(1, 1 << 30, timeout_s=300.0), Interrupt(), threading.Event()
    evaluation, begin = Evaluation(read, workers, 1 << 20, filtered=True), interrupt.begin

    def begin_and_tell(worker: Worker) -> None:
        begin(worker)
        begun.set()

    interrupt.begin = begin_and_tell  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        computing = pool.submit(evaluation.over, pa.table({"N": [1]}), interrupt)
        begun.wait()
        interrupt.ask()
        with pytest.raises(QueryTimedOut, match="the client disconnected"):
            computing.result()
        with pytest.raises(QueryTimedOut):
            evaluation.over(pa.table({"N": [1]}), interrupt)
