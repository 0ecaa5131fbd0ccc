"""Small example data, made up, always the same: movie tickets, sensor readings, payments.

Their results can be checked by hand:

- tickets sold: Aliens 2, Die Hard 3, The Big Lebowski 1, The Godfather 3
- average reading: sensor-1 45; sensor-2 45 (41 and 49); sensor-3 first 67, in the end 59.5
- payments: alice 3 (42.5 in total), bob 2 (120.0), carol 1 (7.25)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson

from holdfast.cli.samples.event import Event, Sample

__all__ = ["MOVIES", "PAYMENTS", "SENSORS"]

_START_MS = 1_735_725_600_000  # 2025-01-01T10:00:00Z
_STEP_MS = 60_000  # a minute between events

_TICKETS = (
    ("Die Hard", 12),
    ("Aliens", 15),
    ("Die Hard", 24),
    ("The Godfather", 18),
    ("The Big Lebowski", 12),
    ("The Godfather", 36),
    ("Die Hard", 12),
    ("Aliens", 30),
    ("The Godfather", 18),
)
_READINGS = (
    ("sensor-1", "wheel", 45),
    ("sensor-2", "motor", 41),
    ("sensor-3", "engine", 67),
    ("sensor-2", "motor", 49),
    ("sensor-3", "engine", 52),
)
_PAYMENTS = (
    ("alice", 12.5),
    ("bob", 99.0),
    ("alice", 20.0),
    ("carol", 7.25),
    ("bob", 21.0),
    ("alice", 10.0),
)


def _sample(
    name: str, topic: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> Sample:
    """A set of small data; the first column is the record's key, and also in the value."""

    def events() -> Iterator[Event]:
        for n, row in enumerate(rows):
            value = dict(zip(columns, row, strict=True)) | {"ts": _START_MS + n * _STEP_MS}
            yield Event(str(row[0]).encode(), orjson.dumps(value))

    return Sample(name, topic, partitions=2, count=len(rows), events=events)


MOVIES = _sample("movies", "movie_ticket_sales", ("title", "ticket_total_value"), _TICKETS)
SENSORS = _sample("sensors", "readings", ("sensor", "area", "reading"), _READINGS)
PAYMENTS = _sample("payments", "payments", ("customer", "amount"), _PAYMENTS)
