"""A table's changes as they are committed, at a pace that a person and a browser can follow.

A busy table changes far faster than a page can show: every quarter of a second the newest changes
are sent, with the number of all changes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from holdfast.serve.console.rows import columns_json, json_rows, shown_columns
from holdfast.serve.contract import PRESENT, Change, Reader, ServedTable

__all__ = ["live_changes"]

_EVERY_S = 0.25
_SHOWN_MAX = 50
_QUIET_S = 15.0  # a periodic line keeps proxies from closing an idle connection


@dataclass
class _Window:
    """Changes since the last event: the newest of each partition, and the number of all."""

    newest: dict[int, deque[tuple[bytes, bytes | None]]] = field(default_factory=dict)
    count: int = 0
    committed_ms: int = 0

    def add(self, change: Change) -> None:
        self.count += len(change.keys)
        self.committed_ms = max(self.committed_ms, change.committed_ms)
        kept = self.newest.setdefault(change.partition, deque(maxlen=_SHOWN_MAX))
        kept.extend(zip(change.keys, change.rows, strict=True))

    def shown(self) -> list[tuple[int, bytes, bytes | None]]:
        """At most `_SHOWN_MAX` changes, taken evenly from all partitions."""
        share = max(1, _SHOWN_MAX // max(1, len(self.newest)))
        found = [(p, *one) for p, kept in self.newest.items() for one in list(kept)[-share:]]
        return found[-_SHOWN_MAX:]


async def live_changes(reader: Reader, table: ServedTable) -> AsyncGenerator[dict[str, Any], None]:
    """Events from now on: first the columns, then `count`, `rows`, `present`, `partitions`.

    An empty event is a heartbeat.  Ends with the reader's error.
    """
    async with _all_changes(reader, table) as changes:
        # A client that has the columns may rely on receiving every later change.
        yield {"columns": columns_json(shown_columns(table))}
        while True:
            window = _Window()
            try:
                window.add(await asyncio.wait_for(_next(changes), _QUIET_S))
            except TimeoutError:
                yield {"count": 0}
                continue
            end = time.monotonic() + _EVERY_S
            while (left := end - time.monotonic()) > 0:
                try:
                    window.add(await asyncio.wait_for(_next(changes), left))
                except TimeoutError:
                    break
            yield _event(table, window)


_Changes = asyncio.Queue[Change | BaseException]


async def _next(changes: _Changes) -> Change:
    found = await changes.get()
    if isinstance(found, BaseException):
        raise found
    return found


@asynccontextmanager
async def _all_changes(reader: Reader, table: ServedTable) -> AsyncIterator[_Changes]:
    """Changes of every partition in one bounded queue: a slow consumer pauses the reading."""
    queue: _Changes = asyncio.Queue(maxsize=2)

    async def follow(partition: int) -> None:
        try:
            async for change in reader.changes(table, partition):
                await queue.put(change)
        except Exception as error:  # noqa: BLE001 - every error is passed to the consumer
            await queue.put(error)

    tasks = [asyncio.create_task(follow(p)) for p in range(table.partitions)]
    try:
        await asyncio.sleep(0)  # every partition is subscribed
        yield queue
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _event(table: ServedTable, window: _Window) -> dict[str, Any]:
    shown = window.shown()
    decoded = table.decode([key for _, key, _ in shown], [row for _, _, row in shown])
    return {
        "count": window.count,
        "committed_ms": window.committed_ms,
        "rows": json_rows(decoded, shown_columns(table)),
        "present": decoded.column(PRESENT).to_pylist(),
        "partitions": [partition for partition, _, _ in shown],
    }
