"""Pull queries: the rows of a table as they are now, by key or by scan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.config.settings import ServeSettings
from holdfast.errors import QueryTooLarge
from holdfast.serve.contract import Reader, Rows
from holdfast.serve.queries import LIMIT_REACHED, QUERY_COMPLETED, Answer, Ask
from holdfast.serve.query.access import Lookup, Ranges
from holdfast.serve.query.evaluate import present
from holdfast.serve.query.interruptible import interruptible, timed_out
from holdfast.serve.query.iterators import closing, no_batches
from holdfast.serve.query.options import Options
from holdfast.serve.query.plans import Plan
from holdfast.serve.query.together import Together, plain_rows
from holdfast.serve.values import values_of
from holdfast.serve.workers.pool import Interrupt

__all__ = ["Pull"]

T = TypeVar("T")
_FEW = 500  # rows that are decoded on the loop
_INSTANT = 64  # up to so many rows block the loop too briefly for a thread to be worth it


@dataclass
class _Run:
    """One running pull query; `deadline` is by the loop's clock."""

    plan: Plan
    ask: Ask
    options: Options
    answer: Answer
    deadline: float


class Pull:
    """Runs pull queries.

    Args:
        pool: threads that decode and evaluate rows.
    """

    def __init__(self, reader: Reader, pool: Executor, limits: ServeSettings) -> None:
        self._reader = reader
        self._pool = pool
        self._limits = limits
        self._together = Together(reader)

    async def run(self, plan: Plan, access: Lookup | Ranges, ask: Ask, options: Options) -> Answer:
        """The answer; a scan's batches are read on demand.

        Raises:
            Retriable: there is no holder, it is too far behind, or the time is over.
            QueryTooLarge: the answer has too many rows.
        """
        deadline = asyncio.get_running_loop().time() + ask.timeout_s
        if ask.positions:
            await self._reader.await_positions(plan.table, ask.positions, ask.wait_s)
        answer = Answer(plan.read.columns, no_batches(), tables=(plan.table.name,))
        if plan.stream:
            answer.final_message = QUERY_COMPLETED if plan.read.limit != 0 else LIMIT_REACHED
        else:
            answer.keys = plan.read.key_names
        run = _Run(plan, ask, options, answer, deadline)
        if isinstance(access, Lookup):
            await self._look_up(run, access)
        else:
            answer.batches = self._scanned(run, access)
        return answer

    async def _look_up(self, run: _Run, access: Lookup) -> None:
        found: list[Rows] = []
        try:
            async with asyncio.timeout_at(run.deadline):
                if _gathers(run, access):
                    await self._look_up_plain(run, access)
                    return
                for within, keys in access.keys:
                    part = await self._reader.get(
                        run.plan.table,
                        keys,
                        within,
                        max_lag=run.options.max_lag,
                        at_least=run.ask.positions,
                    )
                    found.append(part)
                    run.answer.states.update(part.states)
        except TimeoutError:
            raise timed_out() from None
        keys_, rows = _distinct(found)
        if run.plan.evaluation.plain and len(keys_) <= _INSTANT and not run.plan.read.order:
            whole = plain_rows(run.plan, Rows(keys_, rows))
            run.answer.rows = list(whole.values())[: run.plan.read.limit]
            return
        result = await self._off(
            lambda i: _limited(_evaluated(run.plan, keys_, rows, i), run.plan), run.deadline
        )
        if len(result) <= _FEW:
            run.answer.rows = list(zip(*map(values_of, result.columns), strict=True))
        else:
            run.answer.batches = _batches(result)

    async def _look_up_plain(self, run: _Run, access: Lookup) -> None:
        keys = list(dict.fromkeys(key for _, keys in access.keys for key in keys))
        rows, states = await self._together.look_up(run.plan, keys, run.options.max_lag)
        run.answer.rows = rows[: run.plan.read.limit]
        run.answer.states.update(states)

    async def _scanned(self, run: _Run, access: Ranges) -> AsyncIterator[pa.RecordBatch]:
        parts = self._parts(run, access)
        async with closing(parts):
            if run.plan.read.order and run.plan.read.grouping is None:
                for batch in (await self._sorted(run, parts)).to_batches():
                    yield batch
                return
            if run.plan.read.grouping is not None:
                for batch in (await self._grouped(run, parts)).to_batches():
                    yield batch
                return
            left, rows_max = run.plan.read.limit, self._limits.rows_max
            async for part in parts:
                result = await self._off(_work(run.plan, part), run.deadline)
                result = result if left is None else result.slice(0, left)
                rows_max -= len(result)
                if rows_max < 0:
                    raise _too_many_rows(self._limits.rows_max)
                for batch in result.to_batches():
                    yield batch
                left = None if left is None else left - len(result)
                if left == 0:
                    run.answer.final_message = LIMIT_REACHED if run.plan.stream else ""
                    return

    async def _parts(self, run: _Run, access: Ranges) -> AsyncIterator[Rows]:
        """All parts of all partitions, each within the remaining time."""
        table = run.plan.table
        for partition in range(table.partitions if run.plan.read.limit != 0 else 0):
            for start, end in access.ranges:
                scan = self._reader.scan(
                    table,
                    partition,
                    start,
                    end,
                    max_lag=run.options.max_lag,
                    at_least=run.ask.positions,
                )
                async with closing(scan):
                    while (part := await _next(scan, run.deadline)) is not None:
                        run.answer.states.update(part.states)
                        if part.keys:
                            yield part

    async def _sorted(self, run: _Run, parts: AsyncIterator[Rows]) -> pa.Table:
        """The result in its order; with LIMIT no more rows than that are kept at a time."""
        plan, limits = run.plan, self._limits
        found = plan.evaluation.schema.empty_table()
        async for part in parts:
            more = await self._off(_work(plan, part), run.deadline)
            found = pa.concat_tables([found, more])
            if plan.read.limit is not None:
                found = await self._off(_limiting(found, plan), run.deadline)
            if len(found) > limits.rows_max:
                raise _too_many_rows(limits.rows_max)
            if found.nbytes > limits.bytes_max:
                raise _too_many_bytes("sorts", limits.bytes_max)
        return await self._off(_limiting(found, plan), run.deadline)

    async def _grouped(self, run: _Run, parts: AsyncIterator[Rows]) -> pa.Table:
        """Evaluate once over all rows, after gathering the columns that are needed."""
        evaluation = run.plan.evaluation
        found = [evaluation.needed(run.plan.table.decode([], []))]
        size = 0
        async for part in parts:
            needed = await self._off(_gathered(run.plan, part), run.deadline)
            size += needed.nbytes
            if size > self._limits.bytes_max:
                raise _too_many_bytes("gathers", self._limits.bytes_max)
            found.append(needed)
        rows = pa.concat_tables(found)
        return await self._off(lambda i: _limited(evaluation.over(rows, i), run.plan), run.deadline)

    async def _off(self, work: Callable[[Interrupt], T], deadline: float) -> T:
        """Run the work in a thread; it ends when its caller stops waiting."""
        return await interruptible(self._pool, work, deadline)


