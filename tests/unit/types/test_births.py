"""Births of real processes: what a jump of the clock, a reboot and a reused pid do to them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from holdfast.types.births import after_boot, born, lives, machine, taken_over, upgraded, written
from tests.support.clock import jump

_JUMPS = pytest.mark.parametrize("seconds", [-86_400.0, -2.0, 0.0, 2.0, 86_400.0])


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    yield process
    process.kill()
    process.wait()


@_JUMPS
def test_a_jump_of_the_clock_changes_no_birth(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    birth = born(sleeper.pid)
    jump(monkeypatch, seconds)
    assert born(sleeper.pid) == birth
    assert lives(sleeper.pid, birth)
    assert not taken_over(sleeper.pid, birth)


def test_a_clock_that_jumps_while_a_birth_is_read_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """psutil reads the time of the boot a second time to add it."""
    birth, platform = born(), vars(psutil)["_psplatform"]
    real, asked = platform.boot_time, list[int]()

    def late() -> float:
        asked.append(1)
        return float(real()) + (3_600 if len(asked) > 1 else 0)

    monkeypatch.setattr(platform, "boot_time", late)
    assert born() == birth
    assert len(asked) > 3


def test_the_dead_live_no_more_and_a_zombie_has_a_birth(
    sleeper: subprocess.Popen[bytes],
) -> None:
    birth = born(sleeper.pid)
    sleeper.kill()
    while psutil.Process(sleeper.pid).status() != psutil.STATUS_ZOMBIE:
        pass
    assert born(sleeper.pid) == birth
    assert not lives(sleeper.pid, birth)
    assert not taken_over(sleeper.pid, birth)
    sleeper.wait()
    assert not lives(sleeper.pid, birth)
    assert not taken_over(sleeper.pid, birth), "its session may have members"


def _older() -> str:
    return written(after_boot(os.getpid()) - 100, machine())


def _another_boot() -> str:
    return written(after_boot(os.getpid()), "another boot pid:[1]")


@pytest.mark.parametrize("birth", [_older, _another_boot])
def test_a_pid_that_was_given_again_is_another_process(birth: Callable[[], str]) -> None:
    assert not lives(os.getpid(), birth())
    assert taken_over(os.getpid(), birth())


def test_after_a_reboot_a_pid_without_a_process_means_nothing_either() -> None:
    """Some session may have that number, and its members are strangers."""
    assert taken_over(2**22 + 1, _another_boot())


@pytest.mark.parametrize("birth", ["", "x", "x y", "nan here", " "])
def test_what_is_no_birth_is_nobodys(birth: str) -> None:
    assert not lives(os.getpid(), birth)
    assert not lives(0, birth)


def test_a_record_of_an_older_version_is_compared_by_the_clock() -> None:
    created = psutil.Process().create_time()
    old = {"pid": os.getpid(), "created": created, "driver_created": created - 100, "port": 1}
    record = upgraded(old)
    assert record.keys() == {"pid", "born", "driver_born", "port"}
    assert lives(os.getpid(), record["born"])
    assert not taken_over(os.getpid(), record["born"])
    assert not lives(os.getpid(), record["driver_born"])
    assert taken_over(os.getpid(), record["driver_born"])
    assert upgraded(record) == record
