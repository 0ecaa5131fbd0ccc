"""Python's scalar functions, value by value."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.tasks.evaluate.outputs import evaluate_text
from holdfast.tasks.functions.base import PythonFunction, Types, evaluate
from holdfast.tasks.functions.names import sql_name
from holdfast.tasks.functions.registry import FUNCTIONS, arrow_function
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Base, Column, SqlType

TIMESTAMP = SqlType(Base.TIMESTAMP)


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("INSTR", ("banana", "an", -1, 2), 2),
        ("INSTR", ("banana", "an", 0), 0),
        ("INSTR", ("banana", "an", 1, 3), 0),
        ("INITCAP", ("  o'neil\tx",), "O'neil\tX"),
        ("CHR", ("\\u00e9\\n",), "é\n"),
        ("CHR", ("u00e9",), None),
        ("CHR", (0x110000,), None),
        ("TRIM", ("\t x \x00",), "x"),
        ("SPLIT", ("", ""), [""]),
        ("MASK_LEFT", ("Ab1", 9), "Xxn"),
        ("REGEXP_EXTRACT", ("a(b)?c", "xac", 1), None),
        ("REGEXP_EXTRACT", ("a", "xac", 1), None),
        ("REGEXP_REPLACE", ("a.b", r"(\w)\.(\w)", r"$2\$1"), "b$1"),
        ("REGEXP_SPLIT_TO_ARRAY", ("abc", ""), ["a", "b", "c"]),
        ("REGEXP_SPLIT_TO_ARRAY", ("a1b", r"\p{Digit}"), ["a", "b"]),
        ("ENCODE", ("X'4B'", "hex", "utf8"), "K"),
        ("ENCODE", ("0x123", "hex", "base64"), "ASM="),
        ("FROM_BYTES", (b"\xe9", "ascii"), "\ufffd"),
        ("BYTES_LPAD", (b"abc", 2, b"x"), b"ab"),
        ("BYTES_RPAD", (b"a", 4, b"xy"), b"axyx"),
        ("INT_FROM_BYTES", (b"\x00\x00\x07\xe5", "big_endian"), 2021),
        ("DOUBLE_FROM_BYTES", (b"\x40\x00\x00\x00\x00\x00\x00\x00",), 2.0),
        ("UUID", (bytes(range(16)),), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("UUID", (b"x",), None),
        ("ROUND", (Decimal("-2.5"), 0), Decimal(-2)),
        ("ROUND", (1e308, 2), 1e308),
        ("TRUNC", (-12345.678, -2), -12300.0),
        ("POWER", (0.0, -1.0), math.inf),
        ("POWER", (-10.0, 309.0), -math.inf),
        ("EXP", (1000.0,), math.inf),
        ("URL_EXTRACT_HOST", ("http://[::1]:80/",), "[::1]"),
        ("URL_EXTRACT_PATH", ("mailto:a@b",), None),
        ("URL_EXTRACT_PARAMETER", ("http://h?a&b=1", "a"), ""),
        ("URL_ENCODE_PARAM", ("a ~*é",), "a+%7E*%C3%A9"),
        ("FORMAT_TIMESTAMP", (0, "yyyy-MM-dd'T'HH:mm:ss.SSS VV", "Asia/Tokyo"),
         "1970-01-01T09:00:00.000 Asia/Tokyo"),
        ("FORMAT_TIMESTAMP", (0, "XXX x Z O", "+05:30"), "+05:30 +0530 +0530 GMT+5:30"),
        ("FORMAT_TIMESTAMP", (0, "QQQ D k K h z", "UTC"), "Q1 1 24 0 12 UTC"),
        ("PARSE_TIMESTAMP", ("1 24", "D k"), 0),
        ("PARSE_TIMESTAMP", ("2020-366", "yyyy-DDD"), 1_609_372_800_000),
        ("PARSE_DATE", ("99", "yy"), 10_592),
        ("PARSE_DATE", ("2023-13-01", "yyyy-MM-dd"), 19_723),
        ("PARSE_TIME", ("01:02:03.5 pm", "hh:mm:ss.S a"), 46_923_500),
        ("EXTRACTJSONFIELD", ('{"a b":[{"c":1e2}]}', '$["a b"][0].c'), "100"),
        ("JSON_CONCAT", ('{"a":1}', '{"a":[]}'), '{"a":[]}'),
        ("CUBE", ([1, None],), [[None, None], [1, None]]),
    ],
)  # fmt: skip
def test_values(name: str, args: tuple[Any, ...], expected: object) -> None:
    assert FUNCTIONS[name].body(*args) == expected


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("REGEXP_EXTRACT", ("(", "x")),
        ("TO_BYTES", ("=", "base64")),
        ("TO_BYTES", ("abc", "hex")),
        ("ENCODE", ("x", "utf8", "utf8")),
        ("INT_FROM_BYTES", (b"\x00",)),
        ("URL_EXTRACT_HOST", ("a b",)),
        ("URL_DECODE_PARAM", ("%zz",)),
        ("EXTRACTJSONFIELD", ("{}", "$.")),
        ("JSON_ITEMS", ("{}",)),
        ("FORMAT_DATE", (0, "HH")),
        ("FORMAT_TIME", (0, "yyyy")),
        ("FORMAT_TIMESTAMP", (0, "'open")),
        ("FORMAT_TIMESTAMP", (0, "HH", "Mars/Phobos")),
        ("PARSE_TIME", ("2020", "yyyy")),
        ("PARSE_DATE", ("2020 10", "yyyy HH")),
        ("PARSE_TIMESTAMP", ("25", "HH")),
        ("STRINGTODATE", ("2020-01", "yyyy-MM")),
        ("MASK", ("x", "ab", None, None, None)),
        ("GENERATE_SERIES", (1, 3, -1)),
        ("CUBE", (list(range(21)),)),
    ],
)
def test_what_fails_raises(name: str, args: tuple[Any, ...]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, re.error, struct.error)):
        FUNCTIONS[name].body(*args)


def test_nulls_and_wrong_results_are_null_row_by_row() -> None:
    function = PythonFunction("F", lambda x: {1: 5, 2: "text", 3: 2**70}[x])
    result = evaluate(function, Types(INTEGER, (INTEGER,)), [pa.array([None, 1, 2, 3, 4])])
    assert result.to_pylist() == [None, 5, None, None, None]
    assert result.type == pa.int32()


def test_values_inside_others_are_milliseconds_and_days() -> None:
    fields = (Column("AT", TIMESTAMP), Column("DAY", SqlType(Base.DATE)))
    given = SqlType(Base.MAP, element=SqlType(Base.STRUCT, fields=fields))
    column = pa.array([[("k", {"AT": 1_500_000, "DAY": 3})], None], given.arrow())
    seen: list[Any] = []
    wanted = SqlType(Base.ARRAY, element=TIMESTAMP)

    def body(value: Any) -> list[int | None]:
        seen.append(value)
        return [7, None]

    function = PythonFunction("F", body)
    result = evaluate(function, Types(wanted, (given,)), [column])
    assert seen == [{"k": {"AT": 1500, "DAY": 3}}]
    assert result.cast(pa.list_(pa.int64())).to_pylist() == [[7000, None], None]


def test_duckdb_calls_them_with_any_types() -> None:
    array = SqlType(Base.ARRAY, element=STRING)
    split = sql_name("SPLIT", array, (STRING, STRING))
    parse = sql_name("PARSE_TIMESTAMP", TIMESTAMP, (STRING, STRING))
    inside = f"list_transform([1], lambda x: {split}('u', 'v'))"
    text = f"{split}('a,b', ','), epoch_ms({parse}('1971', 'yyyy')), {inside}"
    frame = {"x": pa.array([1, 2])}
    found = evaluate_text(f"[CAST(({text}) AS VARCHAR)]", STRING, frame).to_pylist()
    assert found == [["([a, b], 31536000000, [[u]])"]] * 2


def test_an_unknown_function_is_told() -> None:
    with pytest.raises(KeyError, match="NOT_THERE"):
        arrow_function(sql_name("NOT_THERE", BIGINT, (DOUBLE,)))
