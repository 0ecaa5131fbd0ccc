"""Signals while Spark starts, and who handles them next."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from holdfast.runtime.jvm.starting import ends_at_once

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_next_handler_takes_over_without_a_moment_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As PySpark does it, the start replaces the handler of SIGINT meanwhile."""
    caught: list[int] = []

    def then(number: int, _: FrameType | None) -> None:
        caught.append(number)

    put, real = list[object](), signal.signal

    def noted(number: int, handler: Callable[[int, FrameType | None], None]) -> object:
        put.append(handler)
        return real(number, handler)

    with ends_at_once(then):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        monkeypatch.setattr(signal, "signal", noted)
    assert put == [then, then], "the former handlers come back for a moment"
    for number in NUMBERS:
        signal.raise_signal(number)
    assert caught == list(NUMBERS)


def test_a_start_that_fails_leaves_signals_as_they_were() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with pytest.raises(RuntimeError), ends_at_once(lambda *_: None):
        raise RuntimeError
    assert [signal.getsignal(number) for number in NUMBERS] == before
