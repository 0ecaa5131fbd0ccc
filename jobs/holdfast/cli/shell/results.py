"""Answers of query servers for people: numbers as they are, times in ISO 8601 with their zone."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.measure import Measurement

from holdfast.cli.json_values import json_of
from holdfast.cli.shell.show import grid
from holdfast.types.freshness import age_s, heard_ms, silent_s
from holdfast.types.words import counted, iso_time

if TYPE_CHECKING:
    from holdfast.client import Client, Partition, Row

__all__ = ["bounded", "show_lines", "show_table", "told_lag", "told_waiting"]

ROWS_SHOWN = 1_000
_RECENT_S = 6.0  # servers hear from Kafka more often than that
_RESET = "auto.offset.reset"
_TIMES = ("WINDOWSTART", "WINDOWEND", "ROWTIME")  # milliseconds since the epoch
_NUMBERS = ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL")
_TEXT_MAX = 60  # columns of the terminal for one text


def bounded(sql: str) -> tuple[str, bool]:
    """The query with a LIMIT, and whether it got one here; a push query stays as it is."""
    from holdfast.errors import InvalidStatement
    from holdfast.sql.read.plan import parse_read

    try:
        _, query = parse_read(sql)
    except InvalidStatement:
        return sql, False  # the server says what is wrong
    if query.select.changes or query.limit is not None:
        return sql, False
    return f"{query.text}\nLIMIT {ROWS_SHOWN};", True


def show_table(client: Client, sql: str, properties: Mapping[str, str]) -> None:
    """Show a pull query's rows as a table, at most `ROWS_SHOWN` if the query says nothing."""
    text, limited = bounded(sql)
    result = client.query(text, properties=properties)
    console = Console(markup=False, highlight=False, soft_wrap=True)
    table = grid()
    for name, kind in zip(result.columns, result.types, strict=True):
        number = kind.startswith(_NUMBERS) and name not in _TIMES
        table.add_column(
            name, overflow="fold", max_width=None if number else _TEXT_MAX,
            justify="right" if number else "left",
        )  # fmt: skip
    for row in result:
        table.add_row(*map(_cell, result.columns, result.types, row.in_order))
    # Wider than the terminal rather than with numbers that are cut in two.
    widest = console.options.update(max_width=10_000)
    table.width = Measurement.get(console, widest, table).maximum
    console.print(table, crop=False)
    cut = limited and len(result) == ROWS_SHOWN
    more = ": the first ones; a LIMIT of your own shows more" if cut else ""
    rows = counted(len(result), "row")
    click.echo(f"{rows}{more}, {told_lag(result.partitions.values())}", err=True)


def _cell(name: str, kind: str, value: Any) -> str:
    if value is None:
        return "NULL"
    if name in _TIMES and isinstance(value, int):
        return iso_time(value)
    if kind == "TIMESTAMP" and isinstance(value, str):
        return f"{value}Z"
    return value if isinstance(value, str) else json_of(value)


def show_lines(rows: Iterable[Row]) -> None:
    """Show each row as a JSON object."""
    for row in rows:
        told = dict(row) | ({"gone": True} if row.gone else {})
        click.echo(json_of(told))
        sys.stdout.flush()


def told_waiting(properties: Mapping[str, str]) -> str:
    """Why a push query may show nothing for a while."""
    told = "Waiting for changes; Ctrl-C ends it."
    if properties.get(_RESET) != "earliest":
        told += f" Rows that are there already are left out: --set {_RESET}=earliest shows them."
    return told


def told_lag(partitions: Collection[Partition]) -> str:
    """How far the answer lags behind the table, as far as the servers know."""
    behind = f"{sum(p.lag for p in partitions):,} changes behind"
    heard = heard_ms(p.checked_ms for p in partitions)
    silent, age = silent_s(heard), age_s(heard)
    if not silent:
        return behind if age < _RECENT_S else f"{behind} {age:.0f} s ago"
    return (
        f"how far behind is unknown: the servers have heard nothing from Kafka for {silent:,.0f} s "
        f"({behind} then)"
    )
