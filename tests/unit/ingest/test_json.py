"""JSON by ksqlDB's rules, one statement of them per case."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from holdfast.ingest.formats.json.decoder import JsonDecoder
from holdfast.ingest.formats.json.fast import fast_json
from holdfast.ingest.formats.json.shaped import ShapedJson, shaped_json
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

DECIMAL = SqlType(Base.DECIMAL, 4, 2)
ARRAY = SqlType(Base.ARRAY, element=BIGINT)
MAP = SqlType(Base.MAP, element=BIGINT)
STRUCT = SqlType(Base.STRUCT, fields=(Column("X", BIGINT), Column("y", STRING)))


def decode(payload: bytes, *columns: Column, unwrapped: bool = False) -> list[Any]:
    """The columns of one record; a text alone is the reason why it is undecodable."""
    found = JsonDecoder(columns, unwrapped=unwrapped).decode([payload])
    if found.bad:
        assert all(c.null_count == 1 for c in found.columns)
        return [found.bad[0]]
    return [c[0].as_py() for c in found.columns]


def one(type_: SqlType, value: str) -> Any:
    return decode(b'{"a":' + value.encode() + b"}", Column("A", type_))[0]


@pytest.mark.parametrize(
    ("type_", "json", "expected"),
    [
        (BIGINT, "9223372036854775807", 2**63 - 1),
        (BIGINT, '"-12"', -12),
        (BIGINT, "12.9", 12),
        (BIGINT, "-12.9", -12),
        (BIGINT, "9007199254740993.0", 9007199254740993),
        (BIGINT, "1e3", 1000),
        (BIGINT, "null", None),
        (INTEGER, "2147483647", 2**31 - 1),
        (DOUBLE, "1", 1.0),
        (DOUBLE, '" 1.5 "', 1.5),
        (DOUBLE, "123456789012345678901234567890", 123456789012345678901234567890.0),
        (BOOLEAN, "false", False),
        (STRING, '"x"', "x"),
        (STRING, "12", "12"),
        (STRING, "1.50", "1.50"),
        (STRING, "1e3", "1E+3"),
        (STRING, "123456789012345678901234567890", "123456789012345678901234567890"),
        (STRING, "true", "true"),
        (STRING, '["a", 1, null, [2]]', "[a, 1, null, [2]]"),
        (STRING, '{"b" : [1, 2.50], "a": "\\u00e9\\""}', '{"b":[1,2.50],"a":"é\\""}'),
        (DECIMAL, "1.5", Decimal("1.50")),
        (DECIMAL, '"1.5"', Decimal("1.50")),
        (DECIMAL, "99.990", Decimal("99.99")),
        (DECIMAL, "0.1", Decimal("0.10")),
        (SqlType(Base.BYTES), '"AQI="', b"\x01\x02"),
        (ARRAY, '[1, "2", null]', [1, 2, None]),
        (MAP, '{"p": 1, "q": null}', [("p", 1), ("q", None)]),
        (STRUCT, '{"x": 1, "y": "t", "z": []}', {"X": 1, "y": "t"}),
        (STRUCT, '{"X": 1, "Y": "t"}', {"X": 1, "y": None}),
    ],
)
def test_values_become_what_ksqldb_makes_of_them(type_: SqlType, json: str, expected: Any) -> None:
    assert one(type_, json) == expected


@pytest.mark.parametrize(
    ("type_", "json", "reason"),
    [
        (BIGINT, "9223372036854775808", "A: '9223372036854775808' is out of BIGINT's range"),
        (BIGINT, "1e30", f"A: '{10**30}' is out of BIGINT's range"),
        (BIGINT, "1e999999", "A: a number out of BIGINT's range"),
        (BIGINT, '"1.5"', "A: '1.5' is not an integer"),
        (BIGINT, "true", "A: a boolean where BIGINT is declared"),
        (INTEGER, "2147483648", "A: '2147483648' is out of INTEGER's range"),
        (DOUBLE, "1e400", "A: a number out of DOUBLE's range"),
        (DOUBLE, '"x"', "A: 'x' is not a number"),
        (BOOLEAN, '"true"', "A: text where BOOLEAN is declared"),
        (BOOLEAN, "1", "A: a number where BOOLEAN is declared"),
        (DECIMAL, "1.005", "A: '1.005' does not fit DECIMAL(4, 2) without rounding"),
        (DECIMAL, "1e-41", "A: '1E-41' does not fit DECIMAL(4, 2) without rounding"),
        (DECIMAL, "1e-99999999", "A: '1E-99999999' does not fit DECIMAL(4, 2) without rounding"),
        (DECIMAL, "100", "A: '100' has too many digits for DECIMAL(4, 2)"),
        (SqlType(Base.BYTES), '"?"', "A: '?' is not base64"),
        (SqlType(Base.TIME), "86400000", "A: '86400000' is out of TIME's range, 0 to 86399999 ms"),
        (
            SqlType(Base.TIMESTAMP),
            '"2026-03-02T08:00:00"',
            (
                "A: '2026-03-02T08:00:00' is not a number of milliseconds; declare text as STRING, "
                "with TIMESTAMP_FORMAT"
            ),
        ),
        (
            SqlType(Base.DATE),
            '"2026-03-02"',
            "A: '2026-03-02' is not a number of days since 1970-01-01",
        ),
        (ARRAY, '[1, "x"]', "A: [1]: 'x' is not an integer"),
        (ARRAY, "{}", "A: an object where ARRAY is declared"),
        (MAP, '{"k": []}', "A: k: an array where BIGINT is declared"),
        (STRUCT, '{"x": {}}', "A: X: an object where BIGINT is declared"),
        (STRUCT, "3", "A: a number where an object is declared"),
        (STRING, '"\\ud800"', "A: text with half a surrogate pair"),
        (STRING, "NaN", "not valid JSON: NaN is not a JSON number"),
        (STRING, '"a', "not valid JSON at character 5: Unterminated string starting at"),
    ],
)
def test_what_does_not_fit_is_undecodable_with_the_reason(
    type_: SqlType, json: str, reason: str
) -> None:
    assert one(type_, json) == reason


def test_names_match_exactly_first_then_without_regard_to_case() -> None:
    column = Column("AMOUNT", BIGINT)
    assert decode(b'{"amount":1}', column) == [1]
    assert decode(b'{"aMounT":1}', column) == [1]
    assert decode(b'{"amount":1,"AMOUNT":2,"Amount":3}', column) == [2]
    assert decode(b'{"amount":1,"Amount":3}', column) == [3], "the last one counts"
    assert decode(b'{"amount":1,"amount":3}', column) == [3]
    assert decode(b'{"\\u0061mount":1}', column) == [1]
    assert decode(b'{"other":1}', column) == [None]
    quoted = Column("amount", BIGINT)
    assert decode(b'{"AMOUNT":1}', quoted) == [None], "a quoted name matches itself only"
    assert decode(b'{"amount":1}', quoted, column) == [1, 1]


@pytest.mark.parametrize(
    ("payloads", "expected"),
    [
        ([b'{"a":1}', b'{"A":2}'], [1, 2]),
        ([b'{"a":1,"A":2}', b"{}"], [2, None]),
        ([b'{"a":1,"x":"A"}', b"{}"], [1, None]),
        ([b'{"x":"A"}', b'{"a":1}'], [None, 1]),
        ([b'{"x":"a"}', b'{"A":1}'], [None, 1]),
        ([b'{"x":{"A":9}}', b'{"a":1}'], [None, 1]),
        ([b'{"a":null}', b'{"A":2}'], [None, 2]),
    ],
)
def test_each_record_may_spell_a_name_in_its_own_way(
    payloads: list[bytes], expected: list[int | None]
) -> None:
    (found,) = JsonDecoder([Column("A", BIGINT)]).decode(payloads).columns
    assert found.to_pylist() == expected


def test_what_only_looks_like_a_name_is_none() -> None:
    """To the fast way, which knows upper and lower case by one bit, DEL looks like `_`."""
    decoder = JsonDecoder([Column("A_B", BIGINT)])
    lookalike, name = b'{"a\x7fb":1}', b'{"a_b":2}'
    for payloads, expected in [
        ([lookalike], [None]),
        ([lookalike, name], [None, 2]),
        ([name, lookalike], [2, None]),
        ([b'{"A_B":2,"a\x7fb":1}', b"{}"], [2, None]),
    ]:
        (found,) = decoder.decode(payloads).columns
        assert found.to_pylist() == expected


@pytest.mark.parametrize(
    "payload", [b"[]", b"1", b'"x"', b"", b"{", b'{"a":1}x', b"\xef\xbb\xbf{}"]
)
def test_a_value_that_is_no_object_is_undecodable(payload: bytes) -> None:
    found = JsonDecoder([]).decode([payload])
    assert list(found.bad) == [0]


@pytest.mark.parametrize("frames", [0, 500])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize(("name", "type_"), [("A", STRING), ("OTHER", BIGINT)])
def test_how_deep_a_record_may_be_nested_does_not_depend_on_the_stack(
    opening: str, closing: str, name: str, type_: SqlType, frames: int
) -> None:
    def at(frames: int, payload: bytes) -> bool:
        if frames:
            return at(frames - 1, payload)
        return not JsonDecoder([Column(name, type_)]).decode([payload] * 3).bad

    def record(levels: int) -> bytes:
        return f'{{"a": {opening * levels}1.50{closing * levels}}}'.encode()

    assert at(frames, record(199))
    for levels in (200, 300, 900, 1_100, 10_000):
        assert not at(frames, record(levels)), levels


def test_invalid_utf8_is_undecodable_wherever_it_is() -> None:
    assert decode(b'{"b":"\xff"}', Column("A", STRING)) == ["not valid UTF-8 at byte 6"]


def test_jsons_null_means_null_and_no_bytes_mean_null() -> None:
    found = JsonDecoder([Column("A", BIGINT)]).decode([b"null", None, b'{"a":null}'])
    assert found.nulls == {0}
    assert not found.bad
    assert found.columns[0].null_count == 3


def test_a_key_of_one_column_stands_without_object() -> None:
    assert decode(b"12", Column("A", BIGINT), unwrapped=True) == [12]
    assert decode(b'"x"', Column("A", STRING), unwrapped=True) == ["x"]
    assert decode(b"[]", Column("A", BIGINT), unwrapped=True) == [
        "an array where BIGINT is declared"
    ]


def test_a_key_that_nobody_wants_need_be_no_object() -> None:
    found = JsonDecoder([], unwrapped=True).decode([b"12", b'"x"', b"{}", b"bad"])
    assert (found.columns, sorted(found.bad)) == ((), [3])


def test_neighbours_of_a_bad_record_are_decoded() -> None:
    payloads: list[bytes | None] = [b'{"a":%d}' % i for i in range(10_000)]
    payloads[3], payloads[4_567], payloads[9_999] = b"bad", None, b'{"a":"x"}'
    found = JsonDecoder([Column("A", BIGINT)]).decode(payloads)
    assert sorted(found.bad) == [3, 9_999]
    expected = [None if i in (3, 4_567, 9_999) else i for i in range(10_000)]
    assert found.columns[0].to_pylist() == expected


@pytest.mark.parametrize(
    "written",
    ["1e-41", '"1e-41"', "-1.5E-77", '"+1e-41"', "0.5e-99999999", '"1e\\u002d99999999"',
     '"1\\u002e5e-41"', "1e-41 "],
)  # fmt: skip
def test_a_decimal_smaller_than_any_column_never_goes_to_arrow(written: str) -> None:
    """It would take 0 for it, or end the process."""
    decimals = SqlType(Base.ARRAY, element=DECIMAL)
    for type_, json in ((DECIMAL, written), (decimals, f"[1, {written}]")):
        fast = fast_json([Column("A", type_), Column("ID", STRING)])
        assert fast is not None
        assert fast.decode([f'{{"a":{json}, "id": "x"}}'.encode()]) is None
        assert "without rounding" in one(type_, json)
    fast = fast_json([Column("A", DECIMAL), Column("ID", STRING)])
    assert fast is not None
    text = '"0e-12-41"' if written[0] == '"' else '"1e-41 is text"'
    assert fast.decode([f'{{"a": 1.5, "id": {text}}}'.encode()]) is not None


@pytest.mark.parametrize("minus", ["-", "\\u002d", "\\u002D"])
@pytest.mark.parametrize("exponent", range(1, 10))
def test_many_decimal_places_and_a_small_exponent_are_no_zero(minus: str, exponent: int) -> None:
    """Together more than the 38 places that Arrow's table of powers of ten has."""
    for scale in (0, 2, 38):
        type_ = SqlType(Base.DECIMAL, 38, scale)
        for places in range(38 - exponent, 39):
            written = f"0.{'1'.zfill(places)}e{minus}{exponent}"
            text = f'"{written}"' if minus != "-" else written
            found = JsonDecoder([Column("A", type_)]).decode([f'{{"a": {text}}}'.encode()])
            if places + exponent > scale:
                assert "without rounding" in found.bad[0]
            else:
                assert found.columns[0][0].as_py() == Decimal(1).scaleb(-places - exponent)
    fast = fast_json([Column("A", DECIMAL)])
    assert fast is not None
    assert fast.decode([b'{"a": 1.25, "other": 12345678901234567.5e-9}']) is not None


