"""Statements over tables, table functions and sources with windows or headers."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.types.columns.schema import BIGINT, INTEGER, Column
from holdfast.types.statements.topology import (
    AggregateStep,
    ChangesStep,
    Emit,
    Format,
    ProjectStep,
    Query,
    TableStep,
    Topology,
    WindowKind,
)
from tests.support.values.expressions import source_column

SOURCES = """\
CREATE TABLE rooms (nr INT PRIMARY KEY, floor INT, beds INT)
  WITH (KAFKA_TOPIC='rooms', VALUE_FORMAT='JSON');
CREATE STREAM visits (nr INT KEY, names ARRAY<STRING>, tags MAP<STRING, INT>)
  WITH (KAFKA_TOPIC='visits', VALUE_FORMAT='JSON');
CREATE STREAM spans (nr INT KEY, v INT)
  WITH (KAFKA_TOPIC='spans', VALUE_FORMAT='JSON', WINDOW_TYPE='SESSION');
"""


def compiled(statements: str) -> Topology:
    return compile_text(SOURCES + statements)


def last(statements: str) -> Query:
    return compiled(statements).queries[-1]


def test_a_projection_of_a_table_keeps_no_state() -> None:
    query = last("CREATE TABLE o AS SELECT nr, beds + 1 AS more FROM rooms;")
    assert isinstance(query.step, ProjectStep)
    assert query.sink.kind == "TABLE"


def test_where_over_a_table_keeps_which_rows_passed() -> None:
    query = last("CREATE TABLE o AS SELECT nr AS room, beds FROM rooms WHERE floor = 2;")
    assert isinstance(query.step, TableStep)
    assert query.step.input.keys == (source_column(Column("NR", INTEGER), "ROOM"),)
    assert query.step.input.columns == (source_column(Column("BEDS", INTEGER)),)
    assert (query.filter, str(query.step.input.filter)) == (None, '("FLOOR" = 2)')


def test_an_aggregate_over_a_table_takes_the_old_row_back() -> None:
    changes, grouped = compiled(
        "CREATE TABLE o AS SELECT floor, SUM(beds) AS beds, COUNT(*) AS n FROM rooms "
        "WHERE beds > 0 GROUP BY floor HAVING COUNT(*) > 1;"
    ).queries
    assert isinstance(changes.step, ChangesStep)
    assert (changes.id, changes.sink.internal) == ("ctas_o_changes", True)
    assert [c.sql for c in changes.step.input.columns] == ['"FLOOR"', '"BEDS"']
    assert changes.step.groups == 1
    assert isinstance(grouped.step, AggregateStep)
    calls = (grouped.step.aggregates, grouped.step.undo)
    assert [[[a.ref for a in c.args] for c in each] for each in calls] == [
        [[], ["NEW_C0"]],
        [[], ["OLD_C0"]],
    ]
    assert grouped.step.keys[0] == source_column(Column("G0", INTEGER), "FLOOR")


def test_sessions_and_final_results() -> None:
    query = last(
        "CREATE TABLE o AS SELECT nr, COUNT(*) AS n FROM visits "
        "WINDOW SESSION (30 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY nr EMIT FINAL;"
    )
    assert isinstance(query.step, AggregateStep)
    assert query.step.window is not None
    assert query.step.window.kind is WindowKind.SESSION
    assert (query.step.window.size_ms, query.step.window.grace_ms) == (30_000, 5_000)
    assert query.step.emit is Emit.FINAL
    assert (query.sink.window, query.sink.window_size_ms) == (WindowKind.SESSION, 0)


def test_the_property_emit_says_when_changes_are_written() -> None:
    select = "CREATE TABLE o AS SELECT nr, COUNT(*) AS n FROM visits GROUP BY nr;"
    steps = [last(text + select).step for text in ("", "SET 'emit'='record';")]
    assert [s.emit for s in steps if isinstance(s, AggregateStep)] == [Emit.BATCH, Emit.RECORD]


def test_a_projection_of_a_windowed_stream_keeps_its_windows() -> None:
    query = last("CREATE STREAM o AS SELECT nr, v, WINDOWSTART AS since FROM spans;")
    assert isinstance(query.step, ProjectStep)
    assert [k.column.name for k in query.step.keys] == ["NR", "__window_start", "__window_end"]
    assert query.sink.key_columns == (Column("NR", INTEGER),)
    assert query.sink.window is WindowKind.SESSION
    assert query.step.outputs[-1] == source_column(Column("__window_start", BIGINT), "SINCE")


def test_table_functions_make_rows_out_of_arrays() -> None:
    query = last("CREATE STREAM o AS SELECT nr, UCASE(EXPLODE(names)) AS name FROM visits;")
    assert isinstance(query.step, ProjectStep)
    assert [(e.sql, e.column.name) for e in query.step.explode] == [('"NAMES"', "KSQL_SYNTH_0")]
    assert [o.sql for o in query.step.outputs] == ['hf_upper__ss("KSQL_SYNTH_0")']


def test_header_columns_read_the_headers() -> None:
    query = compile_text(
        "CREATE STREAM s (k INT KEY, h BYTES HEADER('trace'), v INT) "
        "WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON'); CREATE STREAM o AS SELECT k, h FROM s;"
    ).queries[0]
    assert isinstance(query.step, ProjectStep)
    assert query.step.outputs[0].sql == (
        'struct_extract(list_extract(list_filter("__headers", lambda __h: '
        "__h.\"KEY\" = 'trace'), -1), 'VALUE')"
    )


def test_formats_of_records() -> None:
    source, other = compile_text(
        "CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', "
        "WRAP_SINGLE_VALUE=false);"
        "CREATE STREAM d (k INT KEY, a INT, b INT) WITH (KAFKA_TOPIC='d', FORMAT='DELIMITED', "
        "VALUE_DELIMITER='TAB', KEY_DELIMITER=';');"
    ).sources
    assert (source.wrap_single, source.key_format) == (False, Format.KAFKA)
    assert (other.delimiter, other.key_delimiter) == ("\t", ";")


W = "CREATE TABLE o AS SELECT nr, COUNT(*) AS n FROM"
REFUSED = [
    ("CREATE TABLE o AS SELECT beds FROM rooms;", "must include the key column NR"),
    ("CREATE STREAM o AS SELECT nr, beds FROM rooms;", "Your SELECT query produces a TABLE"),
    ("CREATE TABLE o AS SELECT nr, beds FROM rooms PARTITION BY beds;", "PARTITION BY is not"),
    ("CREATE TABLE o AS SELECT floor, MAX(beds), MIN(beds) FROM rooms GROUP BY floor;",
     "aggregation functions MAX and MIN cannot be applied to a table source"),
    (f"{W} visits GROUP BY nr EMIT FINAL;", "only supported for windowed aggregations"),
    ("CREATE STREAM o AS SELECT nr, names FROM visits EMIT FINAL;", "only supported for windowed"),
    ("CREATE STREAM o AS SELECT nr, EXPLODE(tags) AS t FROM visits;",
     "Function 'explode' does not accept parameters (MAP<STRING, INTEGER>)"),
    ("CREATE TABLE o AS SELECT nr, COUNT(*), EXPLODE(names) FROM visits GROUP BY nr;",
     "Table functions cannot be used with aggregations."),
    (("CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', "
     "WINDOW_TYPE='SESSION'); CREATE TABLE o AS SELECT * FROM t;"),
     "does not support persistent queries on windowed tables"),
    (("CREATE STREAM t (k INT KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', "
     "WINDOW_TYPE='HOPPING');"), "'WINDOW_SIZE' should be set for HOPPING windows"),
    (("CREATE STREAM t (k INT KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', "
     "WINDOW_TYPE='TUMBLING', WINDOW_SIZE='3 parsecs');"), "Unknown time unit: 'PARSECS'"),
    (("CREATE STREAM t (v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', "
     "WINDOW_TYPE='SESSION');"), "Windowed sources require a key column."),
    (("CREATE STREAM t (v INT, w INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', "
     "WRAP_SINGLE_VALUE=true);"), "only valid for single-field value schemas"),
    ("CREATE STREAM t (v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', VALUE_DELIMITER=';');",
     "JSON does not support the following configs: [delimiter]"),
    (("CREATE STREAM t (v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='KAFKA'); "
     "CREATE TABLE o AS SELECT v, COUNT(*) AS n FROM t GROUP BY v;"),
     "This format does not yet support GROUP BY."),
    (("CREATE STREAM t (v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', "
     "HISTORY_RETENTION='1 DAY');"), "HISTORY_RETENTION makes a TABLE versioned"),
    ("CREATE STREAM t (v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', BROADCAST=TRUE);",
     "BROADCAST is of a TABLE that streams join"),
    (("CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', "
     "BROADCAST='small');"), "BROADCAST must be TRUE or FALSE, not small"),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "message"), REFUSED)
def test_what_is_refused(statements: str, message: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        compiled(statements)
    assert message in str(caught.value)
