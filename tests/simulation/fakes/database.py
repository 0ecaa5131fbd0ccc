"""A database in memory, in the place of Redis: it has no transactions of more than a few rows.

It promises what `RemoteTable` does and no more.  A process may die after any request, the database
may be away for a while, and it may lose everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from holdfast.config.settings import RemoteSettings
from holdfast.errors import StoreLocked, StoreUnavailable
from holdfast.state.remote.store import RemoteStore, WarmedStore
from holdfast.state.remote.table import Pairs, Stamp
from tests.simulation.fakes.kafka import Process

__all__ = ["Database", "FakeStores", "FakeTable"]

_PART_ROWS = 3
Answer = TypeVar("Answer")


@dataclass
class _Content:
    stamp: Stamp | None = None
    rows: dict[bytes, bytes] = field(default_factory=dict)


@dataclass
class Database:
    """Owns the rows of all stores, by name.

    Attributes:
        before, after: called before and after every request.
        away: whether it answers nobody now.
    """

    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    away: Callable[[], bool] = lambda: False
    content: dict[str, _Content] = field(default_factory=dict)

    def open(self, name: str, process: Process | None, *, warms: bool = False) -> RemoteStore:
        return (WarmedStore if warms else RemoteStore)(self.table(name, process), name)

    def table(self, name: str, process: Process | None) -> FakeTable:
        return FakeTable(self, name, process)

    def flush(self) -> bool:
        """Everything is gone; false if there was nothing."""
        found, self.content = bool(self.content), {}
        return found


class FakeTable:
    """`RemoteTable` in a `Database`."""

    part_rows, part_bytes, row_bytes = _PART_ROWS, 1 << 40, 0

    def __init__(self, database: Database, name: str, process: Process | None) -> None:
        self._database = database
        self._name = name
        self._process = process

    def stamp(self) -> Stamp | None:
        return self._request(lambda at: at.stamp)

    def read(self, keys: Sequence[bytes]) -> tuple[Stamp | None, list[bytes | None]]:
        return self._request(lambda at: (at.stamp, [at.rows.get(key) for key in keys]))

    def scan(
        self, ranges: Sequence[tuple[bytes, bytes | None]], limit: int | None = None
    ) -> tuple[Stamp | None, list[Pairs]]:
        return self._request(
            lambda at: (at.stamp, [_between(at.rows, *each)[:limit] for each in ranges])
        )

    def count(self, start: bytes, end: bytes) -> tuple[Stamp | None, int]:
        return self._request(lambda at: (at.stamp, len(_between(at.rows, start, end))))

    def write(self, rows: Mapping[bytes, bytes | None], was: Stamp, to: Stamp) -> bool:
        assert len(rows) <= self.part_rows

        def change(at: _Content) -> bool:
            if at.stamp != was:
                return False
            for key, value in rows.items():
                at.rows.pop(key, None)
                at.rows.update({} if value is None else {key: value})
            at.stamp = to
            return True

        return self._request(change)

    def clear(self, was: Stamp | None, to: Stamp) -> bool:
        def begin(at: _Content) -> bool:
            begun = at.stamp == was
            at.stamp = torn if begun else at.stamp
            return begun

        torn = replace(to, whole=False)
        if not self._request(begin):
            return False
        while keys := [key for key, _ in self.scan([(b"", None)], self.part_rows)[1][0]]:
            if not self.write(dict.fromkeys(keys), torn, torn):
                return False
        return self.write({}, torn, to)

    def bytes(self) -> int:
        return self._request(lambda at: sum(len(k) + len(v) for k, v in at.rows.items()))

    def close(self) -> None:
        """There is no connection."""

    def _request(self, work: Callable[[_Content], Answer]) -> Answer:
        if self._process is not None and not self._process.alive:
            raise StoreLocked("A process that is gone asks nothing.", action="none.")
        self._database.before()
        if self._database.away():
            raise StoreUnavailable("The remote store does not answer.", action="wait.")
        answer = work(self._database.content.setdefault(self._name, _Content()))
        self._database.after()
        return answer


class FakeStores:
    """`RemoteStores` of a `Database`."""

    def __init__(self, database: Database, settings: RemoteSettings, application_id: str) -> None:
        self._content = database.content
        self._application_id = application_id

    def stores(self) -> list[tuple[str, str, int]]:
        names = (name.split("/") for name in sorted(self._content))
        return [(a, s, int(p)) for a, s, p in names if a == self._application_id]

    def delete_store(self, application_id: str, state_name: str, state_partition: int) -> None:
        self._content.pop(f"{application_id}/{state_name}/{state_partition}", None)

    def delete_all(self) -> int:
        found = self.stores()
        for store in found:
            self.delete_store(*store)
        return len(found)


def _between(rows: Mapping[bytes, bytes], start: bytes, end: bytes | None) -> Pairs:
    inside = (key for key in rows if key >= start and (end is None or key < end))
    return [(key, rows[key]) for key in sorted(inside)]
