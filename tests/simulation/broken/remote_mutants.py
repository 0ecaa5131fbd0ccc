"""Broken remote stores: an owner that does not compare the stamp, or not in every place.

| mutant                  | what is broken                                                        |
|-------------------------|-----------------------------------------------------------------------|
| torn-write-unnoticed    | an opening goes on from a batch that was written in part              |
| remote-zombie-writes    | a write does not ask whether the store has another owner              |
| remote-loss-unnoticed   | a read does not ask whether the rows are still there                  |
| (found by directed      | a warmer takes the store from an owner, or does not ask whether there |
| histories)              | is one when it writes                                                 |
"""

from __future__ import annotations

import pytest

from holdfast.state.remote.store import RemoteStore, WarmedStore
from holdfast.state.remote.table import Stamp

__all__ = [
    "loss_unnoticed",
    "torn_write_unnoticed",
    "warmer_takes_from_owners",
    "warmer_writes_late",
    "zombie_writes",
]


def torn_write_unnoticed(patch: pytest.MonkeyPatch) -> None:
    def claimed(self: RemoteStore, mine: Stamp) -> Stamp:
        found = self._table.stamp()
        while not (
            self._table.clear(found, mine) if found is None else self._table.write({}, found, mine)
        ):
            found = self._table.stamp()
        return mine

    patch.setattr(RemoteStore, "_claimed", claimed)


def zombie_writes(patch: pytest.MonkeyPatch) -> None:
    real = RemoteStore._move

    def move(self: RemoteStore, rows: dict[bytes, bytes | None], to: Stamp) -> None:
        found = self._table.stamp()
        if found is None or found.owner == self._stamp.owner:
            real(self, rows, to)
        else:  # the owner does not notice
            self._table.write(rows, found, found)

    patch.setattr(RemoteStore, "_move", move)


def loss_unnoticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RemoteStore, "_check", lambda *_: None)


def warmer_takes_from_owners(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WarmedStore, "_check_free", lambda *_: None)


def warmer_writes_late(patch: pytest.MonkeyPatch) -> None:
    def move(self: WarmedStore, rows: dict[bytes, bytes | None], to: Stamp) -> None:
        found = self._table.stamp()
        if found is not None:  # it does not notice that it is another one's
            self._table.write(rows, found, found if found.owner != self._stamp.owner else to)
            self._stamp = to

    patch.setattr(WarmedStore, "_move", move)