def test_types_that_arrow_reads_otherwise_never_go_the_fast_way() -> None:
    for type_ in (MAP, SqlType(Base.BYTES), SqlType(Base.ARRAY, element=SqlType(Base.TIMESTAMP))):
        assert fast_json([Column("A", type_)]) is None
    assert fast_json([Column("größe", BIGINT)]) is None


SALE = [Column("TITLE", STRING), Column("AMOUNT", BIGINT), Column("PRICE", DOUBLE)]


def sale(title: str = "x", amount: str = "1", price: str = "1.5", more: str = "") -> bytes:
    return f'{{"title": "{title}", "amount":{amount},"price":{price}{more}}}'.encode()


def shaped(columns: list[Column]) -> ShapedJson:
    found = shaped_json(columns)
    assert found is not None
    return found


def test_records_of_one_shape_are_cut_up() -> None:
    payloads = [sale(f"Movie é {i}", str(i - 50), f"{i / 4}") for i in range(100)]
    found = shaped(SALE).decode(payloads)
    assert found is not None
    assert found[0].to_pylist() == [f"Movie é {i}" for i in range(100)]
    assert found[1].to_pylist() == list(range(-50, 50))
    assert found[2].to_pylist() == [i / 4 for i in range(100)]


def test_a_shape_may_be_nested_and_have_words_and_lack_a_column() -> None:
    record = b'{"a":{"b":[1,true,"%d"],"x":-1.5},"c":null,"d":[{}],"amount":%d}'
    columns = [Column("AMOUNT", BIGINT), Column("C", STRING), Column("E", STRING)]
    found = shaped(columns).decode([record % (i, i) for i in range(20)])
    assert found is not None
    assert [c.to_pylist() for c in found] == [list(range(20)), [None] * 20, [None] * 20]


