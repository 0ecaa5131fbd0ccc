"""CREATE STREAM and CREATE TABLE: names, types, keys, WITH."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidStatement, Unsupported
from holdfast.sql import compile_text
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Base, Column, SqlType
from holdfast.types.statements.sources import Nullable
from holdfast.types.statements.topology import Format, Source, TimestampSpec


def declared(text: str) -> Source:
    return compile_text(text).sources[0]


def test_unquoted_names_are_upper_case_and_backquotes_keep_case() -> None:
    source = declared("CREATE STREAM myStream (a INT, `bC` INT, \"d\" INT) WITH (KAFKA_TOPIC='t');")
    assert source.name == "MYSTREAM"
    assert [c.name for c in source.columns] == ["A", "bC", "d"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INT", INTEGER),
        ("integer", INTEGER),
        ("BIGINT", BIGINT),
        ("DOUBLE", DOUBLE),
        ("VARCHAR", STRING),
        ("VARCHAR(20)", STRING),
        ("STRING", STRING),
        ("BOOLEAN", SqlType(Base.BOOLEAN)),
        ("BYTES", SqlType(Base.BYTES)),
        ("DATE", SqlType(Base.DATE)),
        ("TIME", SqlType(Base.TIME)),
        ("TIMESTAMP", SqlType(Base.TIMESTAMP)),
        ("DECIMAL(10, 2)", SqlType(Base.DECIMAL, 10, 2)),
        ("ARRAY<ARRAY<INT>>", SqlType(Base.ARRAY, element=SqlType(Base.ARRAY, element=INTEGER))),
        ("MAP<VARCHAR, BIGINT>", SqlType(Base.MAP, element=BIGINT)),
        ("INT ARRAY", SqlType(Base.ARRAY, element=INTEGER)),
        (
            "STRUCT<a INT, `b` STRUCT<c STRING>>",
            SqlType(
                Base.STRUCT,
                fields=(
                    Column("A", INTEGER),
                    Column("b", SqlType(Base.STRUCT, fields=(Column("C", STRING),))),
                ),
            ),
        ),
    ],
)
def test_types(text: str, expected: SqlType) -> None:
    assert (
        declared(f"CREATE STREAM s (x {text}) WITH (KAFKA_TOPIC='t');").columns[0].type == expected
    )


def test_everything_a_source_can_say() -> None:
    source = declared(
        "CREATE STREAM s (id STRING KEY, ts STRING, v INT) WITH (kafka_topic='t-1', "
        "KEY_FORMAT='json', VALUE_FORMAT='DELIMITED', PARTITIONS=4, 'REPLICAS'='1', "
        "TIMESTAMP='ts', TIMESTAMP_FORMAT='yyyy-MM-dd');"
    )
    assert source == Source(
        name="S",
        kind="STREAM",
        topic="t-1",
        key_columns=(Column("ID", STRING),),
        value_columns=(Column("TS", STRING), Column("V", INTEGER)),
        key_format=Format.JSON,
        value_format=Format.DELIMITED,
        timestamp=TimestampSpec("TS", "yyyy-MM-dd"),
        partitions=4,
        replicas=1,
    )


def test_formats_default_to_kafka_keys_and_json_values() -> None:
    source = declared("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t');")
    assert (source.kind, source.key_format, source.value_format) == (
        "TABLE",
        Format.KAFKA,
        Format.JSON,
    )


def test_format_sets_both() -> None:
    source = declared("CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON');")
    assert (source.key_format, source.value_format) == (Format.JSON, Format.JSON)


def test_quoted_timestamp_column_keeps_its_case() -> None:
    source = declared("CREATE STREAM s (`ts` BIGINT) WITH (KAFKA_TOPIC='t', TIMESTAMP='`ts`');")
    assert source.timestamp == TimestampSpec("ts")


def test_times_may_be_required() -> None:
    source = declared(
        "SET 'ksql.timestamp.throw.on.invalid'='true';"
        "CREATE STREAM s (ts BIGINT) WITH (KAFKA_TOPIC='t', TIMESTAMP='ts');"
    )
    assert source.timestamp == TimestampSpec("TS", required=True)


def test_if_not_exists_keeps_the_first() -> None:
    topology = compile_text(
        "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='one');"
        "CREATE STREAM IF NOT EXISTS s (b INT) WITH (KAFKA_TOPIC='two');"
    )
    assert [s.topic for s in topology.sources] == ["one"]


def test_or_replace_and_source_streams_are_accepted() -> None:
    assert declared("CREATE OR REPLACE STREAM s (a INT) WITH (KAFKA_TOPIC='t');").name == "S"
    assert declared("CREATE SOURCE STREAM s (a INT) WITH (KAFKA_TOPIC='t');").name == "S"


def test_set_properties_the_last_value_wins_and_unset_takes_back() -> None:
    topology = compile_text("SET 'a'='1'; SET 'b'='2'; set 'a' = '3'; SET 'c'='4'; UNSET 'c';")
    assert topology.properties == (("a", "3"), ("b", "2"))


def test_comments_are_skipped() -> None:
    text = "-- one\n/* two\n */ CREATE STREAM s (a INT /* here */) WITH (KAFKA_TOPIC='--t') -- end"
    with pytest.raises(InvalidStatement, match="line 3, column 46: 'a b' cannot be the name"):
        compile_text(text.replace("--t", "a b"))
    assert declared(text).topic == "--t"


INVALID = [
    ("(a INT)", "", "needs the property KAFKA_TOPIC", 1, 15),
    ("(a INT, A STRING)", "KAFKA_TOPIC='t'", "A is declared twice", 1, 25),
    ("(a INT PRIMARY KEY)", "KAFKA_TOPIC='t'", "please use 'KEY' for streams", 1, 18),
    ("(a INTT)", "KAFKA_TOPIC='t'", "unknown type INTT: did you mean INT?", 1, 20),
    ("(a FLOAT)", "KAFKA_TOPIC='t'", "did you mean DOUBLE?", 1, 20),
    ("(a DECIMAL(40, 2))", "KAFKA_TOPIC='t'", "precision of 1 to 38", 1, 20),
    ("(rowtime BIGINT)", "KAFKA_TOPIC='t'", "'ROWTIME' is a reserved column name", 1, 18),
    ("(`__partition` INT)", "KAFKA_TOPIC='t'", "start with __ are reserved", 1, 18),
    ("(a MAP<STRING, INT> KEY)", "KAFKA_TOPIC='t'", "Map keys, including types", 1, 18),
    ("(a INT)", "KAFKA_TOPICS='t'", "unknown property KAFKA_TOPICS", 1, 31),
    ("(a INT)", "KAFKA_TOPIC='t', KAFKA_TOPIC='u'", "KAFKA_TOPIC appears twice", 1, 48),
    ("(a INT)", "KAFKA_TOPIC='a b'", "'a b' cannot be the name of a Kafka topic", 1, 31),
    ("(a INT)", "KAFKA_TOPIC='t', PARTITIONS=0", "whole number of at least 1, not 0", 1, 48),
    ("(a INT)", "KAFKA_TOPIC='t', VALUE_FORMAT='JSN'", "Unknown format: JSN", 1, 48),
    ("(a INT)", "KAFKA_TOPIC='t', VALUE_FORMAT='NONE'",
     "The 'NONE' format can only be used", 1, 15),
    ("(a INT)", "KAFKA_TOPIC='t', FORMAT='JSON', KEY_FORMAT='JSON'",
     "Cannot supply both 'KEY_FORMAT' and", 1, 63),
    ("(a INT)", "KAFKA_TOPIC='t', TIMESTAMP='b'", "does not exist in the schema: 'B'", 1, 48),
    ("(a INT)", "KAFKA_TOPIC='t', TIMESTAMP='a'", "should be LONG(INT64), TIMESTAMP", 1, 48),
    ("(a STRING)", "KAFKA_TOPIC='t', TIMESTAMP='a'", "without also specifying the", 1, 51),
    ("(a INT)", "KAFKA_TOPIC='t', TIMESTAMP_FORMAT='y'", "needs TIMESTAMP beside it", 1, 48),
    ("(a INT KEY, b INT KEY, c INT)", "KAFKA_TOPIC='t'",
     "'KAFKA' format only supports a single field", 1, 15),
    ("(a ARRAY<INT>)", "KAFKA_TOPIC='t', VALUE_FORMAT='DELIMITED'",
     "does not support type 'ARRAY', column: `A`", 1, 15),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "options", "message", "line", "column"), INVALID)
def test_invalid_sources(columns: str, options: str, message: str, line: int, column: int) -> None:
    with_clause = f" WITH ({options})" if options else ""
    with pytest.raises(InvalidStatement) as caught:
        compile_text(f"CREATE STREAM {columns.join(['s ', ''])}{with_clause};")
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_options_that_come_later() -> None:
    with pytest.raises(Unsupported, match="RETENTION_MS is not supported here yet"):
        compile_text("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='t', RETENTION_MS=1);")


def test_quotes_in_names_are_refused() -> None:
    with pytest.raises(Unsupported, match="is not supported"):
        compile_text("CREATE STREAM s (`a\"b` INT) WITH (KAFKA_TOPIC='t');")


def test_a_table_needs_a_primary_key() -> None:
    with pytest.raises(InvalidStatement, match="Tables require a PRIMARY KEY"):
        compile_text("CREATE TABLE t (a INT) WITH (KAFKA_TOPIC='t');")


def test_duplicate_names_say_where_the_first_is() -> None:
    text = (
        "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='t');\n"
        "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='t');"
    )
    with pytest.raises(
        InvalidStatement, match=r"(?s)line 2, column 15: .*the stream S exists already, from line 1"
    ):
        compile_text(text)


def test_a_statement_without_value_format_takes_the_default_that_is_set() -> None:
    statement = "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='t');"
    default = "SET 'ksql.persistence.default.format.value' = '{}';"
    for name in Format:
        if name is not Format.NONE:
            text = default.format(name.lower()) + statement
            assert compile_text(text).sources[0].value_format is name
    assert compile_text(statement).sources[0].value_format is Format.JSON
    with pytest.raises(InvalidStatement, match="missing the 'VALUE_FORMAT' property") as refused:
        compile_text(default.format("required") + statement)
    assert "'ksql.persistence.default.format.value'" in refused.value.fact
    given = statement.replace("'t'", "'t', VALUE_FORMAT='JSON'")
    assert compile_text(default.format("required") + given).sources[0].value_format is Format.JSON
    off = "UNSET 'ksql.persistence.default.format.value';"
    unset = compile_text(default.format("required") + off + statement)
    assert unset.sources[0].value_format is Format.JSON


def test_ksqldbs_answers_want_a_value_format_or_a_default_for_it() -> None:
    statement = "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='t');"
    theirs = "SET 'ksqldb.differences' = 'NONE';"
    with pytest.raises(InvalidStatement, match="missing the 'VALUE_FORMAT' property") as refused:
        compile_text(theirs + statement)
    assert "ksqldb.differences" in refused.value.cause
    default = "SET 'ksql.persistence.default.format.value' = 'avro';"
    assert compile_text(theirs + default + statement).sources[0].value_format is Format.AVRO
    for back in ("SET 'ksqldb.differences' = 'kept';", "UNSET 'ksqldb.differences';"):
        assert compile_text(theirs + back + statement).sources[0].value_format is Format.JSON


@pytest.mark.parametrize("form", [Format.PROTOBUF, Format.PROTOBUF_NOSR, Format.JSON])
def test_ksqldbs_answers_are_in_how_a_source_is_read_where_they_matter(form: Format) -> None:
    text = f"CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='{form}'{{}});"
    theirs = "SET 'ksqldb.differences' = 'none';"
    ours, read = (compile_text(each + text.format("")).sources[0] for each in ("", theirs))
    assert ours.nullable is Nullable.NONE
    assert (ours == read) is (form is Format.JSON)
    if form is not Format.JSON:
        optional = text.format(", VALUE_PROTOBUF_NULLABLE_REPRESENTATION='OPTIONAL'")
        assert compile_text(theirs + optional).sources[0].nullable is Nullable.OPTIONAL
