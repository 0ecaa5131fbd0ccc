"""The look of plots: as SVG in a page's colors, and as PNG."""

from __future__ import annotations

import io
import re
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

__all__ = ["GRID", "INK", "STYLE", "svg"]

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