def test_where_no_quote_says_what_is_where_nothing_is_cut() -> None:
    assert shaped(SALE[1:2]).decode([b'{"x":[1,%d],"amount":2}' % i for i in range(20)]) is None
    assert shaped([]).decode([b"{}"] * 20) is None
    assert shaped([]).decode([b"[1]"] * 20) is None


@pytest.mark.parametrize(
    "other",
    [
        sale(more=',"y":2'),
        sale().replace(b'"price"', b'"pricy"'),
        sale().replace(b": ", b":"),
        b" " + sale(),
        sale() + b" ",
        sale()[:-1],
        sale() + b"}",
        sale(amount='"1"'),
        sale(title='\\"'),
        sale(title='","amount":1,"price":2},{"title": "'),
        sale(title="\t"),
        sale(title="\x00"),
        sale(title="\n"),
        sale().replace(b"x", b"\xff"),
        sale(amount=""),
        sale(amount="null"),
        sale(amount="01"),
        sale(amount="-"),
        sale(amount="-01"),
        sale(amount="1-"),
        sale(amount="--1"),
        sale(amount="+1"),
        sale(amount=" 1"),
        sale(amount="1 "),
        sale(amount="1,2"),
        sale(amount="1.5"),
        sale(amount="9223372036854775808"),
        sale(price="1."),
        sale(price=".5"),
        sale(price="-.5"),
        sale(price="1.2.3"),
        sale(price="00.5"),
        sale(price="1e5"),
        sale(price="1" * 400),
        sale(price="NaN"),
        b"{}",
        b"",
        b"null",
    ],
)
@pytest.mark.parametrize("at", [0, 7, 19])
def test_records_of_another_shape_are_refused(other: bytes, at: int) -> None:
    payloads = [sale(title=f"t{i}", amount=str(i)) for i in range(20)]
    payloads[at] = other
    assert shaped(SALE).decode(payloads) is None


