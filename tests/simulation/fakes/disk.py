"""Volumes in memory.  A killed process loses nothing, a crashed machine what was not yet synced.

process killed   every batch is still there; of those in bulk the last ones may be gone, whole
machine crashed  batches after the last one the kernel had written back may be gone, whole
volume lost      nothing is there
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from holdfast.errors import StoreCorrupted, StoreLocked
from holdfast.state.store import Found, flat
from tests.simulation.fakes.kafka import Process

__all__ = ["Disk", "FakeStore", "FakeVolume"]

_PARTS = 3  # files of a copy
_WRITTEN_BACK = 0.3  # chance that the kernel writes everything back after a batch

_Rows = dict[bytes, bytes]


@dataclass
class _File:
    """One store on disk: what is synced, and the states after each later batch."""

    rows: _Rows = field(default_factory=dict)
    unsynced: list[_Rows] = field(default_factory=list)
    bulk: list[_Rows] = field(default_factory=list)  # only the opener has them
    opener: FakeStore | None = None


class Disk:
    """Owns the files of all volumes."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._files: dict[Path, _File] = {}
        self.scratch: Path | None = None  # a real folder, for copies that stores make of themselves

    def open(self, path: Path, process: Process | None) -> FakeStore:
        """The store in a folder, empty when there is none.

        Raises:
            StoreLocked: a living process has it open.
        """
        copied = (path / "part0").exists()
        file = self._files.setdefault(path, _File(_read(path) if copied else {}))
        if file.opener is not None and file.opener.holds:
            raise StoreLocked(f"The store at {path} is open.", action="wait for its process.")
        self._die_in_bulk(file)
        file.opener = FakeStore(file, process, self._rng)
        return file.opener

    def _die_in_bulk(self, file: _File) -> None:
        left = self._rng.randint(0, len(file.bulk)) if file.bulk else 0
        if left:
            file.unsynced.append(file.bulk[left - 1])
        file.bulk = []

    def peek(self, path: Path, key: bytes) -> bytes | None:
        """One value of a store that may be open.

        Raises:
            StoreCorrupted: there is none.
        """
        if path.is_absolute():
            return _read(path).get(key)
        if path not in self._files:
            raise StoreCorrupted(f"There is no store at {path}.", action="restore it.")
        return _latest(self._files[path]).get(key)

    def paths(self, folder: Path) -> list[Path]:
        """Folders of stores below a folder, sorted."""
        return sorted(p for p in self._files if p.is_relative_to(folder))

    def delete(self, folder: Path) -> None:
        """Everything below a folder is gone."""
        for path in self.paths(folder):
            del self._files[path]

    def adopt(self, path: Path, folder: Path) -> None:
        """A copy takes the place of a store; it is not synced yet."""
        self._files[path] = _File(unsynced=[_read(folder)])
        shutil.rmtree(folder)

    def copy(self) -> dict[Path, dict[bytes, bytes]]:
        """A backup of every store as it is now."""
        return {path: dict(_latest(file)) for path, file in self._files.items()}

    def bring_back(self, path: Path, rows: dict[bytes, bytes]) -> None:
        """Restores a closed store to an earlier copy."""
        self._files[path] = _File(dict(rows))

    def swap(self, path: Path, other: Path) -> None:
        """Swaps two closed stores."""
        files = self._files
        files[path], files[other] = files[other], files[path]

    def crash(self, folder: Path) -> None:
        """The machine of a volume crashes."""
        for path in self.paths(folder):
            file = self._files[path]
            left = self._rng.randint(0, len(file.unsynced))
            file.rows = file.unsynced[left - 1] if left else file.rows
            file.unsynced, file.bulk = [], []


