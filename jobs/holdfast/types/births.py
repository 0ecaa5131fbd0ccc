"""A process's birth: the text that, with its pid, names one process and no later one.

It is `<seconds after boot> <machine>`. A wall-clock start time is no identity: the system works it
out from the clock of now, and a jump of the clock makes every process look born at another time.
Records of older versions have nothing else (`upgraded`), and are compared by it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil

__all__ = ["after_boot", "born", "lives", "machine", "taken_over", "upgraded", "written"]

_SLACK_S = 1.0
_NAMES = {"created": "born", "driver_created": "driver_born"}


def born(pid: int = 0) -> str:
    """The birth of a process, zombies included; 0: this one.

    Raises:
        psutil.Error: there is no such process.
    """
    return written(after_boot(pid or os.getpid()), machine())


def written(seconds: float, place: str) -> str:
    """The birth of a process that started on `place` so many seconds after its boot."""
    return f"{seconds:.2f} {place}"


def lives(pid: int, birth: str) -> bool:
    """Whether the process with `pid` and `birth` is alive.

    A reused pid does not count, nor does a zombie that waits to be reaped.
    """
    try:
        return _is(pid, birth) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def taken_over(pid: int, birth: str) -> bool:
    """Whether the pid of the process of this birth means another one now, or nothing here."""
    _, _, place = birth.partition(" ")
    try:
        return bool(place and place != machine()) or not _is(pid, birth)
    except psutil.Error:
        return False


def after_boot(pid: int) -> float:
    """When a process started, in seconds after the machine's boot.

    Raises:
        psutil.Error: there is no such process.
    """
    while True:  # psutil adds the boot's time by the clock; it must be the one that is taken off
        booted = psutil.boot_time()
        created = psutil.Process(pid).create_time()
        if booted == psutil.boot_time():
            return float(created - booted)


@cache
def machine() -> str:
    """Name of the place in which this process's pid means something, until the next boot."""
    places = ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid")
    try:
        return f"{Path(places[0]).read_text().strip()} {Path(places[1]).readlink()}"
    except OSError:  # not Linux
        return socket.gethostname()


def upgraded(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with births; one of an older version has seconds since the epoch, `created`."""
    known = {_NAMES.get(key, key): value for key, value in record.items()}
    return {k: str(v) if k in _NAMES.values() else v for k, v in known.items()}


def _is(pid: int, birth: str) -> bool:
    """Raises `psutil.Error` if no process has the pid."""
    seconds, _, place = birth.partition(" ")
    try:
        expected = float(seconds)
    except ValueError:
        return False
    if not place:  # of an older version
        return abs(psutil.Process(pid).create_time() - expected) < _SLACK_S
    return place == machine() and abs(after_boot(pid) - expected) < _SLACK_S