def test_what_differs_in_numbers_nobody_wants_is_looked_at() -> None:
    payloads = [sale(amount=str(i)) for i in range(19)]
    assert shaped(SALE[:1]).decode([*payloads, sale(amount="01")]) is None
    assert shaped(SALE[:1]).decode([*payloads, sale(amount="1")]) is not None


def test_a_name_that_comes_twice_is_left_to_the_others() -> None:
    payloads = [b'{"a":%d,"x":{"a":"q"},"a":%d}' % (i, i) for i in range(20)]
    assert shaped([Column("A", BIGINT)]).decode(payloads) is None
    cases = [b'{"a":%d,"x":{"a":"q"},"A":%d}' % (i, -i) for i in range(20)]
    found = shaped([Column("A", BIGINT), Column("a", BIGINT)]).decode(cases)
    assert found is not None
    assert found[0].to_pylist() == [-i for i in range(20)]
    assert found[1].to_pylist() == list(range(20))


def test_records_that_are_not_alike_are_tried_ever_less_often() -> None:
    decoder = shaped([Column("A", BIGINT)])
    alike = [b'{"a":%d}' % i for i in range(20)]
    assert decoder.decode([*alike, b"{}"]) is None
    assert [decoder.decode(alike) is None for _ in range(4)] == [True, True, False, False]
    assert decoder.decode([*alike, b"{}"]) is None
    assert [decoder.decode([*alike, b"{}"]) is None for _ in range(3)] == [True] * 3
    assert [decoder.decode(alike) is None for _ in range(5)] == [True] * 4 + [False]


def test_types_that_no_slot_holds_are_not_cut_out() -> None:
    for type_ in (BOOLEAN, DECIMAL, ARRAY, MAP, STRUCT):
        assert shaped_json([Column("A", type_)]) is None
