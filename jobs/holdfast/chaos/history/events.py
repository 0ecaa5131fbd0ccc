"""What was done and seen in a run: append-only JSON lines, one file per writer.

    <run folder>/run.json           what was asked for, seed and versions
    <run folder>/<source>.jsonl     one event per line

An invocation is written before the deed and its outcome after it, so that a writer that was
killed in between leaves an invocation without outcome, which is read as unknown.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

__all__ = ["Event", "HistoryWriter", "Kind", "read_history"]


class Kind(StrEnum):
    """`invoke` begins an operation; `ok`, `fail`, `unknown` end it; `state` is an observation."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"
    STATE = "state"


@dataclass(frozen=True)
class Event:
    """One line.

    Attributes:
        source: who wrote it; also the file's name.
        op: number of the operation within its source, shared by invocation and outcome; -1 for
            observations.
        what: kind of operation or observation: "inject", "produce", "sample", "phase" ...
        wall_s: seconds since the epoch; compares roughly between machines.
        monotonic_s: compares exactly, within one source.
    """

    source: str
    kind: Kind
    what: str
    op: int
    wall_s: float
    monotonic_s: float
    data: Mapping[str, Any] = field(default_factory=dict)


class HistoryWriter:
    """Owns one source's file; every event is on its way to disk before `append` returns."""

    def __init__(self, folder: Path, source: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._source = source
        path = folder / f"{source}.jsonl"
        before = path.read_bytes() if path.exists() else b""
        self._ops = itertools.count(before.count(b"\n"))
        self._file = path.open("ab", buffering=0)
        if before and not before.endswith(b"\n"):  # the writer before was killed in a write
            self._file.write(b"\n")

    def invoke(self, what: str, **data: Any) -> int:
        """The operation's number, for its outcome."""
        op = next(self._ops)
        self._append(Kind.INVOKE, what, op, data)
        return op

    def outcome(self, kind: Kind, what: str, op: int, **data: Any) -> None:
        """How an operation ended."""
        self._append(kind, what, op, data)

    def state(self, what: str, **data: Any) -> None:
        """Something that was seen."""
        self._append(Kind.STATE, what, -1, data)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _append(self, kind: Kind, what: str, op: int, data: Mapping[str, Any]) -> None:
        event = Event(self._source, kind, what, op, time.time(), time.monotonic(), data)
        self._file.write(orjson.dumps(asdict(event), option=orjson.OPT_APPEND_NEWLINE))


def read_history(folder: Path) -> list[Event]:
    """Every event of every source, in the order of wall time; torn lines are left out."""
    events = [e for file in sorted(folder.glob("*.jsonl")) for e in _read(file)]
    return sorted(events, key=lambda e: (e.wall_s, e.source))


def _read(file: Path) -> Iterator[Event]:
    for line in file.read_bytes().split(b"\n"):
        with suppress(orjson.JSONDecodeError):
            fields = orjson.loads(line)
            yield Event(**{**fields, "kind": Kind(fields["kind"])})
