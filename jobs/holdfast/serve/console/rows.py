"""Rows of a table for the page: one key, keys with a prefix, or all rows page by page."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa

from holdfast.errors import Refused
from holdfast.serve.contract import PRESENT, ROWTIME, Reader, Rows, ServedTable
from holdfast.serve.http.values import rows_of
from holdfast.types.columns.schema import BIGINT, Base, Column

__all__ = ["PAGE_MAX", "RowsPage", "columns_json", "json_rows", "page_of", "shown_columns", "typed"]

PAGE_MAX = 200
_SCANS_MAX = 20  # of stored rows that HAVING hides, or that begin otherwise, once there is a row
_ANY_LAG = 2**62  # rows may be stale here: the page shows the lag
_CURSOR = re.compile(r"([0-9]{1,9})\.((?:[\w-]{4})*(?:[\w-]{2}==|[\w-]{3}=)?)", re.ASCII)
_LAST_LETTER = "\U0010ffff"


@dataclass(frozen=True)
class _Place:
    """A range of one partition's keys; `end` is exclusive, None: open."""

    partition: int
    start: bytes
    end: bytes | None


@dataclass
class RowsPage:
    """A page of a table, its rows ready for JSON; `next`: the cursor of the next page, or ""."""

    columns: tuple[Column, ...]
    rows: list[Sequence[Any]]
    partitions: list[int | None]
    next: str = ""

    def followed_by(self, more: RowsPage) -> RowsPage:
        """This page, and the rows of another after its own."""
        rows, partitions = [*self.rows, *more.rows], [*self.partitions, *more.partitions]
        return RowsPage(self.columns, rows, partitions, more.next)

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "columns": columns_json(self.columns),
            "rows": self.rows,
            "partitions": self.partitions,
            "next": self.next,
        }


def shown_columns(table: ServedTable) -> tuple[Column, ...]:
    """The columns of SELECT *, and ROWTIME."""
    return (*table.columns, Column(ROWTIME, BIGINT))


def columns_json(columns: Iterable[Column]) -> list[dict[str, str]]:
    """Names and types."""
    return [{"name": c.name, "type": str(c.type)} for c in columns]


def json_rows(data: pa.Table, columns: Sequence[Column]) -> list[Sequence[Any]]:
    """The given columns of decoded rows, ready for JSON."""
    chosen = data.select([c.name for c in columns]).combine_chunks()
    return [row for batch in chosen.to_batches() for row in rows_of(batch, columns)]


async def page_of(
    reader: Reader,
    table: ServedTable,
    *,
    search: Sequence[str] = (),
    cursor: str = "",
    limit: int = 50,
) -> RowsPage:
    """A page of rows, ordered by partition and key.

    Args:
        search: a text per key column; empty: every row.  A single text that ends in `*` finds the
            keys with that prefix.
        cursor: `next` of the previous page.

    Raises:
        Refused: the search does not fit the key, or no server holds the rows.
        Retriable: a retry may succeed.
    """
    limit = max(1, min(limit, PAGE_MAX))
    if search and not _is_prefix(search, table):
        return await _one_key(reader, table, search)
    prefix = search[0][:-1] if search else None
    places = _places(table, prefix)
    page = RowsPage(shown_columns(table), [], [])
    for scans in count(1):
        wanted = limit - len(page.rows)
        found, partitions, cursor = await _scan(reader, table, places, cursor, wanted)
        page = page.followed_by(_beginning(_page(table, found, partitions, cursor), prefix or ""))
        full = len(page.rows) == limit or (page.rows and scans >= _SCANS_MAX)
        if full or not cursor:
            break
    return page


def _beginning(page: RowsPage, prefix: str) -> RowsPage:
    """The rows whose key has the prefix: the scanned range may hold others."""
    if not prefix:
        return page
    pairs = zip(page.rows, page.partitions, strict=True)
    kept = [(row, partition) for row, partition in pairs if row[0].startswith(prefix)]
    return RowsPage(page.columns, [r for r, _ in kept], [p for _, p in kept], page.next)


def _is_prefix(search: Sequence[str], table: ServedTable) -> bool:
    return (
        len(search) == 1
        and search[0].endswith("*")
        and [c.type.base for c in table.key_columns] == [Base.STRING]
    )


