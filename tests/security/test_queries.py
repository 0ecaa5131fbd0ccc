"""Whatever a client asks, the server goes on: its loop, its memory and other clients' queries."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import orjson
import psutil
import pyarrow as pa
import pytest

from holdfast.config.settings import ServeSettings
from holdfast.errors import (
    HoldfastError,
    InvalidStatement,
    QueryTimedOut,
    QueryTooLarge,
    Unsupported,
)
from holdfast.serve.contract import Serving
from holdfast.serve.http.request import Limits
from holdfast.serve.query import QueryEngine
from holdfast.serve.workers import fork_server
from holdfast.serve.workers.calls import evaluated, packed, statements_in
from holdfast.serve.workers.pool import Interrupt, Workers
from tests.support.serve.http_world import served
from tests.unit.serve.query.shop import SCAN, Shop

_MIB = 1 << 20
_LIMITS = ServeSettings(memory_bytes=256 * _MIB)
_ONE = "SELECT {} AS c FROM goods WHERE id = 'ant'"
# It takes hours, little memory and no function of ours.
_ENDLESS = _ONE.format(
    "ARRAY_LENGTH(FILTER(GENERATE_SERIES(1, 1000000), x => ARRAY_LENGTH(FILTER("
    "GENERATE_SERIES(1, 1000), y => ARRAY_MAX(TRANSFORM(GENERATE_SERIES(1, 1000), z => "
    "z * y * x)) = 7)) = 7))"
)


def _nested(call: str, start: str, times: int) -> str:
    for _ in range(times):
        start = call.format(start)
    return start


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def shop(loop: asyncio.Runner) -> Iterator[Shop]:
    made = Shop("GOODS", limits=_LIMITS)
    made.put(b"ant", n=1, price=0.5, tag="x")
    made.put(b"bee", n=2, price=1.5, tag="zz")
    yield made
    loop.run(made.engine.aclose())


@pytest.mark.parametrize(
    "expression",
    [
        _nested("REPLACE({}, 'a', 'aaaaaaaaaaaaaaaaaaaa')", "'aaaaaaaaaaaaaaaaaaaa'", 12),
        "ARRAY_LENGTH(GENERATE_SERIES(1, 20000000))",
        "REDUCE(GENERATE_SERIES(1, 60), tag, (s, x) => s + s)",
        "LPAD(TO_BYTES('aa', 'hex'), 2000000000, TO_BYTES('aa', 'hex'))",
        "LPAD(tag, 2000000000, 'x')",
        "ARRAY_LENGTH(TRANSFORM(GENERATE_SERIES(1, 1000000), x => LPAD(tag, 1000000, 'b')))",
        "ARRAY_LENGTH(TRANSFORM(GENERATE_SERIES(1, 1000000), x => tag + LPAD('a', 999, tag)))",
        "ARRAY_JOIN(GENERATE_SERIES(1, 1000000), LPAD('!', 1000000, 'a'))",
    ],
)
def test_a_query_that_would_take_all_memory_is_refused(
    loop: asyncio.Runner, shop: Shop, expression: str
) -> None:
    with pytest.raises(QueryTooLarge):
        loop.run(shop.rows(_ONE.format(expression)))
    assert loop.run(shop.rows(_ONE.format("n + 1"))) == [(2,)]
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    assert used < 4_096 * _MIB, "the server itself has computed it"


def test_a_query_without_end_holds_nobody_up_and_ends_with_who_asked(
    loop: asyncio.Runner, shop: Shop
) -> None:
    async def scenario() -> None:
        endless = asyncio.create_task(shop.rows(_ENDLESS, timeout_s=600.0))
        busy = await _computing()
        for number in range(200):
            assert await shop.rows("SELECT n FROM goods WHERE id = 'bee'") == [(2,)]
            assert await shop.rows(f"SELECT n + {number} AS m FROM goods WHERE id = 'bee'")
            if endless.done() or number > 20:
                break
        assert not endless.done()
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        await asyncio.to_thread(_wait_until_ended, busy)

    loop.run(scenario())


async def _computing() -> psutil.Process:
    """A worker that has computed for a while."""
    while True:
        for forks in _fork_servers():
            for child in forks.children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if child.status() != psutil.STATUS_ZOMBIE and child.cpu_times().user > 2.0:
                        return child
        await asyncio.sleep(0.05)


def _fork_servers() -> set[psutil.Process]:
    """Those of this process, which has other children as well: a broker, Spark."""
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if fork_server.__name__ in child.cmdline():
                found.add(child)
    return found


def _wait_until_ended(process: psutil.Process) -> None:
    """Until it runs no more; its parent may not have taken leave of it."""
    try:
        ended = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    select.select([ended], [], [])
    os.close(ended)


def test_a_deadline_ends_what_is_computed(loop: asyncio.Runner, shop: Shop) -> None:
    with pytest.raises(QueryTimedOut):
        loop.run(shop.rows(_ENDLESS, timeout_s=0.5))
    assert loop.run(shop.rows(_ONE.format("n + 1"))) == [(2,)]


def test_what_explodes_while_it_is_planned_is_ended(loop: asyncio.Runner) -> None:
    shop = Shop("GOODS", limits=replace(_LIMITS, planning_ms=3_000))
    shop.put(b"bee", n=2, price=1.5, tag="zz")
    explodes = _nested("SUBSTRING({}, CAST(n AS INT))", "tag", 30)
    with pytest.raises((QueryTimedOut, QueryTooLarge, InvalidStatement)):
        loop.run(shop.rows(_ONE.format(explodes)))
    assert loop.run(shop.rows("SELECT n FROM goods WHERE id = 'bee'")) == [(2,)]
    loop.run(shop.engine.aclose())


def test_long_statements_hold_no_short_one_up(loop: asyncio.Runner, shop: Shop) -> None:
    listed = ", ".join(f"'{number:07}'" for number in range(90_000))
    sql = f"SELECT * FROM goods WHERE id IN ({listed}) AND n = {{}}"
    assert len(sql) > 0.9 * _MIB

    async def scenario() -> None:
        long = [asyncio.create_task(shop.rows(sql.format(number))) for number in range(2)]
        assert await shop.rows(_ONE.format("n + 5")) == [(6,)]
        assert not all(task.done() for task in long)
        for error in await asyncio.gather(*long, return_exceptions=True):
            assert isinstance(error, (QueryTooLarge, QueryTimedOut))

    loop.run(scenario())


@pytest.mark.parametrize(
    ("sql", "made"),
    [
        (_ONE.format("1" + "0" * 5_000), InvalidStatement),
        (f"SELECT * FROM goods LIMIT {'1' * 5_000}", InvalidStatement),
        (_ONE.format("n") + f" AND n = -{'9' * 5_000}", InvalidStatement),
        (f"SELECT n AS a_{'1' * 5_000}, n AS b FROM goods WHERE id = 'ant'", [(1, 1)]),
        (_ONE.format("FROM_DAYS(-2147483648)"), [(None,)]),
        (_ONE.format("ARRAY[FROM_DAYS(-2147483648)]"), [([None],)]),
        (_ONE.format("FROM_UNIXTIME(-9000000000000000)"), [(None,)]),
        (_ONE.format("UCASE('hf_nosuch__ss(')"), [("HF_NOSUCH__SS(",)]),
        (_ONE.format(f"CAST(NULL AS {'ARRAY<' * 3_000}INT{'>' * 3_000})"), InvalidStatement),
        (_ONE.format(f"CAST(NULL AS {'ARRAY<' * 40}INT{'>' * 40})"), InvalidStatement),
        (_ONE.format("ARRAY[" * 40 + "n" + "]" * 40), Unsupported),
        (_ONE.format("(" * 2_000 + "1" + ")" * 2_000), InvalidStatement),
        ("SELECT MAX(UNHEX(tag)) AS m FROM goods", [(None,)]),
        ("SELECT UNHEX(tag) AS u, COUNT(*) AS n FROM goods GROUP BY UNHEX(tag)", [(None, 2)]),
        (_ONE.format("REGEXP_EXTRACT('(a+)+$', LPAD('!', 1000000, 'a'))"), [(None,)]),
    ],
)
def test_what_was_an_internal_error_is_an_answer_or_one_of_ours(
    loop: asyncio.Runner, shop: Shop, sql: str, made: type[HoldfastError] | list[object]
) -> None:
    if isinstance(made, type):
        with pytest.raises(made):
            loop.run(shop.rows(sql, properties=SCAN))
    else:
        assert loop.run(shop.rows(sql, properties=SCAN)) == made


def test_a_worker_that_dies_takes_one_query(loop: asyncio.Runner, shop: Shop) -> None:
    async def scenario() -> None:
        endless = asyncio.create_task(shop.rows(_ENDLESS, timeout_s=600.0))
        (await _computing()).kill()
        with pytest.raises(QueryTooLarge):
            await endless
        assert await shop.rows(_ONE.format("n + 1")) == [(2,)]

    loop.run(scenario())


def test_idle_workers_that_died_are_replaced() -> None:
    workers = Workers(2, 256 * _MIB, timeout_s=60.0)
    workers.prepare()
    assert workers.call(statements_in, "") == []
    (forks,) = _fork_servers()
    for child in forks.children():
        child.kill()
        _wait_until_ended(child)
    assert workers.call(statements_in, "") == []
    workers.close()


def test_a_fork_server_that_died_is_begun_anew_and_its_workers_can_be_killed() -> None:
    workers, interrupt = Workers(1, 256 * _MIB, timeout_s=600.0), Interrupt()
    endless = "SELECT (SELECT count(*) FROM range(1000000000000)) AS n FROM rows_read"
    rows = packed(pa.table({"n": [1]}))
    with ThreadPoolExecutor(1) as pool:
        assert workers.call(statements_in, "") == []
        call = pool.submit(
            lambda: workers.call(evaluated, endless, (), rows, _MIB, interrupt=interrupt)
        )
        worker = asyncio.run(_computing())
        forks = worker.parent()
        assert forks is not None
        forks.kill()
        interrupt.ask()
        with pytest.raises(QueryTimedOut):
            call.result()
        _wait_until_ended(worker)
    assert workers.call(statements_in, "") == []
    workers.close()


def test_statements_of_the_ksql_path_are_parsed_in_a_worker(
    loop: asyncio.Runner, shop: Shop
) -> None:
    text = f"EXPLAIN {_ENDLESS};" * 2
    found = loop.run(shop.engine.work(text, statements_in, text))
    assert [one for one, _ in found] == [f"EXPLAIN {_ENDLESS};"] * 2


def test_a_client_that_goes_away_ends_its_query(tmp_path: Path) -> None:
    def queries(serving: Serving) -> QueryEngine:
        return QueryEngine(serving.catalog, serving.reader, _LIMITS)

    sql = _ENDLESS.replace("goods", "PER_CITY").replace("id = 'ant'", "CITY = 'a'")
    body = orjson.dumps({"sql": sql})
    head = f"POST /v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    limits = Limits(timeout_s=600.0)
    with served(tmp_path, limits=limits, queries=queries) as server:
        server.world.put("PER_CITY", ["a"], [1, 2])
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(head.encode() + body)
                busy = asyncio.run(_computing())
            _wait_until_ended(busy)


def test_workers_that_are_let_go_before_they_are_ready_end_without_a_word() -> None:
    program = (
        "import psutil, time\n"
        "from holdfast.serve.workers.pool import Workers\n"
        "workers = Workers(3, 1 << 28, 60.0)\n"
        "workers.prepare()\n"
        "workers.close()\n"
        "(forks,) = psutil.Process().children()\n"
        "while any(c.status() != psutil.STATUS_ZOMBIE for c in forks.children()):\n"
        "    time.sleep(0.01)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stderr == b""
