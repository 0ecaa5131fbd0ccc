"""Event time of records of sources and sinks, in ms since the epoch, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import InvalidStatement, UndecodableRecord
from holdfast.tasks.functions.java.parse import timestamp_parser
from holdfast.types.columns.schema import Base, Column
from holdfast.types.statements.topology import TimestampSpec

__all__ = ["EventTime", "Times"]

Times: TypeAlias = "npt.NDArray[np.int64]"

_NONE = -1  # no event time; times before the epoch are invalid, too


class EventTime:
    """Takes event time from the TIMESTAMP column of a stream or table, or from the record.

    A record without value has no columns: its record timestamp counts.
    """

    def __init__(self, name: str, columns: Sequence[Column], spec: TimestampSpec | None) -> None:
        """`name` is the stream's or table's, for messages.

        Raises:
            InvalidStatement: the column does not exist, or its type holds no time.
        """
        self.column: Column | None = None
        self._of = name
        self._required = spec is not None and spec.required
        self._read: Callable[[pa.Array], tuple[Times, dict[int, str]]] | None = None
        if spec is not None:
            self.column = _named(name, columns, spec.column)
            self._read = _reader(self.column, spec.format)

    def of(
        self, column: pa.Array | None, records: Sequence[int], tombstones: npt.NDArray[np.bool_]
    ) -> tuple[Times, dict[int, str]]:
        """Event times, and the reason for each record without one.

        Args:
            column: the decoded TIMESTAMP column, None when the source has none.
            records: timestamps of the Kafka records, ms; -1 for none.
            tombstones: which records have no value.

        Raises:
            UndecodableRecord: a record has no event time, and `throw.on.invalid` is set.
        """
        times = np.array(records, np.int64)
        bad: dict[int, str] = {}
        if self._read is not None and column is not None:
            found, bad = self._read(column)
            times = np.where(tombstones, times, found)
            bad = {i: why for i, why in bad.items() if not tombstones[i]}
        for i in np.flatnonzero(times < 0).tolist():
            bad.setdefault(i, f"event time {times[i]} ms lies before the epoch, or is missing")
        if bad and self._required:
            raise UndecodableRecord(
                "Fatal user code error in TimestampExtractor callback for record: of "
                f"{self._of}, {bad[min(bad)]}.",
                cause="ksql.timestamp.throw.on.invalid is true, and the record has no valid time",
                action="correct the records, or SET 'ksql.timestamp.throw.on.invalid'='false'",
            )
        return times, bad


def _named(of: str, columns: Sequence[Column], name: str) -> Column:
    found = next((c for c in columns if c.name == name), None)
    if found is None:
        raise InvalidStatement(
            f"{of} has no column {name} to take event time from.",
            action="name one of its columns in TIMESTAMP.",
        )
    return found


def _reader(
    column: Column, pattern: str | None
) -> Callable[[pa.Array], tuple[Times, dict[int, str]]]:
    base = column.type.base
    if base is Base.STRING:
        parse = timestamp_parser(pattern) if pattern is not None else _iso
        return lambda array: _texts(array, parse, column.name)
    if base is Base.BIGINT:
        return lambda array: _numbers(array, column.name)
    if base is Base.TIMESTAMP:
        return lambda array: _numbers(
            pc.floor_temporal(array, unit="millisecond").cast(pa.timestamp("ms", "UTC")),
            column.name,
        )
    raise InvalidStatement(
        f"Column {column.name} is a {column.type} and holds no event time.",
        action="use a BIGINT (ms since the epoch), TIMESTAMP or STRING column.",
    )


def _numbers(array: pa.Array, name: str) -> tuple[Times, dict[int, str]]:
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    values = array.cast(pa.int64()).fill_null(_NONE).to_numpy()
    bad = dict.fromkeys(np.flatnonzero(~valid).tolist(), f"event time {name} is null")
    return values, bad


def _texts(array: pa.Array, parse: Callable[[str], int], name: str) -> tuple[Times, dict[int, str]]:
    bad: dict[int, str] = {}
    times = np.full(len(array), _NONE, np.int64)
    for i, text in enumerate(array.to_pylist()):
        try:
            if text is None:
                bad[i] = f"event time {name} is null"
            else:
                times[i] = parse(text)
        except ValueError as error:
            bad[i] = f"event time {name}: {error}"
    return times, bad


_iso = timestamp_parser("yyyy-MM-dd['T'][' ']HH:mm[:ss[.SSSSSS][.SSS]][XXX]")
