"""The demo's tables counted again from its example data in plain Python, and every row compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.cli.samples import SAMPLES, Sample
from holdfast.judge.values import same

__all__ = ["Key", "Rows", "Tables", "differences", "recounted"]

_HOUR_MS = 3_600_000
_SHOWN = 3

Key = tuple[Any, ...]
Rows = Mapping[Key, Mapping[str, Any]]
Tables = Mapping[str, Rows]
"""Value columns by key (a window's start is its last part), by table."""


@dataclass
class _Total:
    """Records and values of one key."""

    count: int = 0
    values: list[float] = field(default_factory=list)

    @property
    def total(self) -> float:
        return sum(self.values)

    def row(self, count: str = "", total: str = "", average: str = "") -> dict[str, Any]:
        """Value columns under these names; no average where there is no value."""
        columns: dict[str, Any] = {}
        if count:
            columns[count] = self.count
        if total:
            columns[total] = self.total
        if average and self.values:
            columns[average] = self.total / len(self.values)
        return columns


def recounted(flights: int) -> dict[str, dict[Key, dict[str, Any]]]:
    """Every row of the demo's tables after the first `flights` flights and all small examples."""
    payments = {
        key: found.row("PAYMENTS", "TOTAL")
        for key, found in _totals("payments", _first, "amount").items()
    }
    return {
        "FLIGHTS_PER_CARRIER": {
            key: found.row("FLIGHTS", "DEP_DELAY_TOTAL", "DEP_DELAY_AVG")
            for key, found in _totals("flights", _carrier, "dep_delay", flights).items()
        },
        "FLIGHTS_PER_ORIGIN_HOUR": {
            key: found.row("FLIGHTS", average="DEP_DELAY_AVG")
            for key, found in _totals("flights", _origin_hour, "dep_delay", flights).items()
        },
        "MOVIE_TICKETS_SOLD": {
            key: found.row("TICKETS_SOLD")
            for key, found in _totals("movies", _first, "ticket_total_value").items()
        },
        "AVG_READINGS": {
            key: found.row(average="AVG_READING")
            for key, found in _totals("sensors", _first, "reading").items()
        },
        "PAYMENTS_PER_CUSTOMER": payments,
        "AVRO_PAYMENTS_PER_CUSTOMER": payments,
    }


def differences(wanted: Tables, found: Tables) -> list[str]:
    """The differences, a line per table; empty if every row of every table is right."""
    lines = []
    for table, rows in wanted.items():
        wrong = _wrong_rows(rows, found.get(table, {}))
        if wrong:
            more = ", …" if len(wrong) > _SHOWN else ""
            lines.append(f"{table}: {len(wrong):,} rows differ: {', '.join(wrong[:_SHOWN])}{more}")
    return lines


def _wrong_rows(wanted: Rows, found: Rows) -> list[str]:
    wrong = []
    for key, row in wanted.items():
        there = found.get(key)
        if there is None:
            wrong.append(f"{_name(key)} is missing")
            continue
        wrong += [
            f"{_name(key)} has {column} {there.get(column)}, not {value}"
            for column, value in row.items()
            if not same(value, there.get(column))
        ]
    return wrong + [f"{_name(key)} is in no input" for key in found if key not in wanted]


def _name(key: Key) -> str:
    return " | ".join(map(str, key))


def _totals(
    sample: str, key_of: Callable[[dict[str, Any]], Key], value: str, limit: int | None = None
) -> dict[Key, _Total]:
    totals: dict[Key, _Total] = {}
    for record in _records(SAMPLES[sample], limit):
        total = totals.setdefault(key_of(record), _Total())
        total.count += 1
        if record[value] is not None:
            total.values.append(record[value])
    return totals


def _records(sample: Sample, limit: int | None) -> list[dict[str, Any]]:
    return [orjson.loads(event.value) for event in itertools.islice(sample.events(), limit)]


def _carrier(record: dict[str, Any]) -> Key:
    return (record["carrier"],)


def _origin_hour(record: dict[str, Any]) -> Key:
    return record["origin"], record["ts"] // _HOUR_MS * _HOUR_MS


def _first(record: dict[str, Any]) -> Key:
    """The first column is the key of every small example."""
    return (next(iter(record.values())),)
