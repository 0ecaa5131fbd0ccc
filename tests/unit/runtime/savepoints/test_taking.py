"""An order to make a savepoint is obeyed while somebody waits for it, whoever's clock is wrong."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.errors import Refused
from holdfast.runtime.carrying_out import InHand
from holdfast.runtime.savepoints import taking
from holdfast.runtime.savepoints.taking import SavepointMaker
from holdfast.state.topics.orders import Answer, SavepointOrder

_OFF_S = 600.0


class _Book:
    """Orders that are written while the driver runs; what is told of them is published nowhere."""

    def __init__(self) -> None:
        self.savepoint_orders: dict[str, SavepointOrder] = {}
        self.savepoints_told: dict[str, Answer] = {}

    def tell_savepoint(self, name: str, told: Answer) -> None:
        self.savepoints_told[name] = told


@pytest.fixture
def book() -> _Book:
    return _Book()


@pytest.fixture
def maker(book: _Book, monkeypatch: pytest.MonkeyPatch) -> SavepointMaker:
    """One to which every savepoint is there already, if it gets so far as to look."""
    snapshots = SimpleNamespace(uri="file:///nowhere")
    state = SimpleNamespace(on_volumes=True)
    settings = SimpleNamespace(snapshots=snapshots, application_id="app", state=state)
    place = SimpleNamespace(has=lambda _: True)
    monkeypatch.setattr(taking, "SavepointPlace", lambda *_: place)
    return SavepointMaker(cast("Any", SimpleNamespace(settings=settings)), cast("Any", book), "")


def _ordered(off_s: float) -> SavepointOrder:
    """An order for which somebody waits a minute, by a clock that is so far ahead."""
    return SavepointOrder(int((time.time() + off_s + 60) * 1000), wait_ms=60_000)


def _make(maker: SavepointMaker, order: SavepointOrder) -> None:
    maker.make(InHand("s", order, Answer(order.token)), [])


@pytest.mark.parametrize("off_s", [-_OFF_S, _OFF_S])
def test_clocks_that_differ_refuse_no_order(
    maker: SavepointMaker, book: _Book, off_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maker, "_begin", lambda _: None)
    maker.look([])
    order = book.savepoint_orders["s"] = _ordered(off_s)
    maker.look([])
    _make(maker, order)


def test_an_order_from_before_the_start_is_refused_when_nobody_waits(
    maker: SavepointMaker, book: _Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maker, "_begin", lambda _: None)
    order = book.savepoint_orders["s"] = _ordered(-_OFF_S)
    maker.look([])
    with pytest.raises(Refused, match="too late"):
        _make(maker, order)


def test_an_order_of_an_older_version_is_judged_by_the_clock(
    maker: SavepointMaker, book: _Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maker, "_begin", lambda _: None)
    maker.look([])
    order = SavepointOrder(int((time.time() - 1) * 1000))
    book.savepoint_orders["s"] = order
    maker.look([])
    with pytest.raises(Refused, match="too late"):
        _make(maker, order)


def test_an_order_says_how_long_somebody_waits() -> None:
    order = SavepointOrder.within(90.0)
    assert order.wait_ms == 90_000
    assert order.until_ms / 1000 == pytest.approx(time.time() + 90, abs=5)
