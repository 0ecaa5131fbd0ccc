"""Headers and windows of records, and the columns made of them."""

from __future__ import annotations

import struct

import pytest

from holdfast.ingest.formats import value_decoder
from holdfast.ingest.record_metadata import header_columns
from holdfast.ingest.records import RecordDecoder, wants_headers
from holdfast.transport.reader import Chunk
from holdfast.types.columns.schema import BIGINT, STRING, Base, Column, SqlType
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import (
    HEADERS,
    HEADERS_TYPE,
    WINDOW_END,
    WINDOW_START,
    Format,
    HeaderColumn,
    Source,
    WindowKind,
)


def _source(window: WindowKind | None = None, size: int = 0) -> Source:
    headers = (
        HeaderColumn(Column("H", HEADERS_TYPE), None),
        HeaderColumn(Column("TRACE", SqlType(Base.BYTES)), "trace"),
    )
    return Source(
        "S", "STREAM", "s", (Column("K", STRING),), (Column("V", BIGINT),),
        headers=headers, window=window, window_size_ms=size,
    )  # fmt: skip


def _chunk(keys: list[bytes | None]) -> Chunk:
    count = len(keys)
    values: list[bytes | None] = [b'{"V":1}'] * count
    return Chunk(keys, values, list(range(count)), [7] * count, count)


def test_header_columns_are_all_headers_or_the_last_of_a_name() -> None:
    options = IngestOptions(_source(), {}, ("TRACE", "V", "H", HEADERS))
    assert wants_headers(options)
    chunk = _chunk([b"a", b"b"])
    chunk.headers = [[("trace", b"1"), ("x", None), ("trace", b"2")], []]
    batch, bad = RecordDecoder(options).decode(chunk, 0)
    assert not bad
    everything = [
        {"KEY": "trace", "VALUE": b"1"}, {"KEY": "x", "VALUE": None},
        {"KEY": "trace", "VALUE": b"2"},
    ]  # fmt: skip
    assert batch["TRACE"].to_pylist() == [b"2", None]
    assert batch["H"].to_pylist() == batch[HEADERS].to_pylist() == [everything, []]
    assert batch["V"].to_pylist() == [1, 1]


def test_records_without_headers_have_the_same_columns() -> None:
    source = _source()
    with_some = header_columns(source, [[("trace", b"1")], [], []])
    without = header_columns(source, [[], [], []])
    assert {n: c.type for n, c in without.items()} == {n: c.type for n, c in with_some.items()}
    assert {n: c.to_pylist() for n, c in without.items()} == {
        n: c.slice(1).to_pylist() + c.slice(2).to_pylist() for n, c in with_some.items()
    }


def test_headers_are_not_read_for_other_columns() -> None:
    assert not wants_headers(IngestOptions(_source(), {}, ("V", "K")))


@pytest.mark.parametrize(
    ("kind", "tail"),
    [
        (WindowKind.TUMBLING, struct.pack(">q", 40)),
        (WindowKind.SESSION, struct.pack(">qq", 50, 40)),
    ],
)
def test_windows_are_taken_off_the_keys(kind: WindowKind, tail: bytes) -> None:
    options = IngestOptions(_source(kind, 10), {}, ("K", WINDOW_START, WINDOW_END))
    batch, bad = RecordDecoder(options).decode(_chunk([b"a" + tail, b"short", None]), 0)
    assert [(b.offset, b.reason.split(",")[0]) for b in bad] == [(1, "key: 5 bytes")]
    assert batch["K"].to_pylist() == ["a", None]
    assert batch[WINDOW_START].to_pylist() == [40, None]
    assert batch[WINDOW_END].to_pylist() == [50, None]


def test_single_values_and_other_delimiters_are_read() -> None:
    alone = value_decoder(Format.JSON, [Column("V", BIGINT)], [Column("V", BIGINT)], wrap=False)
    found = alone.decode([b"3", b'"4"', b"null", None, b"{}"])
    assert found.columns[0].to_pylist() == [3, 4, None, None, None]
    assert list(found.bad) == [4]
    assert found.nulls == {2}
    columns = [Column("A", STRING), Column("V", BIGINT)]
    tabbed = value_decoder(Format.DELIMITED, columns, columns, delimiter="\t")
    assert [c.to_pylist() for c in tabbed.decode([b"a,b\t2"]).columns] == [["a,b"], [2]]
