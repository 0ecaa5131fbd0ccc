"""The place of snapshots: a real folder, which may be out of reach for a while or be damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast.errors import SnapshotsUnavailable
from holdfast.state.snapshots import places
from tests.simulation.fakes.clock import VirtualTime

__all__ = ["SnapshotPlace"]


class SnapshotPlace:
    """Owns a temporary folder until `close`."""

    def __init__(self, clock: VirtualTime, rng: random.Random) -> None:
        self._folder = TemporaryDirectory(prefix="simulation-")
        self._clock = clock
        self._rng = rng
        self.root = Path(self._folder.name)
        self.uri = str(self.root / "snapshots")
        self.away_until_s = float("-inf")

    def opened(self, uri: str) -> tuple[Any, str]:
        """`places.opened`."""
        if self._clock.monotonic() < self.away_until_s:
            raise SnapshotsUnavailable("The snapshots are out of reach.", action="wait.")
        return places.opened(uri)

    def damage(self) -> bool:
        """Something happens to one file; false if there is none."""
        files = sorted(p for p in Path(self.uri).rglob("*") if p.is_file())
        if files:
            path, other = self._rng.choice(files), self._rng.choice(files)
            hows: tuple[Callable[[], None], ...] = (
                path.unlink,
                lambda: self._flip(path),
                lambda: _write(path, path.read_bytes()[: path.stat().st_size // 2]),
                lambda: _write(path, other.read_bytes()),
            )
            self._rng.choice(hows)()
        return bool(files)

    def close(self) -> None:
        self._folder.cleanup()

    def _flip(self, path: Path) -> None:
        data = bytearray(path.read_bytes() or b"?")
        data[self._rng.randrange(len(data))] ^= 1
        _write(path, bytes(data))


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
