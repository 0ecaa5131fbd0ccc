"""CPU seconds by process and thread name, from Linux's /proc: native threads count, too.

librdkafka, RocksDB and Java's virtual machine name their threads, so what they cost is told apart
from the Python code that called them.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["NATIVE", "Stat", "ThreadTimes", "parse_stat", "thread_group"]

NATIVE = ("librdkafka", "RocksDB flush and compaction")  # thread groups of native libraries

_EVERY_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
_GROUPS = (
    (r"^(C1|C2) Compiler|^Compile|^Sweeper", "JVM: compiler (JIT)"),
    (r"^(GC|G1|ParGC|Concurrent GC|VM Thread)", "JVM: garbage collection"),
    (r"^Executor task|^Executor$", "JVM: Spark tasks"),
    (r"^stdout writer|^Python ?[Ww]riter|^writer for", "JVM: writes to Python"),
    (r"^stream execut", "JVM: streaming query"),
    (r"^(Thread-|Connection|GatewayConn)", "JVM: calls from Python (py4j)"),
    (r"^(dispatcher|dag-schedul|task-result|netty|shuffle|rpc|map-output|block-manager|files-)",
     "JVM: scheduling and network"),
    (r"^rdk:", "librdkafka"),
    (r"^rocksdb:", "RocksDB flush and compaction"),
)  # fmt: skip


@dataclass(frozen=True)
class Stat:
    """One thread: its name as the kernel keeps it, CPU seconds so far, and when it began."""

    name: str
    seconds: float
    began: str


def parse_stat(text: str, ticks: int = _TICKS) -> Stat:
    """The line of /proc/<pid>/task/<tid>/stat; a name may hold spaces and brackets."""
    name, rest = text[text.index("(") + 1 :].rsplit(") ", 1)
    fields = rest.split()
    return Stat(name, (int(fields[11]) + int(fields[12])) / ticks, fields[19])


def thread_group(name: str) -> str:
    """What the threads of a name do; the name without its numbers where that is unknown."""
    for pattern, group in _GROUPS:
        if re.search(pattern, name):
            return group
    return re.sub(r"[-#:. ]*\d+.*$", "", name) or name


class ThreadTimes:
    """Samples every thread of the processes that `members` gives, twice a second."""

    def __init__(self, members: Callable[[], list[psutil.Process]]) -> None:
        self._members = members
        self._known: dict[tuple[int, int, str], tuple[str, float]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="threads", daemon=True)
        self._lock = threading.Lock()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def totals(self) -> dict[tuple[int, str], float]:
        """CPU seconds up to now by (pid, thread group)."""
        self._sample()
        found: dict[tuple[int, str], float] = {}
        with self._lock:
            for (pid, tid, _), (name, seconds) in self._known.items():
                group = "main thread" if pid == tid else thread_group(name)
                found[pid, group] = found.get((pid, group), 0.0) + seconds
        return found

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        with self._lock:
            for process in self._members():
                for tid, stat in _threads(process.pid):
                    self._known[process.pid, tid, stat.began] = (stat.name, stat.seconds)


def _threads(pid: int) -> Iterator[tuple[int, Stat]]:
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError):
                stat = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
                yield int(entry.name), parse_stat(stat)