class FakeStore:
    """A `KeyValueStore` whose batches lie in a `Disk`."""

    durable = True

    def __init__(self, file: _File, process: Process | None, rng: random.Random) -> None:
        self._file = file
        self._process = process
        self._rng = rng
        self._rows = dict(_latest(file))
        self._closed = False
        self._in_bulk = False

    @property
    def holds(self) -> bool:
        """Whether the store is open, so that no other process may open it."""
        return not self._closed and (self._process is None or self._process.alive)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check()
        return [self._rows.get(key) for key in keys]

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Sequence[bytes]) -> None:
        self._check()
        for key in deletes:
            self._rows.pop(key, None)
        self._rows.update(puts)
        if self._in_bulk:
            self._file.bulk.append(dict(self._rows))
        else:
            self._keep()

    def begin_bulk(self) -> None:
        self._check()
        self._in_bulk = True

    def end_bulk(self) -> None:
        self._check()
        self._in_bulk, self._file.bulk = False, []
        self._keep()

    def scan(
        self, start: bytes, end: bytes | None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        self._check()
        inside = sorted(k for k in self._rows if k >= start and (end is None or k < end))
        rows = [(k, self._rows[k]) for k in inside[:limit]]
        return iter(rows)

    def count(self, start: bytes, end: bytes) -> int:
        return len(list(self.scan(start, end)))

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        return [list(self.scan(start, end)) for start, end in ranges]

    def scan_apart(self, starts: Sequence[bytes], ends: Sequence[bytes]) -> Found:
        return flat(self.scan_many(list(zip(starts, ends, strict=True))))

    def copy_to(self, folder: Path) -> None:
        self._check()
        folder.mkdir()
        for n in range(_PARTS):
            lines = [
                f"{key.hex()} {value.hex()}\n"
                for key, value in sorted(self._rows.items())
                if crc32(key) % _PARTS == n
            ]
            (folder / f"part{n}").write_text("".join(lines))

    def bytes_on_disk(self) -> int:
        return sum(len(k) + len(v) for k, v in self._rows.items())

    def wipe(self) -> None:
        self._check()
        self._rows.clear()
        self._in_bulk, self._file.bulk = False, []
        self._keep()

    def close(self) -> None:
        self._closed = True

    def _keep(self) -> None:
        self._file.unsynced.append(dict(self._rows))
        if self._rng.random() < _WRITTEN_BACK:
            self._file.rows, self._file.unsynced = self._file.unsynced[-1], []

    def _check(self) -> None:
        if not self.holds or self._file.opener is not self:
            raise StoreLocked("The store is closed.", action="reopen the state partition.")


class FakeVolume:
    """`Volume`: the folder of one executor's stores."""

    root: Path | None = None  # no progress files: nobody reads them here

    def __init__(self, disk: Disk, ordinal: int) -> None:
        self.ordinal = ordinal
        self.path = Path(str(ordinal))
        self._disk = disk
        if disk.scratch is not None:
            shutil.rmtree(disk.scratch / str(ordinal), ignore_errors=True)

    def store_path(self, application_id: str, query_id: str, state_partition: int) -> Path:
        return self.path / application_id / query_id / str(state_partition)

    def stores(self) -> list[tuple[str, str, int]]:
        found = (path.parts[1:] for path in self._disk.paths(self.path))
        return [(application, query, int(p)) for application, query, p in found]

    def delete_store(self, application_id: str, query_id: str, state_partition: int) -> None:
        self._disk.delete(self.store_path(application_id, query_id, state_partition))

    def scratch(self, name: str) -> Path:
        assert self._disk.scratch is not None, "a history with snapshots"
        path = self._disk.scratch / str(self.ordinal) / name
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def adopt_store(
        self, folder: Path, application_id: str, query_id: str, state_partition: int
    ) -> None:
        self._disk.adopt(self.store_path(application_id, query_id, state_partition), folder)


def _read(folder: Path) -> _Rows:
    """The rows of a copy."""
    lines = [line.split(" ") for n in range(_PARTS) for line in _lines(folder / f"part{n}")]
    return {bytes.fromhex(key): bytes.fromhex(value) for key, value in lines}


def _lines(part: Path) -> list[str]:
    return part.read_text().splitlines()


def _latest(file: _File) -> _Rows:
    return file.unsynced[-1] if file.unsynced else file.rows
