"""State keys, byte by byte as Spark 4.3 on Java 17 wrote them: `to_json` and `CAST AS BINARY`."""

from __future__ import annotations

import base64
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.tasks.evaluate.as_numbers import as_numbers, from_numbers
from holdfast.tasks.evaluate.keys import decode_keys
from holdfast.tasks.pack.key_columns import state_keys
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

BYTES, DATE, TIME, TIMESTAMP = map(SqlType, (Base.BYTES, Base.DATE, Base.TIME, Base.TIMESTAMP))
SMALL, WIDE, TINY = (SqlType(Base.DECIMAL, p, s) for p, s in ((9, 2), (38, 0), (20, 10)))
POINT = SqlType(Base.STRUCT, fields=(Column("X", DOUBLE), Column('a"b\\é', STRING)))
MOMENT = SqlType(Base.STRUCT, fields=(Column("C", SMALL), Column("T", TIMESTAMP)))
OUTER = SqlType(
    Base.STRUCT,
    fields=(
        Column("D", DATE), Column("M", SqlType(Base.ARRAY, element=MOMENT)), Column("B", BYTES),
    ),
)  # fmt: skip
ROWS = SqlType(Base.ARRAY, element=SqlType(Base.ARRAY, element=POINT))

# A single key column, and what is in each row's key.
ALONE: list[tuple[SqlType, list[tuple[Any, bytes | None]]]] = [
    (STRING, [("", b""), ('a"\n\0', b'a"\n\0'), ("ä€😀", "ä€😀".encode()), (None, None)]),
    (INTEGER, [(-7, b"\xff\xff\xff\xf9"), (2**31 - 1, b"\x7f\xff\xff\xff"), (None, None)]),
    (BIGINT, [(0, b"\0" * 8), (-(2**63), b"\x80" + b"\0" * 7), (None, None)]),
    (BOOLEAN, [(True, b'{"k0":true}'), (False, b'{"k0":false}'), (None, None)]),
    (DOUBLE, [
        (0.0, b'{"k0":0.0}'), (-0.0, b'{"k0":-0.0}'), (None, None), (3.0, b'{"k0":3.0}'),
        (0.001, b'{"k0":0.001}'), (1e-4, b'{"k0":1.0E-4}'), (9999999.5, b'{"k0":9999999.5}'),
        (1e7, b'{"k0":1.0E7}'), (12345678.9, b'{"k0":1.23456789E7}'),
        (2e23, b'{"k0":1.9999999999999998E23}'), (5e-324, b'{"k0":4.9E-324}'),
        (1e-323, b'{"k0":1.0E-323}'), (2.8000000000000006e25, b'{"k0":2.8000000000000005E25}'),
        (math.nan, b'{"k0":"NaN"}'), (math.inf, b'{"k0":"Infinity"}'),
        (-math.inf, b'{"k0":"-Infinity"}'),
    ]),
    (SMALL, [(Decimal("1.20"), b'{"k0":"1.20"}'), (Decimal("-0.05"), b'{"k0":"-0.05"}')]),
    (WIDE, [(Decimal("-" + "9" * 38), b'{"k0":"-' + b"9" * 38 + b'"}')]),
    (TINY, [
        (Decimal(0), b'{"k0":"0E-10"}'), (Decimal("0.0000001"), b'{"k0":"1.000E-7"}'),
        (Decimal("-0.0000000001"), b'{"k0":"-1E-10"}'),
        (Decimal("12.5"), b'{"k0":"12.5000000000"}'),
        (Decimal("0.000001"), b'{"k0":"0.0000010000"}'),
    ]),
    (BYTES, [
        (b"", b'{"k0":""}'), (b"\0\xff", b'{"k0":"AP8="}'),
        (bytes(57), b'{"k0":"' + b"A" * 76 + b'"}'),
        (bytes(58), b'{"k0":"' + b"A" * 76 + b'\\r\\nAA=="}'),
    ]),
    (DATE, [(-3594, b'{"k0":-3594}'), (10_000_000, b'{"k0":10000000}'), (None, None)]),
    (TIME, [(86_399_999, b'{"k0":86399999}'), (0, b'{"k0":0}')]),
    (TIMESTAMP, [(-1, b'{"k0":-1}'), (2**63 - 1, b'{"k0":9223372036854775807}')]),
    (ROWS, [
        ([], b'{"k0":[]}'),
        ([None, [], [None, {"X": None, 'a"b\\é': None}]], b'{"k0":[null,[],[null,{}]]}'),
        ([[{"X": math.nan, 'a"b\\é': "/\x1f"}]],
         b'{"k0":[[{"X":"NaN","a\\"b\\\\\xc3\xa9":"/\\u001F"}]]}'),
    ]),
    (OUTER, [
        ({"D": None, "M": None, "B": None}, b'{"k0":{}}'),
        ({"D": -3594, "M": [{"C": Decimal("1.20"), "T": 7}, None], "B": bytes(58)},
         b'{"k0":{"D":-3594,"M":[{"C":"1.20","T":7},null],"B":"' + b"A" * 76 + b'\\r\\nAA=="}}'),
    ]),
]  # fmt: skip
TEXT = '"\\/\b\f\n\r\t\x00\x1f\x7f\x80ä\u2028\ufeff\uffff😀'
WRITTEN = b'\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001F\x7f' + "\x80ä\u2028\ufeff\uffff😀".encode()


