"""What a nemesis does to the stores of a volume whose owner it has killed.

The volume's lock keeps the successor away meanwhile.  What was done is told by looking at the
disk again: which folder is where, and the changelog offset that each store has come to.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.state.digest import store_digests
from holdfast.state.volume import Volume, claim_ordinal

__all__ = ["VolumeStores"]

_LOCK_WAIT_S = 10.0
_POLL_S = 1.0
_FURTHER_S = 150.0
_FURTHER_OFFSETS = 20  # a commit without rows takes two
_Place = tuple[str, int]


class VolumeStores:
    """The stores of one application on one volume of this machine.

    Args:
        aside: where a copy of them is kept; it must be on the same disk.
    """

    def __init__(self, state_dir: Path, ordinal: int, application_id: str, aside: Path) -> None:
        self._state_dir, self._ordinal, self._application = state_dir, ordinal, application_id
        self._stores = state_dir / str(ordinal) / "stores" / application_id
        self._aside = aside / "0" / "stores" / application_id
        self._aside_root = aside

    def remove(self) -> None:
        """Removes them."""
        with self._held():
            shutil.rmtree(self._stores, ignore_errors=True)

    # -- yesterday's copy --------------------------------------------------------------------

    def copy_aside(self) -> None:
        """Keeps a copy of them in the place of any earlier one."""
        with self._held():
            shutil.rmtree(self._aside_root, ignore_errors=True)
            shutil.copytree(self._stores, self._aside)

    def await_further(self, refusal: Callable[[], str]) -> None:
        """Waits until one of them is further than its copy, by rows that were committed.

        Raises:
            HoldfastError: none was in time, or the job has ended for good.
        """
        deadline = time.monotonic() + _FURTHER_S
        while not self._further():
            if refusal() or time.monotonic() >= deadline:
                why = refusal() or f"none went on in {_FURTHER_S:.0f} s"
                raise HoldfastError(f"The stores of volume {self._ordinal} were copied, but {why}.")
            time.sleep(_POLL_S)

    def bring_back(self) -> str:
        """Puts the copy in their place.

        Returns the stores that are older by it, in words; empty when none is.
        """
        with self._held():
            newer = self._positions()
            shutil.rmtree(self._stores)
            self._stores.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(self._aside, self._stores)
            older = self._older(self._positions(), newer)
        return ", ".join(
            f"{query}/{partition} at {now} instead of {was}"
            for (query, partition), (now, was) in sorted(older.items())
        )

    # -- swapped -----------------------------------------------------------------------------

    def pairs(self) -> list[tuple[Path, Path]]:
        """Of every query with at least two state partitions here the stores of the first two."""
        found = []
        for query in sorted(self._stores.glob("*/")):
            partitions = sorted(p for p in query.iterdir() if p.name.isdecimal())
            if len(partitions) > 1:
                found.append((partitions[0], partitions[1]))
        return found

    def swap(self) -> str:
        """Swaps the stores of each pair; returns what was swapped, in words; empty for nothing."""
        with self._held():
            done = [text for one, other in self.pairs() if (text := _swapped(one, other))]
        return ", ".join(done)

    # -- looking -----------------------------------------------------------------------------

    def _further(self) -> bool:
        found = self._older(self._copied(), self._positions())
        return any(now - was >= _FURTHER_OFFSETS for was, now in found.values())

    def _positions(self) -> dict[_Place, int]:
        found = store_digests(self._state_dir, self._application)
        return {(s.query_id, s.partition): s.position for s in found if s.volume == self._ordinal}

    def _copied(self) -> dict[_Place, int]:
        found = store_digests(self._aside_root, self._application)
        return {(s.query_id, s.partition): s.position for s in found}

    @staticmethod
    def _older(
        old: Mapping[_Place, int], new: Mapping[_Place, int]
    ) -> dict[_Place, tuple[int, int]]:
        shared = old.keys() & new.keys()
        return {place: (old[place], new[place]) for place in shared if old[place] < new[place]}

    @contextmanager
    def _held(self) -> Iterator[Volume]:
        volume = claim_ordinal(self._state_dir, self._ordinal, _LOCK_WAIT_S)
        try:
            yield volume
        finally:
            volume.release()


def _swapped(one: Path, other: Path) -> str:
    """Which folder is where is seen by its inode, not by what was asked for."""
    before = one.stat().st_ino, other.stat().st_ino
    between = one.with_name(f".{one.name}.swap")
    one.rename(between)
    other.rename(one)
    between.rename(other)
    after = other.stat().st_ino, one.stat().st_ino
    return f"{one.parent.name}/{one.name} with /{other.name}" if before == after else ""
