"""Measurements from outside, the same for every peer.

Progress is what the consumer group has committed of the input topic; CPU and memory are those of
all processes of the sessions that were started for the peer.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

__all__ = [
    "Mark",
    "Spread",
    "Tree",
    "crossing",
    "follow",
    "memory_of",
    "percentile",
    "rate",
    "size_of",
    "sum_at",
]

_CPU_EVERY_S = 0.2
_MEMORY_EVERY = 5  # CPU samples for one of memory, which costs more


@dataclass(frozen=True)
class Mark:
    """How many records were committed at a moment (seconds of the monotonic clock)."""

    at: float
    records: int


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, the least and the greatest."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Raises ValueError when there are none."""
        if not values:
            raise ValueError("no round has a value")
        return Spread(statistics.median(values), min(values), max(values))


def crossing(marks: Sequence[Mark], records: int) -> Mark:
    """The first mark with at least so many records.

    Raises:
        ValueError: there is none.
    """
    for mark in marks:
        if mark.records >= records:
            return mark
    raise ValueError(f"{records} records were never committed")


def rate(start: Mark, end: Mark) -> float:
    """Records per second between two marks; not a number when they are one."""
    seconds = end.at - start.at
    return (end.records - start.records) / seconds if seconds > 0 else float("nan")


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * share // 1))
    return ordered[int(rank) - 1]


def sum_at(timeline: Sequence[tuple[float, float]], at: float) -> float:
    """A growing total at a moment, linear between the samples (time, total) around it."""
    before = (0.0, 0.0)
    for index, (time_s, total) in enumerate(timeline):
        if time_s >= at:
            if index == 0:
                return total
            share = (at - before[0]) / (time_s - before[0])
            return before[1] + share * (total - before[1])
        before = (time_s, total)
    return before[1]


Member = tuple[int, float]
"""A process: pid and when it began, so that a pid taken over is another."""


@dataclass
class Tree:
    """Samples the processes of some sessions from a thread until `stop`.

    CPU (user and system) of a process that ended stays as it was at the last sample, at most
    0.2 s before, and what it has written, at most 1 s before.  Memory is
    proportional (PSS: shared pages count once in all) where the system tells, else resident.
    """

    timeline: list[tuple[float, float]] = field(default_factory=list)
    peak_bytes: int = 0

    @property
    def written_bytes(self) -> int:
        """Bytes that the processes have sent to disks; 0 where the system does not tell."""
        return sum(self._written.values())

    def __post_init__(self) -> None:
        self._sessions: set[int] = set()
        self._resident = 0  # the most so far, shared pages counted in each process
        self._cpu: dict[Member, float] = {}
        self._written: dict[Member, int] = {}
        self._known: dict[int, psutil.Process] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tree", daemon=True)

    def add(self, session: int) -> None:
        """From here on the processes of this session count as well."""
        self._sessions.add(session)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Takes a last sample, while what is measured still runs."""
        self._ended.set()
        self._thread.join()

    def cpu_at(self, at: float) -> float:
        """CPU seconds used up to a moment."""
        return sum_at(self.timeline, at)

    def spent(self) -> float:
        """CPU seconds up to the last sample."""
        return self.timeline[-1][1] if self.timeline else 0.0

    def _run(self) -> None:
        number = 0
        while True:
            last = self._ended.wait(_CPU_EVERY_S if number else 0)
            self._sample(memory=last or number % _MEMORY_EVERY == 0)
            number += 1
            if last:
                return

    def _sample(self, *, memory: bool) -> None:
        members = list(self._members())
        for process in members:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._cpu[process.pid, process.create_time()] = times.user + times.system
        self.timeline.append((time.monotonic(), sum(self._cpu.values())))
        if memory:
            self._sample_memory(members)
            self._sample_written(members)

    def _sample_memory(self, members: Sequence[psutil.Process]) -> None:
        """Proportional memory costs the system a walk through all pages: at a new peak only."""
        resident = 0
        for process in members:
            with contextlib.suppress(psutil.Error):
                resident += process.memory_info().rss
        if resident > self._resident:
            self._resident = resident
            self.peak_bytes = max(self.peak_bytes, sum(memory_of(m.pid) for m in members))

    def _sample_written(self, members: Sequence[psutil.Process]) -> None:
        for process in members:
            with contextlib.suppress(psutil.Error, AttributeError):  # macOS does not tell
                written = process.io_counters().write_bytes
                self._written[process.pid, process.create_time()] = written

    def _members(self) -> Iterable[psutil.Process]:
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.Error):
                if os.getsid(pid) in self._sessions:
                    known = self._known.get(pid)
                    if known is None or not known.is_running():
                        known = self._known[pid] = psutil.Process(pid)
                    yield known


def memory_of(pid: int) -> int:
    """Bytes of a process: proportional (PSS) where the system tells, else resident; 0 if gone."""
    with contextlib.suppress(psutil.Error):
        info = psutil.Process(pid).memory_full_info()
        return int(getattr(info, "pss", info.rss))
    return 0


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder; of a file with several links once."""
    sizes: dict[tuple[int, int], int] = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())


def follow(
    committed: Callable[[], int], until: Callable[[Mark], bool], every_s: float = 0.1
) -> list[Mark]:
    """Marks until one of them will do; only those where something changed, and the last."""
    marks: list[Mark] = []
    while True:
        mark = Mark(time.monotonic(), committed())
        if not marks or mark.records != marks[-1].records:
            marks.append(mark)
        if until(mark):
            return marks if marks[-1] is mark else [*marks, mark]
        time.sleep(every_s)