def _columns(kinds: list[SqlType], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    values = zip(*rows, strict=True)
    return [from_numbers(v, k.arrow()) for v, k in zip(values, kinds, strict=True)]


@pytest.mark.parametrize(("kind", "rows"), ALONE, ids=[str(kind) for kind, _ in ALONE])
@pytest.mark.parametrize("parts_may_miss", [False, True])
def test_the_key_of_one_column(
    kind: SqlType, rows: list[tuple[Any, bytes | None]], parts_may_miss: bool
) -> None:
    columns = _columns([kind], [(value,) for value, _ in rows])
    keys = state_keys(columns, [kind], parts_may_miss=parts_may_miss)
    assert keys.type == pa.binary()
    assert keys.to_pylist() == [key for _, key in rows]
    (decoded,) = decode_keys(keys.drop_null().to_pylist(), [Column("K", kind)])
    # As text NaN equals itself, and 0.0 is not -0.0.
    expected = as_numbers(columns[0].drop_null()).to_pylist()
    assert repr(as_numbers(decoded).to_pylist()) == repr(expected)


def test_the_key_of_several_columns() -> None:
    kinds = [STRING, BIGINT, SMALL, BOOLEAN, TIMESTAMP]
    row = (TEXT, -(2**63), Decimal("0.10"), True, -5)
    (key,) = state_keys(_columns(kinds, [row]), kinds).to_pylist()
    assert key == (
        b'{"k0":"' + WRITTEN + b'","k1":-9223372036854775808,"k2":"0.10","k3":true,"k4":-5}'
    )


def test_a_row_without_some_parts_has_a_key_only_in_a_table() -> None:
    kinds = [STRING, BYTES, INTEGER]
    rows = [("a", b"b", 1), (None, b"b", 1), ("a", None, 1), ("", b"", None), (None, None, None)]
    columns = _columns(kinds, rows)
    whole = b'{"k0":"a","k1":"Yg==","k2":1}'
    assert state_keys(columns, kinds).to_pylist() == [whole, None, None, None, None]
    assert state_keys(columns, kinds, parts_may_miss=True).to_pylist() == [
        whole, b'{"k1":"Yg==","k2":1}', b'{"k0":"a","k2":1}', b'{"k0":"","k1":""}', None,
    ]  # fmt: skip


def test_base64_is_cut_into_lines_of_57_bytes() -> None:
    data = bytes(range(256)) * 2
    lines = [base64.b64encode(data[at : at + 57]) for at in range(0, len(data), 57)]
    (key,) = state_keys([pa.array([data])], [BYTES]).to_pylist()
    assert key == b'{"k0":"' + b"\\r\\n".join(lines) + b'"}'


@pytest.mark.parametrize("kind", [k for k, _ in ALONE], ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_no_rows_have_no_keys(kind: SqlType, count: int) -> None:
    columns = [pa.array([], kind.arrow())] * count
    assert state_keys(columns, [kind] * count).equals(pa.array([], pa.binary()))
