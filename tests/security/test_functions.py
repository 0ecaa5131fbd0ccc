"""No function makes a value that takes the memory of its process."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast.sql import compile_text
from holdfast.tasks.functions.base import _row
from holdfast.tasks.functions.limits import ITEMS_MAX, VALUE_MAX, noted
from holdfast.tasks.functions.registry import FUNCTIONS
from holdfast.types.statements.expressions import Expression
from holdfast.types.statements.topology import ProjectStep
from tests.support.limited import limited

_MIB = 1 << 20
_SOURCE = "CREATE STREAM s (t STRING, n INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');\n"
# A record has a megabyte; these would make a thousand times as much of it, and more.
_CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("REPLACE", ("a" * _MIB, "a", "a" * _MIB)),
    ("REPLACE", ("a" * _MIB, "", "a" * _MIB)),
    ("REGEXP_REPLACE", ("a" * _MIB, "a", "b" * _MIB)),
    ("REGEXP_REPLACE", ("a" * 100_000, "(a+)", "$1" * 1_000)),
    ("BYTES_LPAD", (b"a", 2_000_000_000, b"b")),
    ("BYTES_RPAD", (b"a", 2_000_000_000, b"b")),
    ("ARRAY_JOIN", (["a"] * _MIB, "b" * _MIB)),
    ("CUBE", ([1] * 20,)),
    ("SPLIT", ("a" * 2 * _MIB, "")),
    ("BYTES_SPLIT", (b"a" * 2 * _MIB, b"")),
    ("TOO_LARGE", ("REDUCE", 1 << 40, 1 << 20)),
]


@pytest.mark.parametrize("index", range(len(_CALLS)))
def test_a_call_that_would_make_too_much_is_null_and_noted(index: int) -> None:
    name, args = _CALLS[index]
    noted()
    assert _row(FUNCTIONS[name], (), args) is None
    told = noted()
    assert told is not None
    assert (args[0] if name == "TOO_LARGE" else name) in told
    assert noted() is None


def test_they_take_no_memory() -> None:
    """The calls' results would not fit into the memory that this process may have."""
    printed = limited(
        """
        from holdfast.tasks.functions.base import _row
        from holdfast.tasks.functions.registry import FUNCTIONS
        from tests.security.test_functions import _CALLS
        for name, args in _CALLS:
            assert _row(FUNCTIONS[name], (), args) is None
        print("done")
        """,
        memory=1_400 * _MIB,
    )
    assert printed == "done"


@pytest.mark.parametrize(
    ("name", "args", "made"),
    [
        ("REPLACE", ("aa", "a", "bb"), "bbbb"),
        ("REPLACE", ("ab", "", "-"), "-a-b-"),
        ("REPLACE", ("a" * VALUE_MAX, "a", "b"), "b" * VALUE_MAX),
        ("SPLIT", ("a" * ITEMS_MAX, ""), ["a"] * ITEMS_MAX),
        ("BYTES_LPAD", (b"", VALUE_MAX, b"x"), b"x" * VALUE_MAX),
        ("ARRAY_JOIN", (["a", None], ","), "a,null"),
    ],
)
def test_what_is_just_small_enough_is_made(name: str, args: tuple[Any, ...], made: Any) -> None:
    assert _row(FUNCTIONS[name], (), args) == made


@pytest.mark.parametrize(
    ("expression", "native"),
    [
        ("REPLACE(t, 'ab', 'c')", True),
        ("REPLACE(t, 'a', 'bc')", False),
        ("REPLACE(t, 'a', t)", False),
        ("SPLIT(t, ',')", True),
        ("ARRAY_JOIN(SPLIT(t, ','), '; ')", False),
        ("ARRAY_JOIN(SPLIT(t, ','), t)", False),
    ],
)
def test_duckdb_s_own_functions_are_called_where_they_cannot_make_more(
    expression: str, native: bool
) -> None:
    text = f"{_SOURCE}CREATE STREAM o AS SELECT {expression} AS c FROM s;"
    step = compile_text(text).queries[0].step
    assert isinstance(step, ProjectStep)
    assert ("hf_" not in step.outputs[0].sql) is native


