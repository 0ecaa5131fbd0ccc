"""Types of expressions, what does not go together, and where the message points."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.sql.expressions.literals import event_time_ms
from holdfast.sql.functions.catalog import function_names, lookup_function
from holdfast.sql.functions.time import strftime_pattern
from holdfast.tasks.aggregates import registry
from holdfast.types.statements.topology import ProjectStep

S = (
    "CREATE STREAM s (i INT, b BIGINT, d DOUBLE, n DECIMAL(5, 2), v STRING, f BOOLEAN, dt DATE, "
    "ts TIMESTAMP, a ARRAY<INT>, m MAP<STRING, DOUBLE>, p STRUCT<x INT, `y` STRING>, "
    "q STRUCT<r STRUCT<z ARRAY<STRING>>>) WITH (KAFKA_TOPIC='t');\n"
)


def compiled(expression: str) -> tuple[str, str]:
    """Type of an expression, and its text for fingerprints, which is Spark SQL."""
    step = compile_text(f"{S}CREATE STREAM o AS SELECT {expression} AS c FROM s;").queries[0].step
    assert isinstance(step, ProjectStep)
    return str(step.outputs[0].column.type), step.outputs[0].expression.canonical


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1", "INTEGER"),
        ("2147483647", "INTEGER"),
        ("2147483648", "BIGINT"),
        ("-2147483648", "INTEGER"),
        ("1.50", "DECIMAL(3, 2)"),
        (".5", "DECIMAL(2, 1)"),
        ("0.05", "DECIMAL(3, 2)"),
        ("10.", "DECIMAL(2, 0)"),
        ("1e3", "DOUBLE"),
        ("'x'", "STRING"),
        ("TRUE", "BOOLEAN"),
        ("i + 1", "INTEGER"),
        ("i + b", "BIGINT"),
        ("i * d", "DOUBLE"),
        ("n + d", "DOUBLE"),
        ("n + 1", "DECIMAL(13, 2)"),
        ("n * n", "DECIMAL(11, 4)"),
        ("n / 2", "DECIMAL(16, 13)"),
        ("b / i", "BIGINT"),
        ("n % 2", "DECIMAL(5, 2)"),
        ("v + 'x'", "STRING"),
        ("a[1]", "INTEGER"),
        ("m['x']", "DOUBLE"),
        ("p->x", "INTEGER"),
        ("p->`y`", "STRING"),
        ("q->r->z[1]", "STRING"),
        ("CASE WHEN f THEN n ELSE NULL END", "DECIMAL(5, 2)"),
        ("MAP(i := v)[1]", "STRING"),
        ("ARRAY[a, ARRAY[b]]", "ARRAY<ARRAY<BIGINT>>"),
        ("ARRAY[STRUCT(x := 1), STRUCT(y := b)]", "ARRAY<STRUCT<Y BIGINT, X INTEGER>>"),
        ("COALESCE(i, b)", "BIGINT"),
        ("COALESCE(NULL, d)", "DOUBLE"),
        ("GREATEST(i, d)", "DOUBLE"),
        ("ARRAY[1, 2.5, NULL]", "ARRAY<DECIMAL(11, 1)>"),
        ("MAP('a' := 1, 'b' := b)", "MAP<STRING, BIGINT>"),
        ("STRUCT(x := 1, `y` := v)", "STRUCT<X INTEGER, y STRING>"),
        ("CAST(NULL AS BIGINT)", "BIGINT"),
        ("ROUND(n)", "DECIMAL(3, 0)"),
        ("ROUND(n, 1)", "DECIMAL(5, 2)"),
        ("ROUND(d)", "BIGINT"),
        ("ENTRIES(m, false)", "ARRAY<STRUCT<K STRING, V DOUBLE>>"),
        ("SPLIT(v, ',')", "ARRAY<STRING>"),
        ("IF(f, 1, 2.5)", "DECIMAL(11, 1)"),
        ("ABS(i)", "INTEGER"),
        ("ABS(n)", "DECIMAL(5, 2)"),
        ("ROWTIME", "BIGINT"),
    ],
)
def test_types(expression: str, expected: str) -> None:
    assert compiled(expression)[0] == expected


@pytest.mark.parametrize(
    ("expression", "spark"),
    [
        ("S.I", "`I`"),
        ("((i))", "`I`"),
        ("i / 2", "CAST((`I` div 2) AS INT)"),
        ("b / 2", "(`B` div CAST(2 AS BIGINT))"),
        ("d / 2", "(`D` / CAST(2 AS DOUBLE))"),
        ("v || v", "(`V` || `V`)"),
        ("i = 1", "coalesce((`I` = 1), false)"),
        ("NOT i = 1 AND f", "((NOT coalesce((`I` = 1), false)) AND `F`)"),
        ("CASE WHEN i = 1 THEN 'x' END", "CASE WHEN (`I` = 1) THEN 'x' END"),
        ("v LIKE 'a!%' ESCAPE '!'", "coalesce((`V` LIKE 'a!%' ESCAPE '!'), false)"),
        ("i IN (1, 2)", "coalesce((`I` IN (1, 2)), false)"),
        ("'it''s'", "'it\\'s'"),
        ("'a\\n'", "'a\\\\n'"),
        ("m['k']", "try_element_at(`M`, 'k')"),
        ("a[-1]", "try_element_at(`A`, (-1))"),
        ("DATEADD(DAY, 5, dt)", "CAST(timestampadd(DAY, +5, CAST(`DT` AS TIMESTAMP)) AS DATE)"),
        ("-(-i)", "(- (- `I`))"),
        ("p->x", "`P`.`X`"),
    ],
)
def test_spark_text_is_what_the_fingerprint_holds(expression: str, spark: str) -> None:
    assert compiled(expression)[1] == spark


WHERE = len("CREATE STREAM o AS SELECT ") + 1
INVALID = [
    ("v + 1", "v + 1. Unsupported arithmetic types. STRING INTEGER", 0),
    ("f * 2", "Unsupported arithmetic types. BOOLEAN INTEGER", 0),
    ("NULL + NULL", "Unsupported arithmetic types. NULL NULL", 0),
    ("-v", "Unsupported arithmetic types. STRING", 0),
    ("v = 1", "Cannot compare v (STRING) to 1 (INTEGER) with EQUAL.", 0),
    ("v = NULL", "Comparison with NULL not supported: STRING = NULL", 0),
    ("a = p", "Cannot compare a (ARRAY<INTEGER>) to p (STRUCT<`X` INTEGER, `y` STRING>)", 0),
    ("f > TRUE", "to TRUE (BOOLEAN) with GREATER_THAN", 0),
    ("m < m", "Cannot compare m (MAP<STRING, DOUBLE>)", 0),
    ("i IN (1, v)", "operator does not exist: INTEGER = STRING (v)", 9),
    ("i IN (1, 'one')", 'invalid input syntax for type INTEGER: "one"', 9),
    ("f IN ('maybe')", 'invalid input syntax for type BOOLEAN: "maybe"', 6),
    ("a IN (ARRAY[f])", "operator does not exist: INTEGER = BOOLEAN (f)", 12),
    ("v AND f", "should evaluate to boolean but is v (STRING) instead", 0),
    ("CASE WHEN i THEN 1 END", "should evaluate to boolean but is i (INTEGER) instead", 10),
    ("CASE WHEN f THEN 1 ELSE 'x' END", "should be the same: 'x' is STRING", 24),
    (
        "COALESCE(v, 1)",
        (
            "Function 'COALESCE' does not accept parameters (STRING, INTEGER). Valid alternatives "
            "are: COALESCE(T...)"
        ),
        0,
    ),
    (
        "UCASE(i)",
        (
            "Function 'ucase' does not accept parameters (INTEGER). Valid alternatives are: "
            "UCASE(STRING)"
        ),
        0,
    ),
    ("UCASE()", "Function 'ucase' does not accept parameters ()", 0),
    (
        "UCASES(v)",
        "did you mean UCASE?\n`holdfast functions` lists them; a function of yours is read with",
        0,
    ),
    ("SUMM(i)", "did you mean SUM?", 0),
    ("COALESCE(NULL)", "the type of COALESCE over NULL is not known", 0),
    ("DATEADD(DAYZ, 1, dt)", "column 'DAYZ' cannot be resolved", 8),
    ("CAST(f AS INT)", "Cast of BOOLEAN to INTEGER is not supported", 0),
    ("a['x']", "an ARRAY takes a whole number", 0),
    ("i[1]", "Subscript expression (i[1]) do not apply to INTEGER", 0),
    ("v->x", "-> needs a STRUCT, but this is STRING", 0),
    ("p->y", "did you mean `y`?", 3),
    ("p->xx", "unknown field XX\nWhat to do: did you mean X?", 3),
    ("v LIKE 1", "LIKE compares STRING, not INTEGER", 0),
    ("v LIKE 'x' ESCAPE 'ab'", "Expected single character escape", 18),
    ("f IS TRUE", "IS is followed by [NOT] NULL", 5),
    ("ROWTIME > 'soon'", "Failed to parse timestamp 'soon'", 10),
    ("MAP('a', 1)", "MAP is written MAP(key := value, ...)", 7),
    ("MAP()", "Map constructor cannot be empty", 0),
    ("MAP(NULL := 1)", "Cannot construct a map with all NULL keys", 0),
    ("STRUCT(x := 1, X := 2)", "Duplicate field names found in STRUCT: X, X", 0),
    ("ARRAY[]", "Array constructor cannot be empty", 0),
    ("ARRAY[NULL]", "Cannot construct an array with all NULL elements", 0),
    ("99999999999999999999", "Invalid numeric literal", 0),
    ("flights.i", "'FLIGHTS' is not a valid stream/table name", 0),
    ("dd", "'DD' cannot be resolved", 0),
]


@pytest.mark.parametrize(("expression", "message", "offset"), INVALID)
def test_invalid_expressions(expression: str, message: str, offset: int) -> None:
    with pytest.raises(InvalidStatement) as caught:
        compiled(expression)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (2, WHERE + offset), str(caught.value)


def test_scalar_and_aggregate_names_do_not_collide() -> None:
    assert not set(function_names()) & set(registry.names())


@pytest.mark.parametrize("name", function_names())
def test_every_signature_is_well_formed(name: str) -> None:
    for overload in lookup_function(name):
        assert overload.signature.startswith(f"{name}(")
        assert overload.spark is not None
        known = {"T", "U", "N", "ANY", "UNIT"}
        letters = {p.word for p in overload.params if len(p.word) == 1 or p.word in known}
        assert letters <= known
        if overload.returns.word in ("T", "U", "N"):
            assert any(overload.returns.word in str(p) for p in overload.params)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970", 0),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T00:00:00.250", 250),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T01:00+0100", 0),
        ("1970-01-02T", 86_400_000),
        ("1970-01-01T24", 86_400_000),  # Java takes the end of a day for the next one's beginning
        ("1970-01-01T24:00:00.000+01:00", 82_800_000),
        ("9999-12-31T24", 253_402_300_800_000),
        ("1970-01-01T24:00:01", None),
        ("1970-01-01T25", None),
        ("1970-01T01", None),
        ("yesterday", None),
        ("1970-13-01", None),
    ],
)
def test_event_times(text: str, expected: int | None) -> None:
    assert event_time_ms(text) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", "%Y-%m-%dT%H:%M:%S.%g"),
        ("h 'o''clock' a", "%-I o'clock %p"),
        ("EEEE, d MMMM", "%A, %-d %B"),
        ("100%", "100%%"),
        ("yyyy-MM-ddXXX", None),
        ("'open", None),
    ],
)
def test_java_patterns_become_strftimes(pattern: str, expected: str | None) -> None:
    assert strftime_pattern(pattern) == expected