async def _one_key(reader: Reader, table: ServedTable, search: Sequence[str]) -> RowsPage:
    if len(search) != len(table.key_columns):
        names = ", ".join(c.name for c in table.key_columns)
        raise Refused(f"The key of {table.name} is {names}; {len(search)} values were given.")
    pairs = zip(search, table.key_columns, strict=True)
    key = table.key_of([typed(text, column) for text, column in pairs])
    found = await reader.get(table, [key], max_lag=_ANY_LAG)
    return _page(table, found, [table.partition_of(key)] * len(found.keys), "")


def _page(table: ServedTable, found: Rows, partitions: Sequence[int | None], rest: str) -> RowsPage:
    columns = shown_columns(table)
    decoded = table.decode(found.keys, found.rows)
    there = decoded.column(PRESENT)
    kept = zip(partitions, there.to_pylist(), strict=True)
    rows = json_rows(decoded.filter(there), columns)
    return RowsPage(columns, rows, [partition for partition, is_there in kept if is_there], rest)


def _places(table: ServedTable, prefix: str | None) -> list[_Place]:
    ranges: list[tuple[bytes, bytes | None]] | None = [(b"", None)]
    if prefix:
        ranges = table.key_ranges(prefix, prefix + _LAST_LETTER)
    if ranges is None:
        raise Refused(
            f"Keys of {table.name} are not stored in order, so their beginnings cannot be found.",
            action="search for a whole key",
        )
    return [_Place(p, start, end) for p in range(table.partitions) for start, end in ranges]


async def _scan(
    reader: Reader, table: ServedTable, places: Sequence[_Place], cursor: str, limit: int
) -> tuple[Rows, list[int], str]:
    first, start = _place_of(cursor)
    found, partitions = Rows([], []), list[int]()
    for index in range(first, len(places)):
        place = places[index]
        begin = start if index == first and start else place.start
        wanted = limit + 1 - len(found.keys)  # one more row shows whether there is another page
        parts = reader.scan(
            table, place.partition, begin, place.end, limit=wanted, max_lag=_ANY_LAG
        )
        async for part in parts:
            found.keys.extend(part.keys)
            found.rows.extend(part.rows)
            partitions.extend([place.partition] * len(part.keys))
        if len(found.keys) > limit:
            rest = _cursor(index, found.keys[limit])
            return Rows(found.keys[:limit], found.rows[:limit]), partitions[:limit], rest
    return found, partitions, ""


def _cursor(index: int, key: bytes) -> str:
    return f"{index}.{base64.urlsafe_b64encode(key).decode()}"


def _place_of(cursor: str) -> tuple[int, bytes]:
    if not cursor:
        return 0, b""
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise Refused(f"{cursor[:100]!r} is no place in a table.", action="begin again")
    return int(match[1]), base64.urlsafe_b64decode(match[2])


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _millis(text: str) -> int:
    of_day = time.fromisoformat(text)
    minutes = of_day.hour * 60 + of_day.minute
    return (minutes * 60 + of_day.second) * 1000 + of_day.microsecond // 1000


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_TYPED: dict[Base, Callable[[str], Any]] = {
    Base.STRING: str,
    Base.BOOLEAN: _boolean,
    Base.INTEGER: int,
    Base.BIGINT: int,
    Base.DOUBLE: float,
    Base.DECIMAL: Decimal,
    Base.BYTES: _bytes,
    Base.DATE: date.fromisoformat,
    Base.TIME: _millis,
    Base.TIMESTAMP: _moment,
}


def typed(text: str, column: Column) -> Any:
    """The value of `text` in `column`, as `ServedTable.key_of` takes it.

    Raises:
        Refused: the text is not of the column's type.
    """
    reader = _TYPED.get(column.type.base)
    if reader is None:
        raise Refused(
            f"{column.name} is {column.type}: such a key cannot be typed here.",
            action="use the SQL page",
        )
    try:
        return reader(text)
    except (ValueError, KeyError, ArithmeticError) as error:
        raise Refused(
            f"{text[:100]!r} is not of the type {column.type} of {column.name}."
        ) from error