_GROWING = [
    "REDUCE(GENERATE_SERIES(1, 60), t, (s, x) => s + s)",
    "REDUCE(GENERATE_SERIES(1, 60), ARRAY[t], (s, x) => ARRAY_CONCAT(s, s))",
    "REDUCE(GENERATE_SERIES(1, 60), ARRAY[t], (s, x) => TRANSFORM(s, y => y + y))",
    "REDUCE(GENERATE_SERIES(1, 60), STRUCT(a := t), (s, x) => STRUCT(a := s->a + s->a))",
    "REDUCE(GENERATE_SERIES(1, 60), TO_BYTES(t, 'utf8'), (s, x) => CONCAT(s, s))",
    "GENERATE_SERIES(1, 20000000)",
    "LPAD(t, 2000000, 'x')",
    "TRANSFORM(GENERATE_SERIES(1, 1000000), x => LPAD(t, 100000, 'b'))",
    "TRANSFORM(GENERATE_SERIES(1, 1000000), x => LPAD('a', 100000, 'b'))",
    "TRANSFORM(GENERATE_SERIES(1, 1000), x => GENERATE_SERIES(1, 1000000))",
    "TRANSFORM(GENERATE_SERIES(1, 1000), x => STRUCT(a := LPAD(t, 1000000, 'b')))",
    "TRANSFORM(GENERATE_SERIES(1, 1000), x => TO_BYTES(LPAD(t, 1000000, 'b'), 'utf8'))",
]
# Of a column of a megabyte.
_REPEATING = [
    "TRANSFORM(GENERATE_SERIES(1, 1000000), x => t)",
    "TRANSFORM(GENERATE_SERIES(1, 1000), x => TRANSFORM(GENERATE_SERIES(1, 1000), y => t))",
    "TRANSFORM(AS_MAP(SPLIT('abcdefghijklmnopq', ''), SPLIT(t, '')), (k, v) => k, (k, v) => t)",
]


def test_what_grows_in_duckdb_is_null_in_a_job() -> None:
    made = limited(
        f"""
        import pyarrow as pa
        from holdfast.tasks.evaluate.outputs import evaluate
        from tests.security.test_functions import duckdb_of
        rows = {{"T": pa.array(["abc"])}}
        for expression in {_GROWING!r}:
            made = evaluate(duckdb_of(expression), rows).to_pylist()
            assert made in ([None], [b""]), expression
        print("done")
        """
    )
    assert made == "done"


def test_a_large_column_is_not_repeated_in_a_job() -> None:
    made = limited(
        f"""
        import pyarrow as pa
        from holdfast.tasks.functions.limits import noted
        from holdfast.tasks.evaluate.outputs import evaluate
        from tests.security.test_functions import duckdb_of
        rows = {{"T": pa.array(["a" * {_MIB}])}}
        for expression in {_REPEATING!r}:
            assert evaluate(duckdb_of(expression), rows).to_pylist() == [None], expression
            assert "TRANSFORM makes" in noted()
        print("done")
        """
    )
    assert made == "done"


@pytest.mark.parametrize("expression", _REPEATING)
def test_spark_is_given_the_limit_of_transform_as_well(expression: str) -> None:
    text = f"{_SOURCE}CREATE STREAM o AS SELECT {expression} AS c FROM s;"
    step = compile_text(text).queries[0].step
    assert isinstance(step, ProjectStep)
    assert "hf_too_large__" in step.outputs[0].sql


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        ("TRANSFORM(GENERATE_SERIES(1, 3), x => CONCAT(t, CAST(x AS STRING)))", ["b1", "b2", "b3"]),
        ("TRANSFORM(ARRAY[t, NULL], x => UCASE(x))", ["B", None]),
        ("TRANSFORM(SPLIT('', t), x => UCASE(x))", [""]),
        ("TRANSFORM(SLICE(ARRAY[t], 1, 0), x => UCASE(x))", []),
        ("TRANSFORM(CAST(NULL AS ARRAY<STRING>), x => UCASE(x))", None),
        ("TRANSFORM(AS_MAP(ARRAY[t], ARRAY[1]), (k, v) => UCASE(k), (k, v) => k)", [("B", "b")]),
        ("TRANSFORM(ARRAY[ARRAY[t]], x => TRANSFORM(x, y => y + t))", [["bb"]]),
        ("LEN(TRANSFORM(GENERATE_SERIES(1, 16), x => LPAD(t, 1000000, t))[16])", 1_000_000),
        ("LEN(TRANSFORM(GENERATE_SERIES(1, 17), x => LPAD(t, 1000000, t))[16])", None),
    ],
)
def test_what_is_small_enough_is_transformed(expression: str, made: Any) -> None:
    from holdfast.tasks.evaluate.outputs import evaluate

    column = pa.array(["b"])
    assert evaluate(duckdb_of(expression), {"T": column}).to_pylist() == [made]


def duckdb_of(expression: str) -> Expression:
    """An expression over the column T, as DuckDB evaluates it."""
    from holdfast.sql.read.plan import parse_read, plan_read
    from holdfast.types.columns.schema import STRING, Column
    from holdfast.types.statements.sources import Source

    source = Source("S", "STREAM", "s", (), (Column("T", STRING),))
    read = plan_read(*parse_read(f"SELECT {expression} AS c FROM s EMIT CHANGES"), source)
    return read.outputs[0].expression


def test_a_literal_that_looks_like_a_call_is_a_literal() -> None:
    from holdfast.tasks.evaluate.outputs import evaluate_text
    from holdfast.types.columns.schema import STRING

    frame = {"T": pa.array(["abc"])}
    assert evaluate_text("'hf_nosuch__ss('", STRING, frame).to_pylist() == ["hf_nosuch__ss("]
