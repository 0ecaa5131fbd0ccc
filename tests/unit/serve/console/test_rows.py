from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import Refused
from holdfast.serve.console.rows import RowsPage, page_of, typed
from holdfast.serve.contract import PRESENT
from holdfast.types.columns.schema import BIGINT, BOOLEAN, DOUBLE, STRING, Base, Column, SqlType
from tests.support.console.world import MemoryTable, World

NAMES = [f"{name}-{i}" for name in ("ann", "bob", "eve") for i in range(9)]


@pytest.fixture
def world() -> World:
    world = World()
    for number, name in enumerate(NAMES):
        world.put("PER_CUSTOMER", [name], [number, 2**60 + number])
    world.put("PER_PRODUCT_MINUTE", ["tea", 60_000, 120_000], [1, 10])
    world.put("PER_PRODUCT_MINUTE", ["tea", 120_000, 180_000], [2, 20])
    world.put("PER_PRODUCT_MINUTE", ["soap", 60_000, 120_000], [3, 30])
    return world


def page(world: World, table: str = "PER_CUSTOMER", **asked: Any) -> RowsPage:
    serving = world.serving(Path("unused"))
    return asyncio.run(page_of(serving.reader, world.served[table], **asked))


def names(found: RowsPage) -> list[Any]:
    return [row[0] for row in found.rows]


@pytest.mark.parametrize("limit", [1, 4, 26, 27, 200])
def test_pages_together_are_the_table_each_row_once(world: World, limit: int) -> None:
    seen, cursor = [], ""
    while True:
        part = page(world, cursor=cursor, limit=limit)
        assert len(part.rows) <= limit
        assert len(part.partitions) == len(part.rows)
        seen += names(part)
        cursor = part.next
        if not cursor:
            break
        assert len(part.rows) == limit, "only the last page is short"
    assert sorted(seen) == sorted(NAMES)


def test_a_key_is_found_with_all_of_its_columns(world: World) -> None:
    found = page(world, search=["bob-3"])
    assert [c.name for c in found.columns] == ["CUSTOMER", "ORDERS", "TOTAL", "ROWTIME"]
    ((name, orders, total, rowtime),) = found.rows
    assert (name, orders, total) == ("bob-3", 12, 2**60 + 12)
    assert rowtime > 0
    table = world.served["PER_CUSTOMER"]
    assert found.partitions == [table.partition_of(table.key_of(["bob-3"]))]
    assert found.next == ""


def test_a_key_that_is_not_there_is_no_row(world: World) -> None:
    assert page(world, search=["nobody"]).rows == []


def test_a_key_of_a_windowed_table_has_all_of_its_windows(world: World) -> None:
    found = page(world, "PER_PRODUCT_MINUTE", search=["tea"])
    assert [row[:3] for row in map(list, found.rows)] == [
        ["tea", 60_000, 120_000],
        ["tea", 120_000, 180_000],
    ]


@pytest.mark.parametrize("limit", [2, 50])
def test_keys_that_begin_alike_are_found_page_by_page(world: World, limit: int) -> None:
    seen, cursor = [], ""
    while True:
        part = page(world, search=["eve*"], cursor=cursor, limit=limit)
        seen += names(part)
        cursor = part.next
        if not cursor:
            break
    assert sorted(seen) == [n for n in NAMES if n.startswith("eve")]


class WideTable(MemoryTable):
    """Its stretches of keys hold more than they must."""

    def key_ranges(self, low: Any, high: Any) -> list[tuple[bytes, bytes | None]] | None:
        return [(b"", None)]


@pytest.mark.parametrize("limit", [1, 5, 50])
def test_stretches_that_hold_other_keys_give_none_of_them(world: World, limit: int) -> None:
    known = world.served["PER_CUSTOMER"]
    world.served["PER_CUSTOMER"] = WideTable(known.name, known.query, known.partitions)
    seen, cursor = [], ""
    while True:
        part = page(world, search=["bob*"], cursor=cursor, limit=limit)
        assert part.rows or not part.next, "no empty page before the last"
        assert len(part.partitions) == len(part.rows) <= limit
        seen += names(part)
        cursor = part.next
        if not cursor:
            break
    assert sorted(seen) == [n for n in NAMES if n.startswith("bob")]


