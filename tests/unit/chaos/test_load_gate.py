"""The load is held and let go, each side seeing what the other has done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.chaos.load.load_gate import LoadGate
from holdfast.errors import HoldfastError

WAIT_S = 30.0


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _workload(folder: Path, sent: list[int]) -> threading.Thread:
    """One that is held once."""
    gate = LoadGate(folder)

    def run() -> None:
        _until(lambda: gate.closed)
        gate.tell_held()
        _until(lambda: not gate.closed)
        sent.append(gate.at_once())
        gate.tell_gone_on()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("at_once", [0, 700])
def test_it_is_held_until_it_is_let_go(tmp_path: Path, at_once: int) -> None:
    sent: list[int] = []
    gate = LoadGate(tmp_path, WAIT_S)
    for turn in (1, 2):  # what was said the last time is forgotten
        workload = _workload(tmp_path, sent)
        gate.hold()
        assert len(sent) == turn - 1, "nothing is sent while it is held"
        gate.go_on(at_once)
        assert sent == [at_once] * turn, "what was to be sent at once is there"
        workload.join(WAIT_S)


def test_a_hold_that_is_taken_back_asks_for_nothing(tmp_path: Path) -> None:
    sent: list[int] = []
    gate = LoadGate(tmp_path, WAIT_S)
    workload = _workload(tmp_path, sent)
    gate.hold()
    gate.open()
    workload.join(WAIT_S)
    assert sent == [0]


def test_a_workload_that_does_not_stop_is_told(tmp_path: Path) -> None:
    gate = LoadGate(tmp_path, 0.0)
    with pytest.raises(HoldfastError, match="The workload has not stopped sending"):
        gate.hold()
    gate.tell_held()
    with pytest.raises(HoldfastError, match="The workload has not gone on"):
        gate.go_on()
    assert not gate.closed
