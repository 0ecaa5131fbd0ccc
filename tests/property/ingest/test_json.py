"""The fast and the slow JSON decoder agree, and no record changes another one's columns."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from holdfast.ingest.formats.json.decoder import JsonDecoder
from holdfast.ingest.formats.json.fast import fast_json
from holdfast.ingest.formats.json.shaped import shaped_json
from holdfast.ingest.formats.json.slow import slow_json
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

_INNER = SqlType(Base.STRUCT, fields=(Column("A", BIGINT), Column("b", STRING)))
SCHEMAS: dict[str, list[Column]] = {
    "none": [],
    "plain": [Column("A", BIGINT), Column("B", STRING), Column("C", DOUBLE)],
    "more": [Column("A", INTEGER), Column("B", BOOLEAN), Column("C", SqlType(Base.DECIMAL, 6, 2))],
    "quoted": [Column("A", STRING), Column("a", STRING), Column("b", DOUBLE)],
    "times": [
        Column("A", SqlType(Base.TIMESTAMP)),
        Column("B", SqlType(Base.DATE)),
        Column("C", SqlType(Base.TIME)),
    ],
    "nested": [
        Column("A", SqlType(Base.ARRAY, element=DOUBLE)),
        Column("B", _INNER),
        Column("C", SqlType(Base.ARRAY, element=_INNER)),
    ],
    "decimals": [Column("A", SqlType(Base.ARRAY, element=SqlType(Base.DECIMAL, 4, 1)))],
}

_NUMBERS = [
    *("0", "-0", "-0.0", "1", "12", "-7", "1.5", "2.50", "1.005", "1e2", "1E+2", "1e400", "1e-400"),
    *("2147483648", "-2147483648", "9223372036854775807", "9223372036854775808", "86400000"),
    *("18446744073709551616", "123456789012345678901234567890", "9007199254740993.0", "01", "+1"),
    *("1700000000000", "9223372036854776", "0.1", "999.99", "99999.99", ".5", "1.", "-", "NaN"),
    *("100", "1234", "12345", "99999", "-99999", "123456", "9999.99", "9999.990", "999.9"),
    *("Infinity", "-Infinity", "0x10", "true", "false", "null", "1e99999999999999999999"),
]
_TEXTS = [
    *('""', '"x"', '"1"', '" 1.5 "', '"1e2"', '"NaN"', '"é"', '"\\u00e9"', '"\\u0061"'),
    *('"\\ud800"', '"\\udc00"', '"\\ud83d\\ude00"', '"😀"', '"a\tb"', '"a\\nb"', '"a"', '"A"'),
    *('"\x7f"', '"\\u0000"', '"}\\n{"', '"1_0"', '"+5"', '"\\""', '"\\x"', '"Inf"'),
    *('"1e999999999"', '"1e-999999999"', '"+1.5"', '"1."', '".5"', '"01"', '"-0"'),
]
_NAMES = ['"a"', '"A"', '"b"', '"B"', '"c"', '"C"', '"\\u0061"', '"é"', '"x"', '""', '"\\u0041"']
_TOKENS = [*"{}[]:,", '"', "\\", " ", "\n", "\r", "\t", "\x00", *_NUMBERS, *_TEXTS, *_NAMES]

_space = st.sampled_from(["", "", "", " ", "\n", "\t "])
_scalars = st.sampled_from(_NUMBERS + _TEXTS)


def _array(values: list[str]) -> str:
    return "[" + ",".join(values) + "]"


def _object(fields: list[tuple[str, str, str]]) -> str:
    return "{" + ",".join(f"{name}{space}:{value}" for name, space, value in fields) + "}"


def _fields(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(_NAMES)
    return st.lists(st.tuples(names, _space, values), max_size=4).map(_object)


_values = st.recursive(
    _scalars, lambda v: st.one_of(st.lists(v, max_size=3).map(_array), _fields(v)), max_leaves=6
)
_objects = _fields(_values).map(str.encode)


@st.composite
def _sound(draw: st.DrawFn) -> bytes:
    """JSON as real producers write it: valid, mostly the right types, one spelling."""
    fields = {
        "a": st.integers(-(2**40), 2**40),
        "b": st.text(st.sampled_from(string.ascii_letters + 'é\n"\\😀'), max_size=5),
        "c": st.floats(-1e6, 1e6),
        "x": st.none() | st.booleans(),
    }
    names = draw(st.lists(st.sampled_from(sorted(fields)), unique=True))
    document = {name: draw(st.none() | fields[name]) for name in names}
    return json.dumps(document, ensure_ascii=draw(st.booleans())).encode()


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    whole = draw(_objects | _sound())
    at = draw(st.integers(0, len(whole)))
    cut = draw(st.integers(0, 3))
    return whole[:at] + draw(st.binary(max_size=2)) + whole[at + cut :]


_some_numbers = st.sampled_from(_NUMBERS)
_number_or_array = _some_numbers | st.lists(_some_numbers, max_size=2).map(_array)
_one_number = st.tuples(st.sampled_from(["a", "b", "c"]), _number_or_array).map(
    lambda field: f'{{"{field[0]}":{field[1]}}}'.encode()
)
_garbage = st.one_of(
    st.binary(max_size=8),
    st.lists(st.sampled_from(_TOKENS), max_size=8).map("".join).map(str.encode),
    st.sampled_from(
        [b"", b"null", b" null ", b"{}", b"[]", b'{"a":1}{"a":2}', b"}", b"{", b'{"a":{}']
    ),
    st.tuples(_objects, _objects).map(b"".join),
)
_payloads = st.lists(st.one_of(_sound(), _sound(), _objects, _damaged(), _garbage), max_size=6)
_mostly_sound = st.one_of(
    st.lists(_sound(), min_size=1, max_size=6),
    st.lists(st.one_of(_sound(), _objects), min_size=1, max_size=4),
    st.lists(_one_number, min_size=1, max_size=2),
)


def rows(columns: Sequence[Any]) -> list[Any]:
    found = zip(*(_plain(c).to_pylist() for c in columns), strict=True)
    return [_equal_to_itself(list(row)) for row in found]


def _equal_to_itself(value: Any) -> Any:
    """With texts for NaNs, which JSON holds as texts, at any depth."""
    if isinstance(value, list | tuple):
        return [_equal_to_itself(each) for each in value]
    if isinstance(value, dict):
        return {name: _equal_to_itself(each) for name, each in value.items()}
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _plain(column: Any) -> Any:
    """Times as numbers: Arrow's reach further than Python's."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def held_to_the_slow_way(
    found: Sequence[Any] | None, columns: list[Column], payloads: list[bytes]
) -> None:
    event("accepted" if found is not None else "refused")
    if found is None:
        return
    exact = slow_json(columns, unwrapped=False).decode(payloads)
    assert not exact.bad
    assert not exact.nulls
    assert rows(found) == rows(exact.columns)
    assert [c.type for c in found] == [c.type.arrow() for c in columns]
    for column in found:
        column.validate(full=True)


