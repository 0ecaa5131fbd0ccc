"""Whatever the text is, it compiles or is refused with a place; nothing else is ever raised."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text, explain

SOURCE = "CREATE STREAM s (k STRING KEY, i INT, m MAP<STRING, INT>) WITH (KAFKA_TOPIC='t');\n"
TEXT = (
    "SELECT FROM WHERE GROUP BY HAVING WINDOW TUMBLING HOPPING SIZE ADVANCE GRACE PERIOD RETENTION "
    "1 HOUR EMIT CHANGES PARTITION AS CREATE STREAM TABLE WITH CASE WHEN THEN ELSE END CAST ARRAY "
    "MAP STRUCT NULL NOT IS IN LIKE BETWEEN AND OR DISTINCT k i m s x COUNT SUM UCASE DATEADD "
    "DAYS KEY PRIMARY INTERVAL DATE TIMESTAMP LEFT JOIN ON VALUES OVER FILTER ORDER LIMIT IF "
    "( ) [ ] , ; . * + - / % = <> < >= -> => := :: ? : @ # || 'a' '' 1.5 1e3 `q` \" ' /* -- {{ "
    "INNER FULL OUTER WITHIN SESSION FINAL ESCAPE AT ZONE TRANSFORM EXPLODE INSERT INTO DROP "
    "ALTER ADD COLUMN ASSERT TOPIC TYPE DEFINE ${v} SOURCE REPLACE HEADERS TERMINATE ALL 2nd"
)
WORDS = TEXT.split()
PIECES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


def compiled_or_refused(text: str) -> None:
    error = None
    try:
        assert explain(compile_text(text))
    except InvalidStatement as refused:
        error = refused
    if error is not None:
        assert 1 <= error.line <= text.count("\n") + 1
        assert error.column >= 1
        assert error.fact


@given(PIECES)
def test_any_words(pieces: str) -> None:
    compiled_or_refused(SOURCE + pieces)


@given(PIECES)
def test_any_expression_before_the_aggregation(pieces: str) -> None:
    compiled_or_refused(f"{SOURCE}CREATE STREAM o AS SELECT k, {pieces} AS x FROM s;")


@given(PIECES)
def test_any_expression_after_the_aggregation(pieces: str) -> None:
    text = f"CREATE TABLE o AS SELECT k, COUNT(*) AS n, {pieces} AS x FROM s GROUP BY k;"
    compiled_or_refused(SOURCE + text)


@given(PIECES)
def test_any_clause(pieces: str) -> None:
    compiled_or_refused(f"{SOURCE}CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s {pieces};")


@given(st.text(max_size=40))
def test_any_characters(text: str) -> None:
    compiled_or_refused(text)
    compiled_or_refused(f"{SOURCE}CREATE STREAM o AS SELECT k, {text} AS x FROM s;")