class _Having(MemoryTable):
    """Hides bob's rows, as HAVING does; they are stored all the same."""

    def decode(self, keys: Sequence[bytes], rows: Sequence[bytes | None]) -> pa.Table:
        decoded = super().decode(keys, rows)
        hidden = [str(name).startswith("bob") for name in decoded.column("CUSTOMER").to_pylist()]
        at = decoded.schema.get_field_index(PRESENT)
        return decoded.set_column(at, decoded.field(at), pa.array([not each for each in hidden]))


@pytest.mark.parametrize("limit", [1, 4, 18, 200])
def test_rows_that_having_hides_are_on_no_page(world: World, limit: int) -> None:
    table = world.served["PER_CUSTOMER"]
    world.served["PER_CUSTOMER"] = _Having(table.name, table.query)
    seen, cursor = [], ""
    while True:
        part = page(world, cursor=cursor, limit=limit)
        assert len(part.partitions) == len(part.rows) <= limit
        seen += names(part)
        cursor = part.next
        if not cursor:
            break
        assert len(part.rows) == limit, "only the last page is short"
    assert sorted(seen) == sorted(name for name in NAMES if not name.startswith("bob"))
    assert page(world, search=["bob-3"]).rows == []
    assert names(page(world, search=["ann-3"])) == ["ann-3"]


def test_beginnings_cannot_be_found_where_keys_are_not_in_order(world: World) -> None:
    with pytest.raises(Refused, match="not stored in order"):
        page(world, "PER_PRODUCT_MINUTE", search=["te*"])


@pytest.mark.parametrize("search", [["a", "b"], ["a", "b", "c"]])
def test_a_search_has_a_value_for_each_column_of_the_key(
    world: World, search: Sequence[str]
) -> None:
    with pytest.raises(Refused, match=f"CUSTOMER; {len(search)} values"):
        page(world, search=search)


@pytest.mark.parametrize("cursor", ["x", "1.%%%", "-", "-3.", "🙂.a", "0.a", "9" * 5_000 + "."])
def test_a_cursor_that_no_page_gave_is_refused(world: World, cursor: str) -> None:
    with pytest.raises(Refused, match="no place in a table"):
        page(world, cursor=cursor)


def test_a_cursor_beyond_the_table_ends_it(world: World) -> None:
    assert page(world, cursor="99.YQ==").rows == []


def test_a_page_is_never_longer_than_the_most(world: World) -> None:
    for number in range(300):
        world.put("PER_CITY", [f"city {number}"], [number, number])
    found = page(world, "PER_CITY", limit=10_000)
    assert len(found.rows) == 200
    assert found.next


DECIMAL = SqlType(Base.DECIMAL, 4, 2)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", BIGINT, 7),
        ("x y", STRING, "x y"),
        (" TRUE ", BOOLEAN, True),
        ("1e3", DOUBLE, 1000.0),
        ("AP8=", SqlType(Base.BYTES), b"\x00\xff"),
        ("23:59:59.5", SqlType(Base.TIME), 86_399_500),
    ],
)
def test_what_is_typed_becomes_a_value(text: str, kind: SqlType, value: Any) -> None:
    assert typed(text, Column("K", kind)) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("seven", BIGINT),
        ("7.5", BIGINT),
        ("yes", BOOLEAN),
        ("12,5", DECIMAL),
        ("32.1.2020", SqlType(Base.DATE)),
        ("%", SqlType(Base.BYTES)),
    ],
)
def test_what_is_no_such_value_is_refused_by_name(text: str, kind: SqlType) -> None:
    with pytest.raises(Refused, match="of K"):
        typed(text, Column("K", kind))


def test_dates_and_decimals_and_moments_are_read() -> None:
    assert str(typed("2020-01-31", Column("K", SqlType(Base.DATE)))) == "2020-01-31"
    assert str(typed("12.30", Column("K", DECIMAL))) == "12.30"
    moment = typed("2020-01-31T10:00:00", Column("K", SqlType(Base.TIMESTAMP)))
    assert moment.isoformat() == "2020-01-31T10:00:00+00:00"


def test_a_key_that_is_no_plain_value_cannot_be_typed() -> None:
    nested = replace(SqlType(Base.ARRAY), element=BIGINT)
    with pytest.raises(Refused, match="cannot be typed"):
        typed("[1]", Column("K", nested))
