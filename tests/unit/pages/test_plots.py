from __future__ import annotations

from collections.abc import Callable

import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from holdfast.pages.plots import byte_ticks, second_ticks

TINY_TO_LARGE = (1e-6, 3e-4, 0.004, 0.04, 0.3, 1, 7, 59, 61, 200, 5_000, 90_000, 3e6)


def labels(set_ticks: Callable[[Axis, float], None], most: float) -> list[str]:
    axes = Figure().subplots()
    axes.set_xlim(0, most)
    set_ticks(axes.xaxis, most)
    places = [p for p in axes.xaxis.get_major_locator()() if 0 <= p <= most]
    return list(axes.xaxis.get_major_formatter().format_ticks(places))


@pytest.mark.parametrize("most", TINY_TO_LARGE)
def test_ticks_of_seconds_differ_and_share_a_unit(most: float) -> None:
    found = labels(second_ticks, most)
    assert 2 <= len(found) <= 6
    assert len(set(found)) == len(found)
    assert len({text.split()[1] for text in found}) == 1


def test_ticks_of_short_restores_are_milliseconds() -> None:
    assert labels(second_ticks, 0.04) == ["0 ms", "10 ms", "20 ms", "30 ms", "40 ms"]


@pytest.mark.parametrize("most", [1, 3, 700, 20_000, 3 << 20, 5 << 30, 1 << 44])
def test_ticks_of_bytes_differ(most: float) -> None:
    found = labels(byte_ticks, most)
    assert 2 <= len(found) <= 6
    assert len(set(found)) == len(found)
