"""Changes on their way to one reader."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.serve.contract import Change
from holdfast.serve.follow.subscription import Ended, Subscription


def change(position: int, rows: int = 1) -> Change:
    keys = [str(i).encode() for i in range(rows)]
    return Change(0, keys, [b"v"] * rows, position)


def test_changes_come_in_order_from_another_thread() -> None:
    async def run() -> list[int]:
        subscription = Subscription()

        def put() -> None:
            for position in range(50):
                subscription.put(change(position))

        thread = threading.Thread(target=put)
        thread.start()
        found = [(await subscription.next()).position for _ in range(50)]
        thread.join()
        return found

    assert asyncio.run(run()) == list(range(50))


def test_what_waits_is_read_before_the_end() -> None:
    async def run() -> None:
        subscription = Subscription()
        subscription.put(change(1))
        subscription.end()
        assert (await subscription.next()).position == 1
        with pytest.raises(Ended):
            await subscription.next()

    asyncio.run(run())


def test_a_slow_reader_loses_the_queue_and_costs_no_more() -> None:
    async def run() -> None:
        subscription = Subscription(rows_max=10)
        for position in range(20):
            subscription.put(change(position))
        await asyncio.sleep(0)
        with pytest.raises(Ended):
            await subscription.next()

    asyncio.run(run())


def test_one_change_may_be_larger_than_the_queue() -> None:
    async def run() -> None:
        subscription = Subscription(rows_max=10)
        subscription.put(change(1, rows=100))
        assert len((await subscription.next()).keys) == 100

    asyncio.run(run())


def test_a_loop_that_is_closed_stops_no_follower() -> None:
    async def make() -> Subscription:
        return Subscription()

    subscription = asyncio.run(make())
    subscription.put(change(1))
    subscription.end()
