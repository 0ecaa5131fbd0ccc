"""Values that anybody can check by hand, or look up in the data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from holdfast.cli.demo.recount import Tables
from holdfast.judge.values import same

__all__ = ["EXPECTED", "FLIGHTS_EXPECTED", "Expected", "compare", "results_table"]


@dataclass(frozen=True)
class Expected:
    """A value a table must hold."""

    table: str
    key: str
    column: str
    value: Any


EXPECTED = (
    Expected("MOVIE_TICKETS_SOLD", "Aliens", "TICKETS_SOLD", 2),
    Expected("MOVIE_TICKETS_SOLD", "Die Hard", "TICKETS_SOLD", 3),
    Expected("MOVIE_TICKETS_SOLD", "The Big Lebowski", "TICKETS_SOLD", 1),
    Expected("MOVIE_TICKETS_SOLD", "The Godfather", "TICKETS_SOLD", 3),
    Expected("AVG_READINGS", "sensor-1", "AVG_READING", 45.0),
    Expected("AVG_READINGS", "sensor-2", "AVG_READING", 45.0),
    Expected("AVG_READINGS", "sensor-3", "AVG_READING", 59.5),
    Expected("PAYMENTS_PER_CUSTOMER", "alice", "TOTAL", 42.5),
    Expected("AVRO_PAYMENTS_PER_CUSTOMER", "bob", "TOTAL", 120.0),
)
# Valid if every flight of the year was produced.
FLIGHTS_EXPECTED = (
    Expected("FLIGHTS_PER_CARRIER", "UA", "FLIGHTS", 58_665),
    Expected("FLIGHTS_PER_CARRIER", "B6", "FLIGHTS", 54_635),
    Expected("FLIGHTS_PER_CARRIER", "EV", "FLIGHTS", 54_173),
    Expected("FLIGHTS_PER_CARRIER", "OO", "FLIGHTS", 32),
)


def compare(expected: Sequence[Expected], tables: Tables) -> list[tuple[Expected, Any, bool]]:
    """(expected, actual, whether they agree) for each value."""
    found = []
    for want in expected:
        actual = tables.get(want.table, {}).get((want.key,), {}).get(want.column)
        found.append((want, actual, same(want.value, actual)))
    return found


def results_table(compared: Sequence[tuple[Expected, Any, bool]]) -> Table:
    """The comparison for people."""
    table = Table(title="Values known beforehand", title_justify="left", box=SIMPLE_HEAD)
    for head in ("table", "key", "column"):
        table.add_column(head)
    for head in ("expected", "in the table"):
        table.add_column(head, justify="right")
    table.add_column("")
    for want, actual, agrees in compared:
        mark = "[green]✓[/green]" if agrees else "[red]✗[/red]"
        table.add_row(want.table, want.key, want.column, str(want.value), str(actual), mark)
    return table
