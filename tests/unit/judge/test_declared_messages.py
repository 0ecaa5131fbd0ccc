"""The judge's reading of PROTOBUF_NOSR beside the engine's: each lays the columns out by itself."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.ingest.formats import value_decoder
from holdfast.ingest.formats.as_json import AsJson
from holdfast.judge.read.decode import InputDecoder, SinkDecoder
from holdfast.judge.read.registered import Translation, translations
from holdfast.judge.values import Untranslatable
from holdfast.tasks.registered.messages import written_messages
from holdfast.types.columns.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Base,
    Column,
    SqlType,
)
from holdfast.types.statements.sources import Format, Nullable, Sink, Source, WindowKind

_PRICE = SqlType(Base.DECIMAL, 9, 2)
_DATE, _TIME, _AT = (SqlType(base) for base in (Base.DATE, Base.TIME, Base.TIMESTAMP))
_BYTES = SqlType(Base.BYTES)
_PAIR = SqlType(Base.STRUCT, fields=(Column("X", BIGINT), Column("P", _PRICE)))
_DEEP = SqlType(
    Base.STRUCT,
    fields=(Column("IN", _PAIR), Column("NAMES", SqlType(Base.ARRAY, element=STRING))),
)
_SINGLE = (BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, _BYTES, _PRICE, _DATE, _TIME, _AT, _PAIR)
_COLUMNS = tuple(
    Column(f"{letter}{place}", kind)
    for place, single in enumerate((*_SINGLE, _DEEP))
    for letter, kind in {
        "ONE": single,
        "LIST": SqlType(Base.ARRAY, element=single),
        "MAP": SqlType(Base.MAP, element=single),
    }.items()
)
_SMALL = st.integers(-2, 2)
_VALUES = {
    Base.BOOLEAN: st.booleans(),
    Base.INTEGER: _SMALL | st.sampled_from([-(2**31), 2**31 - 1]),
    Base.BIGINT: _SMALL | st.sampled_from([-(2**63), 2**63 - 1]),
    Base.DOUBLE: st.floats(width=64),
    Base.STRING: st.text(max_size=3),
    Base.BYTES: st.binary(max_size=3),
    Base.DECIMAL: st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    Base.DATE: st.dates(),
    Base.TIME: st.integers(0, 86_399_999),
    Base.TIMESTAMP: st.integers(-(10**12), 10**13).map(
        lambda ms: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)
    ),
}


def _values(kind: SqlType, *, element: bool = False) -> st.SearchStrategy[Any]:
    """Values of a type, and NULL; not as a date in a list, for none of all dates is empty."""
    made: st.SearchStrategy[Any]
    if kind.base is Base.STRUCT:
        made = st.fixed_dictionaries({f.name: _values(f.type) for f in kind.fields})
    elif kind.element is not None:
        made = st.lists(_values(kind.element, element=True), max_size=2)
        if kind.base is Base.MAP:
            made = st.lists(
                st.tuples(st.sampled_from("ab"), _values(kind.element, element=True)), max_size=2
            )
            made = made.map(lambda entries: list(dict(entries).items()))
    else:
        made = _VALUES[kind.base]
    return made if element and kind.base is Base.DATE else st.none() | made


@cache
def _sink(nullable: Nullable) -> tuple[Sink, Translation, AsJson]:
    sink = Sink(
        "T", "TABLE", "t", (), _COLUMNS, Format.NONE, Format.PROTOBUF_NOSR, nullable=nullable
    )
    return sink, Translation(sink, None), AsJson(sink)


def _written(row: dict[str, Any], nullable: Nullable) -> bytes:
    arrays = [pa.array([row.get(c.name)], c.type.arrow()) for c in _COLUMNS]
    found: bytes = written_messages(_COLUMNS, arrays, nullable)[0].as_py()
    return found


def _loaded(data: bytes) -> Any:
    return json.loads(data, parse_float=Decimal)


def _read_alike(data: bytes, nullable: Nullable) -> bool:
    """Whether both read it, and the same; or neither does."""
    _, judge, engine = _sink(nullable)
    mine = judge.value(data) or b""
    try:
        theirs = engine.value(data) or b""
    except ValueError as error:
        assert mine == b"\xff" + data, error  # noqa: PT017 - the judge's part, not the error's
        return False
    assert mine[:1] != b"\xff", theirs
    for column in _COLUMNS:
        assert _loaded(mine)[column.name] == _loaded(theirs)[column.name], column
    return True


_ROWS = st.sampled_from(_COLUMNS).flatmap(
    lambda c: st.fixed_dictionaries({c.name: _values(c.type), "ONE3": _values(DOUBLE)})
)


@settings(max_examples=30)
@given(_ROWS, st.sampled_from(Nullable))
def test_each_type_is_read_alike(row: dict[str, Any], nullable: Nullable) -> None:
    assert _read_alike(_written(row, nullable), nullable)


@settings(max_examples=30)
@given(_ROWS, st.sampled_from(Nullable), st.data())
def test_garbage_is_read_alike(
    row: dict[str, Any], nullable: Nullable, data: st.DataObject
) -> None:
    """Messages that are cut, or have other bytes somewhere, or are those of another program."""
    good = _written(row, nullable)
    at = data.draw(st.integers(0, len(good)))
    hurt = good[:at] + data.draw(st.binary(max_size=6)) + good[at + data.draw(_SHORT) :]
    _read_alike(hurt, nullable)


_SHORT = st.integers(0, 6)


@pytest.mark.parametrize("nullable", Nullable)
@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b'{"ONE1": 5}', b"\0\0\0\0\x01\0", b"null", b"\x0a", b"\x08\x01\x08\0",
        b"\x52\x01\xff", b"\x0b" * 101, b"\xff" * 12, b"\xa2\x1f\x00", b"\x92\x01\x01\x08",
        b"\0\x01", b"\x01" + b"x" * 8, b"\x1a\0", b"\xc2\x01\0", b"\xa2\x02\0",
    ],
)  # fmt: skip
def test_what_other_programs_write_is_read_alike(data: bytes, nullable: Nullable) -> None:
    _read_alike(data, nullable)


def test_an_absent_field_is_null_only_where_its_type_can_tell() -> None:
    for nullable in Nullable:
        found = _loaded(_sink(nullable)[1].value(b"") or b"")
        of_type = {str(c.type): found[c.name] for c in _COLUMNS}
        plain = nullable in (Nullable.NONE, Nullable.BYTES)
        assert of_type["INTEGER"] == (0 if plain else None)
        assert of_type["STRING"] == ("" if plain else None)
        assert of_type["BOOLEAN"] == (False if plain else None)
        assert of_type["BYTES"] == ("" if nullable is Nullable.NONE else None)
        assert of_type["DATE"] is None
        assert of_type["ARRAY<INTEGER>"] == []
        assert of_type["MAP<STRING, INTEGER>"] == {}


def test_a_column_that_cannot_be_read_matters_where_it_is_needed() -> None:
    columns = (Column("A", STRING), Column("B", BIGINT))
    source = Source("S", "STREAM", "t", (), columns, Format.NONE, Format.PROTOBUF_NOSR)
    data = b"\x0a\x01\xff\x10\x07"
    for needed in columns:
        decoder = value_decoder(Format.PROTOBUF_NOSR, columns, [needed])
        assert bool(decoder.decode([data]).bad) == (needed.name == "A")
        mine = InputDecoder(source, [needed.name])
        expected = None if needed.name == "A" else (1, 7)
        assert mine.row(None, Translation(source, None).value(data) or b"", 1) == expected


def test_names_that_are_alike_or_words_of_protobuf() -> None:
    names = ("A_B", "AB", "a_b", "message", "M0", "M1", "holdfast_judge", "optional")
    columns = (*(Column(n, BIGINT) for n in names), Column("google", _PAIR))
    sink = Sink("T", "TABLE", "t", (), columns, Format.NONE, Format.PROTOBUF_NOSR)
    arrays = [pa.array([n], pa.int64()) for n in range(len(names))]
    data = written_messages(columns, [*arrays, pa.array([{"X": 1}], _PAIR.arrow())], sink.nullable)
    found = _loaded(Translation(sink, None).value(data[0].as_py()) or b"")
    assert found == {**{n: i for i, n in enumerate(names)}, "google": {"X": 1, "P": None}}


def test_keys_are_messages_and_keep_their_windows() -> None:
    columns, form = (Column("K", STRING), Column("N", INTEGER)), Format.PROTOBUF_NOSR
    data = written_messages(columns, [pa.array(["a"]), pa.array([7], pa.int32())], Nullable.NONE)[
        0
    ].as_py()
    sink = Sink("T", "TABLE", "t", columns, (), form, form, window=WindowKind.TUMBLING)
    key = Translation(sink, None).key(data + (5).to_bytes(8, "big"))
    assert SinkDecoder(columns, (), (form, form), windowed=True).key(key) == ("a", 7, 5)


def test_a_topic_that_is_declared_in_two_ways_is_not_judged() -> None:
    form = Format.PROTOBUF_NOSR
    one = Source("A", "STREAM", "t", (), (Column("A", BIGINT),), Format.NONE, form)
    other = Source("B", "STREAM", "t", (), (Column("B", BIGINT),), Format.NONE, form)
    keyed = Source("C", "STREAM", "t", (Column("K", STRING),), (Column("A", BIGINT),), form, form)
    found = translations([one, other], None)["t"]
    with pytest.raises(Untranslatable, match="declared in several ways"):
        found.value(b"\x08\x01")
    both = translations([one, keyed], None)["t"]
    assert both.key(b"\x0a\x01k") == b'{"K":"k"}'
    assert both.value(b"\x08\x01") == b'{"A":1}'
