"""Dead letters as their topic has them, and what a replay does with each."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from enum import StrEnum

__all__ = ["Counts", "Fate", "Ledger", "StoredLetter"]


@dataclass(frozen=True)
class StoredLetter:
    """A record of the dead-letter topic, by what its headers say of the original.

    Attributes:
        topic, partition, offset: where the original is.
        timestamp_ms: the original's.
        written_ms: when it was set aside.
        query: `<application.id>-<query>`.
        cut: key or value are only its first bytes.
    """

    key: bytes | None
    value: bytes | None
    reason: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    written_ms: int
    query: str
    cut: bool = False

    @property
    def origin(self) -> str:
        """Where the original is, as one text."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def digest(self) -> str:
        """A hash that tells this record from others, wherever it is written again."""
        found = hashlib.sha256()
        for part in (self.topic.encode(), self.key, self.value, str(self.timestamp_ms).encode()):
            found.update(b"\0" if part is None else b"\1%d:" % len(part) + part)
        return found.hexdigest()


class Fate(StrEnum):
    """The outcome of a replay for a letter."""

    DUE = "due"  # to be written
    DONE = "done"  # written by an earlier replay
    FAILED_AGAIN = "failed_again"  # a copy that a replay wrote, and that could not be decoded
    CUT = "cut"  # the letter does not have the whole record


@dataclass(frozen=True)
class Counts:
    """The number of distinct records of each fate."""

    due: int = 0
    done: int = 0
    failed_again: int = 0
    cut: int = 0


_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE done (origin TEXT, digest TEXT, PRIMARY KEY (origin, digest)) WITHOUT ROWID;
CREATE TABLE letters (
  fate TEXT, origin TEXT, digest TEXT, key BLOB, value BLOB, reason TEXT, topic TEXT,
  partition INTEGER, "offset" INTEGER, timestamp_ms INTEGER, written_ms INTEGER, query TEXT,
  cut INTEGER,
  UNIQUE (fate, origin, digest)
);
CREATE INDEX in_order ON letters (topic, partition, "offset");
"""
_COLUMNS = ", ".join(f'"{field.name}"' for field in fields(StoredLetter))
_NOTE = f"INSERT OR IGNORE INTO letters VALUES (?, ?, ?{', ?' * len(fields(StoredLetter))})"
_WRITABLE = f"""
SELECT {_COLUMNS} FROM letters WHERE fate IN (?, ?) ORDER BY topic, partition, "offset"
"""


class Ledger(AbstractContextManager["Ledger"]):
    """The fate of each letter, in a temporary file: a topic may have more than memory holds.

    Args:
        done: the places of records that earlier replays wrote, and their digests.
        whole: keep the records themselves, for `writable`.
    """

    def __init__(self, done: Iterable[tuple[str, str]], *, whole: bool) -> None:
        self._file = sqlite3.connect("", isolation_level=None)  # "" is a file that ends with it
        self._whole = whole
        self._file.executescript(_TABLES)
        self._file.execute("BEGIN")
        self._file.executemany("INSERT OR IGNORE INTO done VALUES (?, ?)", done)
        self._file.execute("CREATE INDEX of_digest ON done (digest)")

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def note(self, letter: StoredLetter) -> Fate:
        """Add a letter; of several of one record with one fate the first one counts."""
        digest = letter.digest
        fate = self._fate(letter, digest)
        kept = letter if self._whole else StoredLetter(None, None, "", "", 0, 0, 0, 0, "")
        row = (getattr(kept, field.name) for field in fields(StoredLetter))
        self._file.execute(_NOTE, (fate, letter.origin, digest, *row))
        return fate

    def _fate(self, letter: StoredLetter, digest: str) -> Fate:
        # A topic that was made anew has other records in the same places.
        if self._is("origin = ? AND digest = ?", letter.origin, digest):
            return Fate.DONE
        if letter.cut:
            return Fate.CUT
        return Fate.FAILED_AGAIN if self._is("digest = ?", digest) else Fate.DUE

    def _is(self, where: str, *values: str) -> bool:
        asked = f"SELECT 1 FROM done WHERE {where} LIMIT 1"
        return self._file.execute(asked, values).fetchone() is not None

    def counts(self) -> Counts:
        """The letters so far."""
        found = self._file.execute("SELECT fate, count(*) FROM letters GROUP BY fate")
        return Counts(**dict(found.fetchall()))

    def writable(self, *, again: bool) -> Iterator[StoredLetter]:
        """The due letters, in the order of their topics.

        Args:
            again: also those that failed again.
        """
        fates = (Fate.DUE, Fate.FAILED_AGAIN if again else Fate.DUE)
        for row in self._file.execute(_WRITABLE, fates):
            found = StoredLetter(*row)
            yield replace(found, cut=bool(found.cut))  # SQLite has no booleans