@pytest.mark.parametrize("schema", SCHEMAS)
@given(payloads=_mostly_sound | _payloads)
@example(payloads=[b'{"a":1}{"a":2}', b'{"a":{}'])
@example(payloads=[b'{"a":1}{"a":2}', b'{"a":', b"3}"])
@example(payloads=[b'{"a":1}\n{"a":2}', b'{"a":', b"3}"])
@example(payloads=[b'{"a":1,"A":2}'])
@example(payloads=[b'{"A":1}', b'{"a":2}'])
@example(payloads=[b'{"a":{"A":1,"a":2}}'])
@example(payloads=[b'{"c":NaN}'])
@example(payloads=[b'{"c":12345}'])
@example(payloads=[b'{"a":[1234]}'])
@example(payloads=[b'{"c" : -Infinity }'])
@example(payloads=[b'{"a":[1,NaN]}'])
@example(payloads=[b'{"a":[Inf ]}'])
@example(payloads=[b'{"b":"\xff"}'])
@example(payloads=[b'{"x":"\xff"}'])
@example(payloads=[b'{"x":' + b"[" * 2_000 + b"]" * 2_000 + b"}"])
@example(payloads=[b'{"\\u0061":1}'])
def test_what_the_fast_way_accepts_the_slow_way_reads_alike(
    schema: str, payloads: list[bytes]
) -> None:
    columns = SCHEMAS[schema]
    fast = fast_json(columns)
    assert fast is not None
    found = fast.decode(payloads) if payloads else None
    held_to_the_slow_way(found, columns, payloads)


