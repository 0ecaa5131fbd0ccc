"""A query server for the HTTP layer's tests: a real one, on a real socket, whose answers are told.

`Told` answers statements by what they begin with, so that a test decides what a query does:

    SELECT ONE            one row at once            SELECT MANY n   n rows in batches of 1,000
    SELECT NONE           no row                     SELECT TYPES    a row of every type
    SELECT FAIL           refused                    SELECT BREAK    fails after its first batch
    SELECT LIVE           a push query: what `push` is given, until it is closed
    SELECT FLOOD          a push query that never waits
"""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from holdfast.errors import InvalidStatement, NotAllowed, StoreBehind
from holdfast.local.probe import free_port
from holdfast.serve.contract import PartitionState
from holdfast.serve.http.request import App
from holdfast.serve.http.server import Listen, running
from holdfast.serve.queries import Answer, Ask
from holdfast.serve.query import QueryEngine
from holdfast.types.columns.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Base,
    Column,
    SqlType,
)
from tests.support.console.world import World

T = TypeVar("T")
NAME_COUNT = (Column("NAME", STRING), Column("COUNT", BIGINT))
_STRUCT = SqlType(Base.STRUCT, fields=(Column("AT", SqlType(Base.DATE)), Column("N", INTEGER)))
EVERY_TYPE = (
    Column("B", BOOLEAN),
    Column("D", DOUBLE),
    Column("M", SqlType(Base.DECIMAL, 10, 2)),
    Column("BY", SqlType(Base.BYTES)),
    Column("DA", SqlType(Base.DATE)),
    Column("TI", SqlType(Base.TIME)),
    Column("TS", SqlType(Base.TIMESTAMP)),
    Column("AR", SqlType(Base.ARRAY, element=SqlType(Base.DATE))),
    Column("MA", SqlType(Base.MAP, element=SqlType(Base.DECIMAL, 10, 2))),
    Column("ST", _STRUCT),
)
TYPED_ROW: list[Any] = [
    True,
    float("nan"),
    Decimal("12.30"),
    b"\x00\xff",
    dt.date(2020, 1, 31),
    86_399_000,
    dt.datetime(2020, 1, 31, 23, 59, 59, 7000, tzinfo=dt.UTC),
    [dt.date(2020, 1, 31), None],
    {"a": Decimal("1.50")},
    {"AT": dt.date(2021, 2, 1), "N": 4},
]
TYPED_JSON: list[Any] = [
    True,
    "NaN",
    12.30,
    "AP8=",
    "2020-01-31",
    "23:59:59",
    "2020-01-31T23:59:59.007",
    ["2020-01-31", None],
    {"a": 1.50},
    {"AT": "2021-02-01", "N": 4},
]


