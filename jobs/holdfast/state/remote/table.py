"""The contract of a remote database: what one store needs of it, a request at a time."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

__all__ = ["Pairs", "RemoteTable", "Stamp"]

Pairs = list[tuple[bytes, bytes]]
_WARMER = "warmer-"  # in the name of an opening that only warms; versions before had none


@dataclass(frozen=True)
class Stamp:
    """The state of a remote store, kept in one record beside its rows.

    Attributes:
        owner: a name that only one opening of the store has.
        batch: the batches that this owner has begun.
        whole: False while a batch of several requests is written: if that stays, the batch is torn.
    """

    owner: str
    batch: int = 0
    whole: bool = True

    @staticmethod
    def of_opening(*, warms: bool) -> Stamp:
        """The stamp of a new opening; `warms`: see there."""
        return Stamp(f"{_WARMER if warms else ''}{secrets.token_hex(8)}")

    @property
    def warms(self) -> bool:
        """Whether whoever opened the store only warms it: it has had no owner yet."""
        return self.owner.startswith(_WARMER)

    def following(self) -> Stamp:
        """The stamp after the next batch."""
        return replace(self, batch=self.batch + 1)

    def to_bytes(self) -> bytes:
        return f"{self.owner} {self.batch} {'whole' if self.whole else 'torn'}".encode()

    @staticmethod
    def from_bytes(data: bytes | None) -> Stamp | None:
        """The stamp in the record's value; None without one.

        A value that is no stamp gives one that nobody has, of a torn batch.
        """
        if data is None:
            return None
        parts = data.decode("ascii", "replace").split(" ")
        if len(parts) != 3 or not parts[1].isdecimal():
            return Stamp("", whole=False)
        return Stamp(parts[0], int(parts[1]), parts[2] == "whole")


class RemoteTable(Protocol):
    """The rows and the stamp of one store in a database.  Keys are ordered bytewise.

    Each call but `clear` is one step of the database: a crash is before or after it.  A read
    returns the stamp that its rows were read under, or a later one: if the stamp is the caller's,
    so are the rows.  If rows were lost otherwise than by a call of `write` or `clear` (the database
    was emptied, or has removed some to make room), the stamp is lost, too, or not whole.

    Every method raises `StoreUnavailable` if the database does not answer, and then it is unknown
    whether a write was done; `VolumeFull` and `Refused` mean that it was not.
    """

    @property
    def part_rows(self) -> int:
        """The number of rows that `write` takes at most."""

    @property
    def part_bytes(self) -> int:
        """The bytes that `write` takes at most, `row_bytes` for each row beside key and value."""

    @property
    def row_bytes(self) -> int:
        """The bytes of a row beside its key and its value."""

    def stamp(self) -> Stamp | None:
        """The stamp; None if there is none."""

    def read(self, keys: Sequence[bytes]) -> tuple[Stamp | None, list[bytes | None]]:
        """The value of each key, None for a missing one."""

    def scan(
        self, ranges: Sequence[tuple[bytes, bytes | None]], limit: int | None = None
    ) -> tuple[Stamp | None, list[Pairs]]:
        """Pairs with `start <= key < end` of each range in key order, at most `limit` of each."""

    def count(self, start: bytes, end: bytes) -> tuple[Stamp | None, int]:
        """The number of keys with `start <= key < end`."""

    def write(self, rows: Mapping[bytes, bytes | None], was: Stamp, to: Stamp) -> bool:
        """Sets rows (None deletes) and moves the stamp from `was` to `to`.

        Returns:
            False, and nothing is changed, if the stamp is another one.
        """

    def clear(self, was: Stamp | None, to: Stamp) -> bool:
        """Removes all rows and moves the stamp from `was` to `to`, in one step or in several.

        Between several steps the stamp is one of `to.owner`, and not whole.

        Returns:
            False if the stamp is, or has become, another one.
        """

    def bytes(self) -> int:
        """The memory or disk that it takes in the database, roughly; 0: unknown."""

    def close(self) -> None:
        """Ends the connection.  May be called twice."""
