"""The look of plots: as SVG in a page's colors, and as PNG."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

if TYPE_CHECKING:
    from matplotlib.axis import Axis

__all__ = ["GRID", "INK", "STYLE", "byte_ticks", "second_ticks", "svg"]

_TICKS = 4
_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_SECONDS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))

# Placeholders that the page replaces with its own colors, dark or light.
INK, GRID = "#1f2733", "#d5dae1"
# For `matplotlib.rc_context`.
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "holdfast",
    "legend.frameon": False,
}


def svg(figure: Figure, name: str) -> str:
    """The plot as SVG without a prolog, in the page's colors; `name` makes its ids unique."""
    file = io.BytesIO()
    FigureCanvasSVG(figure)
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue().decode()
    text = text[text.index("<svg") :].replace(INK, "currentColor").replace(GRID, "var(--line)")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|"#|url\(#)', rf"\g<1>{name}-", text)
    return re.sub(r'<svg ([^>]*?)width="[^"]*" ?', rf'<svg class="{name}" \1', text, count=1)


def byte_ticks(axis: Axis, most: float) -> None:
    """Ticks up to `most` bytes, whole numbers of one unit or halves and quarters of it."""
    unit, name = _unit(_BYTES, most)
    step = 2.0 ** max(0.0, math.ceil(math.log2(most / _TICKS))) if most > _TICKS else 1.0
    _mark(axis, step, unit, name)


def second_ticks(axis: Axis, most: float) -> None:
    """Ticks up to `most` seconds, all in the unit of the largest, so that no two look the same."""
    unit, name = _unit(_SECONDS, most)
    rough = max(most, unit / 1_000) / unit / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough)
    _mark(axis, step * unit, unit, name)


def _unit(units: Sequence[tuple[float, str]], most: float) -> tuple[float, str]:
    return next((u for u in units if most >= u[0]), units[-1])


def _mark(axis: Axis, step: float, unit: float, name: str) -> None:
    axis.set_major_locator(MultipleLocator(step))
    axis.set_major_formatter(FuncFormatter(lambda at, _: f"{round(at / unit, 6):g} {name}"))
