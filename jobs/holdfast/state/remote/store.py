"""The remote backend: a store in a database, owned by whoever has opened it last.

    stamp found        an open store                          the next opening
    -----------------  -------------------------------------  ------------------------------------
    its own, whole     reads and writes                       takes over, the tail is replayed
    another owner's    `Fenced`: it is a zombie               the same
    none, or older     `StoreUnavailable`: it was emptied     begins empty, everything is restored
    not whole          -                                      removes all rows, likewise

Whoever opens the store has fenced its predecessors in Kafka before, so a zombie's rows are not
needed, and a write that was interrupted was committed in Kafka before it began.

Before its first owner a store may be warmed by an executor that has fenced nobody.  Its stamp says
so, and it takes the store from no one but other warmers: the look at the stamp and the claim are
one step of the database, so it is `Fenced` from the moment in which the owner has opened the store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import ClassVar

from holdfast.errors import (
    Fenced,
    HoldfastError,
    Refused,
    StoreCorrupted,
    StoreLocked,
    StoreUnavailable,
)
from holdfast.state.remote.table import Pairs, RemoteTable, Stamp
from holdfast.state.store import Found, flat

__all__ = ["RemoteSnapshot", "RemoteStore", "WarmedStore"]

_LOG = logging.getLogger(__name__)
_CLAIMS = 10  # others may open the store at the same time
_PAGE = 2_000  # rows of a scan at a time
_RANGES = 500  # of a request
_MEASURED_S = 10.0  # how long a measured size is believed
_Rows = dict[bytes, bytes | None]


class RemoteStore:
    """Owns a store in a database from its opening until another opening of it.

    Args:
        name: the store's name in the database, for messages.
    """

    durable = True
    _warms: ClassVar[bool] = False

    def __init__(self, table: RemoteTable, name: str) -> None:
        """Takes the store over from any former owner.

        Raises:
            StoreUnavailable: the database does not answer.
            StoreLocked: others open it again and again.
        """
        self._table = table
        self._name = name
        self._size, self._written, self._measured = 0, 0, float("-inf")
        self._stamp = self._claimed(Stamp.of_opening(warms=self._warms))

    def _claimed(self, mine: Stamp) -> Stamp:
        for _ in range(_CLAIMS):
            found = self._table.stamp()
            self._check_free(found)
            if found is not None and found.whole:
                if self._table.write({}, found, mine):
                    return mine
                continue
            if found is not None:
                _LOG.warning(
                    "Removing the rows of the remote store %s, to be restored from its changelog: "
                    "a write was interrupted.", self._name,
                )  # fmt: skip
            if self._table.clear(found, mine):
                return mine
        raise StoreLocked(
            f"The remote store {self._name} was opened by others {_CLAIMS} times meanwhile.",
            cause="two jobs run under one application.id.",
            action="stop one of them, or give it another state.remote.uri.",
        )

    def _check_free(self, found: Stamp | None) -> None:
        """An owner takes the store from anybody, for Kafka lets nobody else commit."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        stamp, values = self._table.read(keys)
        self._check(stamp)
        return values

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Sequence[bytes]) -> None:
        rows: _Rows = dict.fromkeys(deletes)
        rows.update(puts)
        if not rows:
            return
        self._check(self._stamp)
        done = self._stamp.following()
        *begun, last = self._parts(rows)
        for part in begun:
            self._move(part, replace(done, whole=False))
        self._move(last, done)
        self._written += sum(len(k) + len(v or b"") for k, v in rows.items())

    def _parts(self, rows: _Rows) -> Iterator[_Rows]:
        """Cuts rows into what one request takes."""
        part: _Rows = {}
        size = 0
        for key, value in rows.items():
            size += len(key) + len(value or b"") + self._table.row_bytes
            if part and (len(part) == self._table.part_rows or size > self._table.part_bytes):
                yield part
                part, size = {}, len(key) + len(value or b"") + self._table.row_bytes
            part[key] = value
        yield part

    def _move(self, rows: _Rows, to: Stamp) -> None:
        if not self._table.write(rows, self._stamp, to):
            raise self._lost(self._table.stamp())
        self._stamp = to

    def begin_bulk(self) -> None:
        """Does nothing: the database decides how durable a write is."""

    def end_bulk(self) -> None:
        """Does nothing: no write is pending."""

    def scan(
        self, start: bytes, end: bytes | None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        return islice(self._pages(start, end, limit), limit)

    def _pages(
        self, start: bytes, end: bytes | None, limit: int | None
    ) -> Iterator[tuple[bytes, bytes]]:
        most = _PAGE if limit is None else min(limit, _PAGE)
        while most > 0 and (end is None or start < end):
            (page,) = self._scanned([(start, end)], most)
            yield from page
            if len(page) < most:
                return
            start = page[-1][0] + b"\0"

    def count(self, start: bytes, end: bytes) -> int:
        stamp, rows = self._table.count(start, end)
        self._check(stamp)
        return rows

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[Pairs]:
        parts = (ranges[n : n + _RANGES] for n in range(0, len(ranges), _RANGES))
        return [pairs for part in parts for pairs in self._scanned(part)]

    def scan_apart(self, starts: Sequence[bytes], ends: Sequence[bytes]) -> Found:
        return flat(self.scan_many(list(zip(starts, ends, strict=True))))

    def _scanned(
        self, ranges: Sequence[tuple[bytes, bytes | None]], limit: int | None = None
    ) -> list[Pairs]:
        stamp, found = self._table.scan(ranges, limit)
        self._check(stamp)
        return found

    def copy_to(self, folder: Path) -> None:
        raise Refused("A remote store has no files to copy.", action="use rocksdb.")

    def bytes_on_disk(self) -> int:
        """The size in the database: as measured lately, and what was written since."""
        now = time.monotonic()
        if now - self._measured > _MEASURED_S:
            self._size, self._written, self._measured = self._table.bytes(), 0, now
        return self._size + self._written

    def wipe(self) -> None:
        self._check(self._stamp)
        done = self._stamp.following()
        if not self._table.clear(self._stamp, done):
            raise self._lost(self._table.stamp())
        self._stamp = done
        self._size, self._written = 0, 0

    def close(self) -> None:
        self._table.close()

    def _check(self, found: Stamp | None) -> None:
        if found != self._stamp or not found.whole:
            raise self._lost(found)

    def _lost(self, found: Stamp | None) -> HoldfastError:
        if found is None or found.owner == self._stamp.owner:
            how = "was emptied" if found is None else "is not as this executor has left it"
            return StoreUnavailable(
                f"The remote store {self._name} {how}.",
                cause="the database was flushed, has made room for other keys, or came back from "
                "an older copy.",
                action="none: the store is restored from its changelog; see that the database "
                "removes no keys by itself.",
            )
        return Fenced(
            f"The remote store {self._name} has another owner by now ({found.owner}).",
            cause="this executor was taken for dead, or two jobs run under one application.id.",
            action="none: nothing was written.",
        )


class WarmedStore(RemoteStore):
    """A store that is filled before it has its first owner, who takes it over as it is.

    Raises:
        Fenced: it has an owner, or had one.
    """

    _warms = True

    def _check_free(self, found: Stamp | None) -> None:
        if found is not None and not found.warms:
            raise self._lost(found)

    def _lost(self, found: Stamp | None) -> HoldfastError:
        if found is None or found.warms:
            return super()._lost(found)
        return Fenced(
            f"The remote store {self._name} has an owner by now ({found.owner}) and is not warmed.",
            cause="the query was rescaled, and the driver has not told this executor yet.",
            action="none: nothing was written.",
        )


class RemoteSnapshot(RemoteStore):
    """Reads a store that others own, and takes nothing from them; a read of two moments fails.

    Raises:
        StoreCorrupted: there is no readable store, or it has changed meanwhile.
    """

    def _claimed(self, mine: Stamp) -> Stamp:
        found = self._table.stamp()
        if found is None or not found.whole:
            raise self._lost(found)
        return found

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Sequence[bytes]) -> None:
        raise Refused(f"The remote store {self._name} is only read here.", action="none.")

    def wipe(self) -> None:
        self.write([], [])

    def _lost(self, found: Stamp | None) -> HoldfastError:
        return StoreCorrupted(
            f"The remote store {self._name} cannot be read as of one moment ({found}).",
            cause="its owner goes on, or it is just being written or restored.",
            action="read it again.",
        )
