"""How long a table that has all its keys has no results under a steady load.

The case's input topic holds the records that fill the table, and nobody else reads it: the load
is written into it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from tests.bench.measure.latency import RATE, load
from tests.bench.measure.measure import Mark, follow
from tests.bench.report.outcome import Outcome
from tests.bench.running import Running
from tests.bench.runs import Run, judged
from tests.bench.systems.peers import Command

__all__ = ["longest_pause", "next_commit", "rescaled", "volume_lost"]

_USUAL_S = 10.0  # of steady load before the order, and after the rescale
_LIMIT_S = 1_800.0
_LOST_S = 60.0  # of steady load after a kill
_TOLD_S = 0.5  # what was committed before a kill has been told by then
_EVERY_S = 0.02


def rescaled(run: Run, command: Command) -> Outcome:
    """The longest time between two commits, before a rescale and over it.

    Args:
        command: of the peer; it ends once the table has its new state partitions.
    """

    def rescale(running: Running, before: list[Mark]) -> dict[str, float]:
        began = time.monotonic()
        during = _follow(run, running, _started(run, command))
        took = time.monotonic() - began
        during += _watch(run, running, _USUAL_S)
        during += _until(run, running, during[-1].records + 1)  # a pause may be longer than that
        return {"pause_s": longest_pause(before[-1:] + during), "rescale_s": took}

    return _loaded(run, rescale)


def volume_lost(run: Run) -> Outcome:
    """From SIGKILL of a process, whose volume is lost, to the next commit."""

    def lose(running: Running, before: list[Mark]) -> dict[str, float]:
        pid, restart = run.peer.victim(run.case, running.pids)
        volume = run.peer.volume_of(run.case, pid)
        killed = time.monotonic()
        running.kill(pid, restart=restart)
        shutil.rmtree(volume, ignore_errors=True)
        return {"recovery_s": next_commit(_watch(run, running, _LOST_S), killed) - killed}

    return _loaded(run, lose)


def _loaded(run: Run, work: Callable[[Running, list[Mark]], dict[str, float]]) -> Outcome:
    """Fills the table, and measures under the load; `work` gets the marks before it."""
    with Running(run.peer, run.case) as running:
        _until(run, running, run.records)
        with load(run.cluster.bootstrap, run.case.input_topic):
            _until(run, running, run.records + RATE)  # it has started
            before = _watch(run, running, _USUAL_S)
            values = work(running, before)
        total = run.cluster.size(run.case.input_topic)
        _until(run, running, total)
    usual, peak_mb = longest_pause(before), running.tree.peak_bytes / 1e6
    values = {"usual_pause_s": usual, **values, "peak_mb": peak_mb}
    return judged(replace(run, records=total), replace(run.outcome, records=total, values=values))


def next_commit(marks: Sequence[Mark], killed: float) -> float:
    """The moment of the first commit after a kill.

    Commits up to the kill are seen a moment later: what is seen by then does not count.

    Raises:
        RuntimeError: there is none among the marks.
    """
    there = max((mark.records for mark in marks if mark.at < killed + _TOLD_S), default=0)
    for mark in marks:
        if mark.records > there:
            return mark.at
    raise RuntimeError("nothing was committed after the kill")


def longest_pause(marks: Sequence[Mark]) -> float:
    """The longest time, in seconds, in which nothing was committed.

    Args:
        marks: in their order; those that say the same number tell of no commit.
    """
    commits = [marks[0], *(b for a, b in pairwise(marks) if b.records != a.records)]
    moments = [*(mark.at for mark in commits), marks[-1].at]
    return max(after - before for before, after in pairwise(moments))


def _until(run: Run, running: Running, records: int) -> list[Mark]:
    deadline = time.monotonic() + _LIMIT_S

    def enough(mark: Mark) -> bool:
        running.check()
        run.tell(min(mark.records, run.records))
        if time.monotonic() > deadline:
            raise RuntimeError(f"{mark.records} of {records} records in {_LIMIT_S:.0f} s")
        return mark.records >= records

    return follow(run.progress, enough)


def _watch(run: Run, running: Running, seconds: float) -> list[Mark]:
    deadline = time.monotonic() + seconds

    def over(mark: Mark) -> bool:
        running.check()
        return mark.at >= deadline

    return follow(run.progress, over, _EVERY_S)


def _started(run: Run, command: Command) -> subprocess.Popen[bytes]:
    with _log(run).open("wb") as output:
        return subprocess.Popen(
            command.argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def _log(run: Run) -> Path:
    return run.case.folder / "rescale.log"


def _follow(run: Run, running: Running, asked: subprocess.Popen[bytes]) -> list[Mark]:
    """Marks until the command has ended.

    Raises:
        RuntimeError: it failed, or took too long.
    """
    deadline = time.monotonic() + _LIMIT_S

    def ended(mark: Mark) -> bool:
        running.check()
        return asked.poll() is not None or mark.at > deadline

    try:
        marks = follow(run.progress, ended, _EVERY_S)
    finally:
        if asked.poll() is None:
            asked.kill()
        status = asked.wait()
    if status:
        words = _log(run).read_text(encoding="utf-8", errors="replace")[-2_000:]
        raise RuntimeError(f"the rescale ended with {status}:\n{words}")
    return marks
