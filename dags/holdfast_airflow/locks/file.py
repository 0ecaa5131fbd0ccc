"""Target `local`: the lock is a file in the home folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO

from holdfast_airflow.locks.held import Held, Holder

__all__ = ["FileLock"]


class FileLock:
    """A lock as a file, which is empty while nobody has it.

    Args:
        home: folder of all local files.
    """

    def __init__(self, home: Path, job: str) -> None:
        self._file = home / "locks" / f"{job}.json"
        self.by_hand = f"rm {self._file}"

    def read(self) -> Held | None:
        with self._open() as file:
            return _read(file)

    def take(self, holder: Holder, instead_of: Held | None) -> bool:
        with self._open() as file:
            if _read(file) != instead_of:
                return False
            _write(file, json.dumps({
                "dag": holder.dag, "run": holder.run,
                "since": holder.since.isoformat(), "until": holder.until.isoformat(),
            }))  # fmt: skip
            return True

    def free(self, held: Held) -> None:
        with self._open() as file:
            if _read(file) == held:
                _write(file, "")

    @contextmanager
    def _open(self) -> Iterator[TextIO]:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file


def _read(file: TextIO) -> Held | None:
    file.seek(0)
    text = file.read()
    if not text:
        return None
    told = json.loads(text)
    since, until = (datetime.fromisoformat(told[key]) for key in ("since", "until"))
    return Held(Holder(told["dag"], told["run"], since, until), text)


def _write(file: TextIO, text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
