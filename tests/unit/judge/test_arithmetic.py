"""The judge's arithmetic, against ksqlDB's documentation and Java's definition of its types."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.judge.read.decode import SinkDecoder
from holdfast.judge.recompute.recompute import arrow_type, run_sql
from holdfast.judge.statement.expressions import Scope, Translator
from holdfast.judge.statement.statement import split
from holdfast.judge.values import Match, same
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Base, Column, SqlType
from holdfast.types.statements.topology import Format
from tests.unit.judge.statements import flight, recomputed

WIDE = SqlType(Base.DECIMAL, 38, 2)
SHORT = SqlType(Base.DECIMAL, 3, 1)
NAN, INF = math.nan, math.inf


def computed(call: str, kind: SqlType, *values: Any) -> Any:
    """An aggregate's result over the values of its column `x`."""
    select = split(f"CREATE TABLE t AS SELECT {call} AS v FROM s GROUP BY k;").select
    sql = Translator(Scope({"X": kind}, [0])).sql(select.expressions[0].this)
    table = pa.table({"X": pa.array(values, arrow_type(kind))})
    ((found,),) = run_sql(f"SELECT {sql} FROM input", {"input": table})
    return found


@pytest.mark.parametrize(
    ("kind", "values", "total"),
    [
        (INTEGER, (2**31 - 1, 1), -(2**31)),  # Java: int wraps
        (INTEGER, (-(2**31), -1), 2**31 - 1),
        (BIGINT, (2**63 - 1, 1), -(2**63)),  # Java: long wraps
        (BIGINT, (2**62, 2**62, 2**62, 2**62), 0),
        (DOUBLE, (INF, 1.0), INF),  # IEEE 754
        (DOUBLE, (), 0.0),  # the documentation: 0 of nothing but NULL
        (INTEGER, (None,), 0),
        (WIDE, (Decimal("6" + "0" * 35 + ".00"), Decimal("5" + "0" * 35 + ".00")), None),
        (SHORT, (Decimal("60.5"), Decimal("39.5")), None),
        (SHORT, (Decimal("60.5"), Decimal("39.5"), Decimal("-50.5")), Decimal("49.5")),
        (SHORT, (None,), Decimal("0.0")),
    ],
)
def test_a_sum_has_the_type_of_its_argument(
    kind: SqlType, values: tuple[Any, ...], total: Any
) -> None:
    assert computed("SUM(x)", kind, *values) == total


def test_a_sum_of_decimals_may_leave_its_digits_on_the_way() -> None:
    first, last = Decimal("6" + "0" * 35 + ".00"), Decimal("-5" + "0" * 35 + ".00")
    assert computed("SUM(x)", WIDE, first, first, last) == Decimal("7" + "0" * 35 + ".00")


def test_both_infinities_make_no_number() -> None:
    assert math.isnan(computed("SUM(x)", DOUBLE, INF, -INF))
    assert math.isnan(computed("AVG(x)", DOUBLE, NAN, 1.0))


def test_an_average_of_long_is_of_the_sum_that_wraps() -> None:
    assert computed("AVG(x)", BIGINT, 2**63 - 1, 1) == -(2**62)
    assert computed("AVG(x)", BIGINT, None) == 0
    assert computed("AVG(x)", INTEGER, 2**31 - 1, 1) == 2**30


@pytest.mark.parametrize(
    ("call", "values", "result"),
    [
        ("MAX(x)", (3.0, NAN, INF), NAN),  # Double.compare: NaN is above all
        ("MIN(x)", (NAN, 3.0), 3.0),
        ("MIN(x)", (NAN, None), NAN),
        ("COUNT_DISTINCT(x)", (NAN, NAN, 0.0, -0.0, 0.0, None), 3),  # Double.equals
        ("TOPK(x, 2)", (1.0, NAN, INF), [NAN, INF]),
        ("TOPKDISTINCT(x, 3)", (NAN, NAN, 1.0, None, 2.0, 2.0), [NAN, 2.0, 1.0]),
        ("TOPKDISTINCT(x, 3)", (None,), []),
    ],
)
def test_doubles_are_compared_as_java_compares_them(
    call: str, values: tuple[Any, ...], result: Any
) -> None:
    assert repr(computed(call, DOUBLE, *values)) == repr(result)


def test_a_set_has_one_nan_both_zeros_and_a_null() -> None:
    found = computed("COLLECT_SET(x)", DOUBLE, NAN, NAN, 0.0, -0.0, 0.0, None)
    assert same(found, ["NaN", 0.0, -0.0, None], Match.BAG)
    assert not same(found, ["NaN", 0.0, "NaN", None], Match.BAG)


def test_groups_are_what_their_bytes_are() -> None:
    values = (0.0, -0.0, "NaN", "NaN", 1.5)
    records = [flight("AA", delay=value) for value in values]
    select = "SELECT delay, COUNT(*) n FROM flights GROUP BY delay"
    found = recomputed(select, ["DELAY"], ["N"], records).rows
    assert {key: row["N"] for key, row in found.items()} == {
        (0.0,): 1, ("-0.0",): 1, ("NaN",): 2, (1.5,): 1,
    }  # fmt: skip
    sink = SinkDecoder([Column("DELAY", DOUBLE)], [], (Format.JSON, Format.JSON), windowed=False)
    texts = (b"0.0", b"-0.0", b'"NaN"', b"1.5")
    assert {sink.key(data) for data in texts} == set(found)


@pytest.mark.parametrize(
    ("call", "kind", "value", "found"),
    [
        ("MAX(x * 2)", INTEGER, 2**30, -(2**31)),  # Java: int wraps
        ("MAX(x + 2147483647)", INTEGER, 1, -(2**31)),
        ("MAX(x + 2147483648)", INTEGER, 1, 2**31 + 1),  # a literal that is a BIGINT
        ("MAX(x - 1)", BIGINT, -(2**63), 2**63 - 1),
        ("MAX(x * 3)", BIGINT, 2**62, -(2**62)),
        ("MAX(CAST(x AS BIGINT) * 2)", INTEGER, 2**30, 2**31),
        ("MAX(x / 2)", INTEGER, -7, -3),  # Java cuts towards zero
        ("MAX(x % 2)", INTEGER, -7, -1),
        ("MAX(x / 0)", INTEGER, 7, None),
        ("MAX(UCASE(x))", STRING, "straße ŉ", "STRASSE ʼN"),  # Java: String.toUpperCase
        ("MAX(LCASE(x))", STRING, "ΑΣ İ", "ας i̇"),
        ("MAX(UCASE(x))", STRING, "plain", "PLAIN"),
    ],
)
def test_an_argument_is_computed_as_java_does(
    call: str, kind: SqlType, value: Any, found: Any
) -> None:
    assert computed(call, kind, value) == found
    assert computed(call, kind, None) is None