async def _next(scan: AsyncIterator[Rows], deadline: float) -> Rows | None:
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(scan, None)
    except TimeoutError:
        raise timed_out() from None


def _limited(result: pa.Table, plan: Plan) -> pa.Table:
    """The result in the query's order, up to its limit."""
    limit, order = plan.read.limit, plan.read.order
    if order:
        # By place: two columns may have one name.
        columns = pa.table(
            [result.column(p) for p, _ in order], [str(i) for i in range(len(order))]
        )
        by = [(str(i), "descending" if down else "ascending") for i, (_, down) in enumerate(order)]
        result = result.take(pc.sort_indices(columns, sort_keys=by))
    return result if limit is None else result.slice(0, limit)


def _limiting(result: pa.Table, plan: Plan) -> Callable[[Interrupt], pa.Table]:
    return lambda _: _limited(result, plan)


def _distinct(found: Sequence[Rows]) -> tuple[list[bytes], list[bytes]]:
    """The found keys and rows without duplicates."""
    if len(found) == 1:
        return found[0].keys, found[0].rows
    merged = {k: r for part in found for k, r in zip(part.keys, part.rows, strict=True)}
    return list(merged), list(merged.values())


def _gathers(run: _Run, access: Lookup) -> bool:
    """Whether the look-up can be batched with others by `Together`."""
    few = sum(len(keys) for _, keys in access.keys) <= _INSTANT
    plan = run.plan
    few = few and not plan.read.order
    return few and plan.evaluation.plain and plan.table.window is None and not run.ask.positions


def _evaluated(plan: Plan, keys: list[bytes], rows: list[bytes], interrupt: Interrupt) -> pa.Table:
    return plan.evaluation.over(present(plan.table.decode(keys, rows)), interrupt)


def _work(plan: Plan, part: Rows) -> Callable[[Interrupt], pa.Table]:
    return lambda interrupt: _evaluated(plan, part.keys, part.rows, interrupt)


def _gathered(plan: Plan, part: Rows) -> Callable[[Interrupt], pa.Table]:
    def gather(_: Interrupt) -> pa.Table:
        return plan.evaluation.needed(present(plan.table.decode(part.keys, part.rows)))

    return gather


async def _batches(result: pa.Table) -> AsyncIterator[pa.RecordBatch]:
    for batch in result.to_batches():
        yield batch


def _too_many_bytes(does: str, bytes_max: int) -> QueryTooLarge:
    return QueryTooLarge(
        f"the query {does} more than {bytes_max} bytes",
        action="take fewer rows or columns, keep the aggregate in a table, or set "
        "serve.query.max.bytes.",
    )


def _too_many_rows(rows_max: int) -> QueryTooLarge:
    return QueryTooLarge(
        f"the answer has more than {rows_max} rows",
        action="add LIMIT or a narrower WHERE, query one range of keys after the other, or set "
        "serve.query.max.rows.",
    )
