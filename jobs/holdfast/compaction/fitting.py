"""A table as wide as its texts need, or, where there is no room, lines of its own for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["FittingTable"]

_INDENT = 4


@dataclass(frozen=True)
class FittingTable:
    """Rows under heads, no word of which is ever broken to fit.

    Attributes:
        heads: those that begin with `*` are of numbers.
        rows: one text per head.
        title: the place of the column that names a row, from 0.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the table if it fits, else a name and lines of its own for each row."""
        table = self._table()
        unbounded = options.update(width=10_000)
        if Measurement.get(console, unbounded, table).maximum <= options.max_width:
            yield table
            return
        yield ""
        for row in self.rows:
            yield Text(row[self.title], style="bold", overflow="fold")
            for line in self._lines(row, options.max_width - _INDENT - 1):
                yield Padding(Text(line), (0, 0, 0, _INDENT))
        yield ""

    def _table(self) -> Table:
        table = Table(box=SIMPLE_HEAD)
        for head in self.heads:
            number = head.startswith("*")
            table.add_column(
                head.removeprefix("*"), justify="right" if number else "left", no_wrap=True
            )
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def _lines(self, row: Sequence[str], width: int) -> Iterator[str]:
        """The row's facts, as many in a line as fit whole."""
        line = ""
        for n, (head, text) in enumerate(zip(self.heads, row, strict=True)):
            if n == self.title or not text:
                continue
            name = head.removeprefix("*")
            fact = f"{name}: {text}" if name else text
            longer = f"{line}; {fact}" if line else fact
            if line and len(longer) > width:
                yield f"{line};"
                longer = fact
            line = longer
        yield line
