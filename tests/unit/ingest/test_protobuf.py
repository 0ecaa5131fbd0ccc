"""PROTOBUF_NOSR: good and bad messages of a chunk."""

from __future__ import annotations

import pyarrow as pa

from holdfast.ingest.formats import key_decoder, value_decoder
from holdfast.tasks.registered.messages import written_messages
from holdfast.types.columns.schema import INTEGER, STRING, Column
from holdfast.types.statements.sources import Format, Nullable

_COLUMNS = (Column("I", INTEGER), Column("S", STRING))
_GARBAGE = (b"\xff\xff\xff", b"\x12\x05ab", b"\x12\x02\xff\xfe", b"\x1b" * 5_000_000)


def _messages(rows: int, nullable: Nullable = Nullable.NONE) -> list[bytes]:
    arrays = [pa.array(range(rows), pa.int32()), pa.array([f"s{n}" for n in range(rows)])]
    messages: list[bytes] = written_messages(_COLUMNS, arrays, nullable).to_pylist()
    return messages


def test_each_bad_message_is_found_and_changes_no_other() -> None:
    payloads: list[bytes | None] = [*_messages(1_000)]
    places = {3: _GARBAGE[0], 4: _GARBAGE[1], 500: _GARBAGE[2], 999: _GARBAGE[3]}
    for place, garbage in places.items():
        payloads[place] = garbage
    payloads[700] = None
    found = value_decoder(Format.PROTOBUF_NOSR, _COLUMNS, _COLUMNS).decode(payloads)
    assert set(found.bad) == set(places)
    gone = {*places, 700}
    assert found.columns[0].to_pylist() == [None if n in gone else n for n in range(1_000)]
    assert found.columns[1].to_pylist() == [None if n in gone else f"s{n}" for n in range(1_000)]
    assert [c.type for c in found.columns] == [pa.int32(), pa.string()]


def test_nothing_but_garbage_is_all_bad() -> None:
    found = value_decoder(Format.PROTOBUF_NOSR, _COLUMNS, _COLUMNS[1:]).decode([_GARBAGE[0]] * 99)
    assert len(found.bad) == 99
    assert found.columns[0].null_count == 99


def test_an_empty_message_and_none_differ() -> None:
    decoder = value_decoder(Format.PROTOBUF_NOSR, _COLUMNS, _COLUMNS)
    found = decoder.decode([b"", None])
    assert [c.to_pylist() for c in found.columns] == [[0, None], ["", None]]
    assert decoder.decode([]).columns[0].to_pylist() == []
    told = value_decoder(
        Format.PROTOBUF_NOSR, _COLUMNS, _COLUMNS, nullable=Nullable.OPTIONAL
    ).decode([b"", None])
    assert [c.to_pylist() for c in told.columns] == [[None, None], [None, None]]


def test_a_key_of_one_column_is_a_message_too() -> None:
    decoder = key_decoder(Format.PROTOBUF_NOSR, _COLUMNS[:1], _COLUMNS[:1])
    assert decoder.decode([b"\x08\x07", b"\x07"]).columns[0].to_pylist() == [7, None]
    assert set(decoder.decode([b"\x08\x07", b"\x07"]).bad) == {1}


def test_columns_that_nobody_wants_are_not_decoded() -> None:
    """Bytes that are no text are bad only where the text is read."""
    message = b"\x08\x01\x12\x02\xff\xfe"
    found = value_decoder(Format.PROTOBUF_NOSR, _COLUMNS, _COLUMNS[:1]).decode([message])
    assert (found.columns[0].to_pylist(), found.bad) == ([1], {})