@pytest.mark.parametrize("schema", SCHEMAS)
@given(
    payloads=st.lists(st.one_of(st.none(), _sound(), _objects, _damaged(), _garbage), max_size=6)
)
def test_every_record_is_decoded_as_if_it_were_alone(
    schema: str, payloads: list[bytes | None]
) -> None:
    columns = SCHEMAS[schema]
    together = JsonDecoder(columns).decode(payloads)
    alone = [JsonDecoder(columns).decode([p]) for p in payloads]
    assert set(together.bad) == {i for i, d in enumerate(alone) if d.bad}
    assert together.nulls == {i for i, d in enumerate(alone) if d.nulls}
    assert rows(together.columns) == [row for d in alone for row in rows(d.columns)]


@given(payloads=st.lists(_sound(), min_size=1, max_size=5))
@example(payloads=[b'{"b":"NaN"}', b'{"b":"Information, Inf"}'])
def test_what_producers_write_goes_the_fast_way(payloads: list[bytes]) -> None:
    wanted = [Column("A", BIGINT), Column("B", STRING), Column("C", DOUBLE)]
    fast = fast_json(wanted)
    assert fast is not None
    # One exception: text that is itself the name of a column in another case.
    if not any(json.loads(p).get("b") in ("A", "B", "C") for p in payloads):
        assert fast.decode(payloads) is not None


_NUMBER_LIKE = ["0", "7", "-7", "12.5", "-0.25", "1700000000000"]
_TEXT_LIKE = ['"x"', '""', '"é😀"', '"{}[],:"', '"null"', '" 1 "']
_ANY = [*_NUMBER_LIKE, *_NUMBERS, *_TEXT_LIKE, *_TEXTS]
_FIXED = ["true", "null", "[]", '{"a":1}', '{"y":"a"}', "[true, null]", '["q", "r"]']


@st.composite
def _alike(draw: st.DrawFn) -> list[bytes]:
    """Records of one program, twenty of a few, and perhaps one that is otherwise."""
    names = draw(st.lists(st.sampled_from(['"a"', '"A"', '"b"', '"c"', '"é"', '""']), max_size=4))
    kinds = [draw(st.sampled_from([_NUMBER_LIKE, _TEXT_LIKE])) for _ in names]
    fixed = [draw(st.none() | st.sampled_from(_FIXED)) for _ in names]
    colon, comma = draw(st.sampled_from([":", ": ", " : "])), draw(st.sampled_from([",", ", "]))

    def record(kinds: list[list[str]]) -> bytes:
        values = [f or draw(st.sampled_from(k)) for k, f in zip(kinds, fixed, strict=True)]
        fields = [name + colon + value for name, value in zip(names, values, strict=True)]
        return ("{" + comma.join(fields) + "}").encode()

    rows = [record(kinds) for _ in range(4)] * 5
    if draw(st.booleans()):
        other = record([_ANY] * len(names)) if draw(st.booleans()) else None
        rows[draw(st.integers(0, 19))] = draw(_damaged()) if other is None else other
    return rows


@pytest.mark.parametrize("schema", ["none", "plain", "quoted", "times"])
@given(payloads=_alike())
def test_what_is_cut_out_of_records_alike_is_what_the_slow_way_reads(
    schema: str, payloads: list[bytes]
) -> None:
    columns = SCHEMAS[schema]
    shaped = shaped_json(columns)
    assert shaped is not None
    held_to_the_slow_way(shaped.decode(payloads), columns, payloads)