def batch_of(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    schema = pa.schema([(c.name, c.type.arrow()) for c in columns])
    lists = zip(*rows, strict=True)
    arrays = [pa.array(list(v), f.type) for v, f in zip(lists, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Told:
    """The test's own `Queries`.  `asked` keeps what came, `open` counts queries under way."""

    def __init__(self) -> None:
        self.asked: list[Ask] = []
        self.open = 0
        self.sent = 0
        self._live_queues: set[asyncio.Queue[int]] = set()
        self._pushed: tuple[int, ...] = ()

    async def ask(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        words = ask.sql.rstrip(";").split()
        if [w.upper() for w in words[:1]] != ["SELECT"]:
            raise InvalidStatement("Syntax Error", line=1, column=1)
        if not ask.may_read("PER_CUSTOMER"):
            raise NotAllowed("this caller may not read PER_CUSTOMER.")
        return getattr(self, f"_{words[1].lower()}", self._fail)(words[2:], ask)

    async def work(self, text: str, function: Callable[..., T], *args: object) -> T:
        return function(*args)

    def push(self, *numbers: int) -> None:
        """Rows for every live query, and for those that resume later."""
        self._pushed += numbers
        for queue in self._live_queues:
            for number in numbers:
                queue.put_nowait(number)

    def _answer(self, batches: AsyncIterator[pa.RecordBatch], **more: Any) -> Answer:
        states = {0: PartitionState(0, position=17, end=20, server="0")}
        return Answer(
            columns=more.pop("columns", NAME_COUNT),
            batches=batches,
            states=states,
            tables=("PER_CUSTOMER",),
            **more,
        )

    def _one(self, words: Sequence[str], ask: Ask) -> Answer:
        return self._answer(_nothing(), rows=[["ann", 3]])

    def _none(self, words: Sequence[str], ask: Ask) -> Answer:
        return self._answer(_nothing(), rows=[])

    def _types(self, words: Sequence[str], ask: Ask) -> Answer:
        if words:
            row = batch_of(EVERY_TYPE, [[*TYPED_ROW[:8], list(TYPED_ROW[8].items()), TYPED_ROW[9]]])
            return self._answer(_given([row]), columns=EVERY_TYPE)
        return self._answer(_nothing(), columns=EVERY_TYPE, rows=[TYPED_ROW])

    def _many(self, words: Sequence[str], ask: Ask) -> Answer:
        count = int(words[0])
        starts = range(0, count, 1000)
        return self._answer(
            self._counted([[(f"k{i}", i) for i in range(s, min(s + 1000, count))] for s in starts])
        )

    async def _counted(self, parts: list[list[tuple[str, int]]]) -> AsyncIterator[pa.RecordBatch]:
        self.open += 1
        try:
            for part in parts:
                self.sent += len(part)
                yield batch_of(NAME_COUNT, part)
        finally:
            self.open -= 1

    def _fail(self, words: Sequence[str], ask: Ask) -> Answer:
        raise StoreBehind("PER_CUSTOMER is 7 behind.", action="wait.")

    def _crash(self, words: Sequence[str], ask: Ask) -> Answer:
        raise ZeroDivisionError("the secret of a bug")

    def _break(self, words: Sequence[str], ask: Ask) -> Answer:
        async def breaks() -> AsyncIterator[pa.RecordBatch]:
            yield batch_of(NAME_COUNT, [("ann", 1)])
            raise StoreBehind("the holder went away.")

        return self._answer(breaks())

    def _live(self, words: Sequence[str], ask: Ask) -> Answer:
        answer = self._answer(_nothing(), push=True)
        answer.batches = self._changes(answer, int(ask.token or 0), words)
        return answer

    async def _changes(
        self, answer: Answer, since: int, words: Sequence[str]
    ) -> AsyncIterator[pa.RecordBatch]:
        queue: asyncio.Queue[int] = asyncio.Queue()
        for number in self._pushed if since else ():
            queue.put_nowait(number)
        self._live_queues.add(queue)
        self.open += 1
        left = int(words[1]) if words[:1] == ["LIMIT"] else -1
        try:
            while left:
                number = await queue.get()
                if number > since:
                    since = number
                    left -= 1
                    answer.token = str(number)
                    yield batch_of(NAME_COUNT, [(f"k{number}", number)])
        finally:
            self.open -= 1
            self._live_queues.discard(queue)

    def _flood(self, words: Sequence[str], ask: Ask) -> Answer:
        rows = [("x" * 100, i) for i in range(1000)]
        return self._answer(self._counted([rows] * 10_000), push=True)


async def _nothing() -> AsyncIterator[pa.RecordBatch]:
    nothing: list[pa.RecordBatch] = []
    for batch in nothing:
        yield batch


async def _given(batches: Sequence[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    for batch in batches:
        yield batch


class Served:
    """A server in a thread of its own, for clients that block."""

    def __init__(self, listen: Listen, told: Told, world: World) -> None:
        self.listen = listen
        self.told = told
        self.world = world
        self.url = listen.url
        self.port = listen.port
        self.loop = asyncio.new_event_loop()
        self.running = 0

    def push(self, *numbers: int) -> None:
        self.loop.call_soon_threadsafe(self.told.push, *numbers)


@contextmanager
def served(
    home: Path,
    *,
    mounts: Mapping[str, App] | None = None,
    queries: Any = None,
    world: World | None = None,
    **listen: Any,
) -> Iterator[Served]:
    """A server that listens; it is stopped behind the test."""
    given = Listen(**{"port": free_port(), **listen})
    told = Told()
    world = world or World()
    found = Served(given, told, world)
    ready, stop, failed = threading.Event(), asyncio.Event(), list[BaseException]()

    async def serve() -> None:
        try:
            asked = queries(world.serving(home)) if queries else told
            async with AsyncExitStack() as stack:
                if isinstance(asked, QueryEngine):
                    # Its threads have a DuckDB each, and Spark's start forks: a process that is
                    # forked beside such a thread dies.
                    stack.push_async_callback(asked.aclose)
                await stack.enter_async_context(running(world.serving(home), asked, given, mounts))
                ready.set()
                await stop.wait()
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            ready.set()

    def run() -> None:
        asyncio.set_event_loop(found.loop)
        with suppress(BaseException):  # raised below, in the test
            found.loop.run_until_complete(serve())

    thread = threading.Thread(target=run, name="server")
    thread.start()
    try:
        assert ready.wait(60), "the server did not start"
        if failed:
            raise failed[0]
        yield found
    finally:
        if thread.is_alive():
            found.loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        if not thread.is_alive():  # a loop closed by its thread would refuse the call above
            found.loop.close()
    if failed:
        raise failed[0]
    assert not thread.is_alive()
