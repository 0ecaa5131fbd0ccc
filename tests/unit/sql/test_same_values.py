"""DuckDB gives the very values that Spark SQL gave, at the bounds of each type, too."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.sql.functions.catalog import catalog
from tests.unit.sql.engines import Rows, in_duckdb, in_spark, parsed_type, same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HUGE = Decimal("9999999999999999999999999999.9999999999")
_VALUES: dict[str, tuple[str, list[Any]]] = {
    "I": ("INT", [None, 0, 1, -1, 2, 7, -7, 100, 2**31 - 1, -(2**31)]),
    "B": ("BIGINT", [None, 0, 1, -1, 5, 2**63 - 1, -(2**63), 3_000_000_000, 2**53 + 1]),
    "D": ("DOUBLE", [None, 0.0, -0.0, 1.0, -0.5, 2.5, 1.005, 1e7, 1e16, -1e300, 5e-324,
                     float("inf"), float("-inf"), float("nan"), 2.0**63, -(2.0**63)]),
    "C": ("DECIMAL(6, 2)", [None, *map(Decimal, ("0", "0.01", "12.35", "-9999.99", "7"))]),
    "H": ("DECIMAL(38, 10)", [None, _HUGE, _HUGE.copy_negate(),
                            Decimal("1.0000000001"), Decimal(3)]),
    "S": ("STRING", [None, "", "abc", "héllo ß", "😀a😀", "e\u0301x", "a\0b", " 42 ", "-7",
                     "2147483648", "1e3", "NaN", "true", "2024-02-29", "12:34:56.789", "aGk",
                     "9999-12-31T23:59:59.999", "a%b_c", "l1\nl2", "\\", "'\"", "x" * 5000,
                     "İ ŉ ΑΣ", "\t pad\u00a0", "http://u:p@h.com:80/p?q=1#f"]),
    "Y": ("BYTES", [None, b"", b"\0", b"\xff\xfe", b"\0\0\0\1", bytes(range(16))]),
    "F": ("BOOLEAN", [None, True, False]),
    "DAY": ("DATE", [None, *(dt.date(*d) for d in ((1, 1, 1), (1969, 12, 31), (9999, 12, 31)))]),
    "TM": ("TIME", [None, 0, 45_296_789, 86_399_999]),
    "TS": ("TIMESTAMP", [None, *(dt.datetime(*d, tzinfo=dt.UTC) for d in (  # type: ignore[misc]
        (1, 1, 1), (1969, 12, 31, 23, 59, 59, 999_999), (9999, 12, 31, 23, 59, 59, 999_999),
        (2024, 3, 10, 7, 30), (2023, 11, 14, 22, 13, 20, 123_456)))]),
    "A": ("ARRAY<INT>", [None, [], [None], [3, None, 1, 3], [-(2**31), 2**31 - 1]]),
    "W": ("ARRAY<STRING>", [None, [], ["a"], ["k", "k"], ["x", None]]),
    "E": ("ARRAY<DOUBLE>", [None, [], [0.0, -0.0], [float("nan"), 1.0], [None, 2.5]]),
    "G": ("ARRAY<ARRAY<INT>>", [None, [], [[1], [2]], [None, [1]]]),
    "M": ("MAP<STRING, INT>", [None, [], [("b", 1), ("a", None)], [("", 0)]]),
    "P": ("STRUCT<X INT, Y STRING>", [None, {"X": 1, "Y": "a"}, {"X": None, "Y": None}]),
}  # fmt: skip
_NUMBERS = ("I", "B", "D", "C", "H")


def _rows(count: int) -> Rows:
    chance = random.Random(7)
    values: dict[str, list[Any]] = {}
    types = {}
    for name, (text, each) in _VALUES.items():
        for twin in (name, f"{name}2"):
            types[twin] = parsed_type(text)
            first = chance.sample(each, len(each))
            values[twin] = (first + chance.choices(each, k=count))[:count]
    return Rows(types, values)


_ARITHMETIC = [
    *(f"{a} {op} {b}2" for a, b in itertools.product(_NUMBERS, repeat=2) for op in "+-*/%"),
    *(f"{a} {op} {n}" for a in _NUMBERS for op in "+-*/%" for n in ("3", "-1", "0", "0.5", "2E0")),
    *(f"-{a}" for a in "IBD"),
    "2147483647 + 1", "1 / 0", "COALESCE(I + 2147483647, 5)", "CAST('abc' AS INT)",
]  # fmt: skip
_CASTS = [
    *(f"CAST({a} AS {t})" for a in _NUMBERS for t in ("INT", "BIGINT", "DOUBLE", "STRING")),
    *(f"CAST({a} AS DECIMAL({t}))" for a in (*_NUMBERS, "S") for t in ("6, 2", "38, 10", "4, 4")),
    *(f"CAST(S AS {t})" for t in ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "BYTES", "DATE", "TIME",
                                  "TIMESTAMP")),
    *(f"CAST({a} AS STRING)" for a in ("F", "DAY", "TM", "TS", "A", "E", "M", "P", "G")),
    "CAST(TS AS DATE)", "CAST(TS AS TIME)", "CAST(DAY AS TIMESTAMP)", "CAST(E AS ARRAY<BIGINT>)",
    "CAST(P AS STRUCT<X STRING, Z INT>)", "CAST(M AS MAP<STRING, DOUBLE>)",
]  # fmt: skip
_PREDICATES = [
    *(f"{a} {op} {a}2" for a in ("S", "D", "H", "DAY", "TS") for op in ("=", "<", "<>")),
    *(f"{a} IS DISTINCT FROM {a}2" for a in ("D", "A", "E", "M", "P", "Y", "F")),
    "S LIKE '%a%'", "S LIKE 'a_b'", "S LIKE '%\n%'", "S LIKE 'a!%b!_c' ESCAPE '!'", "S LIKE S2",
    "S LIKE '\\'", "I <> 0 AND 10 / I > 1", "F AND F2", "F OR F2", "NOT F", "D IN (1, 0)",
    "CASE I WHEN 0 THEN 1 / 0 WHEN 1 THEN CAST('x' AS INT) ELSE I END", "TS > DAY",
    "A[0]", "A[-1]", "A[I]", "M['a']", "P->X", "MAP(S := 1, S2 := 2)", "MAP('a' := I, 'a' := I2)",
    "TRANSFORM(A, x => x + 1)", "TRANSFORM(W, x => SUBSTR(UCASE(x), -1))",
    "FROM_DAYS(UNIX_DATE(CAST(S AS DATE)))", "DATE_ADD(DAY, LEN(S))",
    "FILTER(W, x => x LIKE '%a%')", "REDUCE(A, 0, (r, x) => r + x)", "TRUE", "NULL IS NULL",
]  # fmt: skip
_ARGUMENTS = {
    "STRING": "S", "INTEGER": "I", "BIGINT": "B", "DOUBLE": "D", "DECIMAL": "C", "BOOLEAN": "F",
    "DATE": "DAY", "TIME": "TM", "TIMESTAMP": "TS", "BYTES": "Y", "ARRAY<STRING>": "W",
    "ARRAY<T>": "E", "ARRAY<ARRAY<T>>": "G", "MAP<STRING, T>": "M", "T": "D", "N": "I",
    "UNIT": "MINUTES",
}  # fmt: skip
_SPARK_FAILS = ("GENERATE_SERIES",)  # the whole job, for some of these numbers
# Spark's own are wrong or wider for these; the sentences say how.
_OTHER = {
    "GET_JSON_OBJECT": "a path that does not begin with $ is a key for DuckDB",
    "DATEADD": "Spark's calendar ends after ten thousand years", "DATESUB": "the same",
    "TIMESTAMPADD": "the same", "TIMESTAMPSUB": "the same",
    "MASK_LEFT": "Spark's count overflows at the greatest INTEGER", "MASK_KEEP_LEFT": "the same",
    "PARSE_URL": "java.net.URI checks the labels of hosts", "URL_EXTRACT_HOST": "the same",
}  # fmt: skip


def _calls() -> list[str]:
    """One call of each overload, over columns."""
    made: list[str] = []
    for overload in itertools.chain.from_iterable(catalog().values()):
        if not overload.deterministic or overload.name in (*_SPARK_FAILS, *_OTHER):
            continue
        names = [_ARGUMENTS[str(p)] for p in overload.params]
        twins = [f"{n}2" if n in names[:i] else n for i, n in enumerate(names)]
        arguments = ", ".join(twins)
        arguments = (
            arguments.replace("S", "'month'", 1) if overload.name == "DATE_TRUNC" else arguments
        )
        if overload.name in ("ARRAY_CONTAINS", "ARRAY_REMOVE", "ARRAY_POSITION"):
            arguments = "E, D"
        made.append(f"{overload.name}({arguments})")
    return list(dict.fromkeys(made))


_TEXTS = [*_ARITHMETIC, *_CASTS, *_PREDICATES, *_calls()]
_ROWS = _rows(150)


def test_every_overload_has_a_text_for_duckdb() -> None:
    overloads = itertools.chain.from_iterable(catalog().values())
    assert [o.signature for o in overloads if o.duckdb is None] == []


@pytest.fixture(scope="module")
def spark_values(spark: SparkSession) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for at in range(0, len(_TEXTS), 40):
        texts = _TEXTS[at : at + 40]
        try:
            found |= in_spark(spark, texts, _ROWS)
        except Exception:  # noqa: BLE001 - one of them ends Spark's job
            found |= {text: _alone(spark, text) for text in texts}
    return found


def _alone(spark: SparkSession, text: str) -> Any:
    try:
        return in_spark(spark, [text], _ROWS)[text]
    except Exception as error:  # noqa: BLE001 - shown by its test
        return error


@pytest.mark.parametrize("text", _TEXTS)
def test_the_values_are_spark_s(spark_values: dict[str, Any], text: str) -> None:
    expected, found = spark_values[text], in_duckdb(text, _ROWS)
    if "OUT_OF_RANGE" in str(expected):  # Spark's job would end; DuckDB gives values
        return
    assert not isinstance(expected, Exception), expected
    pairs = enumerate(zip(expected, found, strict=True))
    # Each engine has its own approximations of sine, power and the like.
    assert [(_ROWS.at(i), a, b) for i, (a, b) in pairs if not same(a, b, ulps=4)][:2] == []


@pytest.mark.parametrize(
    ("text", "nasty"),
    [("10 / I", None), ("I + 2147483647", 9 - 2**31), ("CAST(I AS DECIMAL(2, 1))", Decimal(10)),
     ("CAST(CAST(I AS STRING) + 'x' AS INT)", None)],
)  # fmt: skip
def test_one_row_of_many_vectors_does_not_end_a_batch(text: str, nasty: Any) -> None:
    values = [1] * 5_000
    values[3_000] = 0 if text == "10 / I" else 10
    found = in_duckdb(text, Rows({"I": parsed_type("INT")}, {"I": values}))
    nasty = None if isinstance(nasty, Decimal) else nasty
    assert found[3_000] == nasty
    assert len(set(found[:3_000] + found[3_001:])) == 1


def test_no_rows_and_no_columns() -> None:
    types = {"I": parsed_type("INT")}
    assert in_duckdb("I + 1", Rows(types, {"I": []})) == []
    assert in_duckdb("TRUE", Rows(types, {"I": [None, 1]})) == [True, True]
