"""One topic partition of the fake broker: records, control records, what is stable, compaction."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter

__all__ = ["Entry", "Fate", "Log", "Transaction"]


class Fate(Enum):
    """The coordinator's decision about a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(eq=False)
class Transaction:
    """One transaction.

    Attributes:
        places: topic partitions it has records in, in the order it came to them.
        in_flight: its commit was asked for, and nobody knows whether the request will arrive.
        ended: every place has its control record.
    """

    transactional_id: str
    epoch: int
    began_s: float
    timeout_s: float
    places: list[Log] = field(default_factory=list)
    fate: Fate = Fate.OPEN
    in_flight: bool = False
    ended: bool = False


@dataclass(slots=True, eq=False)
class Entry:
    """A record, or a control record that takes an offset and is given to nobody."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    transaction: Transaction | None = None
    control: bool = False
    horizon_s: float | None = None  # a tombstone leaves after it; set when it is first cleaned

    @property
    def visible(self) -> bool:
        """To readers of committed records, below the last stable offset."""
        transaction = self.transaction
        return not self.control and (transaction is None or transaction.fate is Fate.COMMITTED)


class Log:
    """Owns the entries of one topic partition, in offset order; offsets may have gaps.

    Attributes:
        cleaned: the newest record of each key that the cleaner has seen: older ones are gone.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0
        self.end = 0
        self.cleaned: dict[bytes, int] = {}
        self._open: dict[Transaction, int] = {}  # first offset of transactions without an end here

    @property
    def stable_end(self) -> int:
        """The last stable offset: no open transaction has a record before it."""
        return min(self._open.values(), default=self.end)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        transaction: Transaction | None = None,
    ) -> int:
        """The offset of the new record."""
        if transaction is not None and transaction not in self._open:
            self._open[transaction] = self.end
            transaction.places.append(self)
        self.entries.append(Entry(self.end, key, value, timestamp_ms, transaction))
        self.end += 1
        return self.end - 1

    def conclude(self, transaction: Transaction, timestamp_ms: int) -> None:
        """Writes the control record that ends a transaction here."""
        if self._open.pop(transaction, None) is None:
            return  # an unclean election took all it had here
        self.entries.append(Entry(self.end, None, None, timestamp_ms, transaction, control=True))
        self.end += 1

    def visible(self, start: int, end: int, limit: int) -> list[Entry]:
        """At most `limit` committed records with `start <= offset < end`."""
        found: list[Entry] = []
        for entry in self.entries[self._at(start) : self._at(end)]:
            if entry.visible:
                found.append(entry)
                if len(found) == limit:
                    break
        return found

    def delete_before(self, offset: int) -> None:
        """Deletes old records like retention: moves the log start."""
        self.entries = self.entries[self._at(offset) :]
        self.start = max(self.start, offset)

    def delete_from(self, offset: int) -> None:
        """Truncates the log like an unclean election; offsets of the lost tail are reused."""
        self.entries = self.entries[: self._at(offset)]
        self.end = offset
        self._open = {t: first for t, first in self._open.items() if first < offset}

    def first_at(self, time_ms: int) -> int | None:
        """The first offset of a record that is at least so new."""
        times = ((e.offset, e.timestamp_ms) for e in self.entries if not e.control)
        return next((offset for offset, at in times if at >= time_ms), None)

    def transactions(self) -> list[int]:
        """The first offset of each committed transaction that left a record here, in order."""
        firsts: dict[int, int] = {}
        for entry in self.entries:
            if entry.visible and entry.transaction is not None:
                firsts.setdefault(id(entry.transaction), entry.offset)
        return list(firsts.values())

    def compact(self, upto: int, now_s: float, delete_retention_s: float) -> None:
        """One run of the cleaner over the offsets before `upto`, at most to what is stable.

        The last committed record of each key stays; aborted ones go; a tombstone stays for
        `delete_retention_s` after the first run that saw it; a control record goes like a
        tombstone once its transaction has no record left.
        """
        cut = self._at(min(upto, self.stable_end))
        dirty, rest = self.entries[:cut], self.entries[cut:]
        latest = {e.key: e.offset for e in dirty if e.visible and e.key is not None}
        self.cleaned |= {k: max(at, self.cleaned.get(k, at)) for k, at in latest.items()}
        kept = [
            e for e in dirty if e.control or (e.visible and e.offset == latest.get(e.key or b""))
        ]
        used = {id(e.transaction) for e in (*kept, *rest) if not e.control}

        def stays(entry: Entry) -> bool:
            if entry.value is not None or (entry.control and id(entry.transaction) in used):
                return True
            if entry.horizon_s is None:
                entry.horizon_s = now_s + delete_retention_s
            return now_s < entry.horizon_s

        self.entries = [e for e in kept if stays(e)] + rest

    def _at(self, offset: int) -> int:
        return bisect_left(self.entries, offset, key=attrgetter("offset"))
