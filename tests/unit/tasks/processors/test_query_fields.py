"""Every field of a query, and whether a change of it may keep the rows that are there.

A field that is new in one of the classes fails this test until it is listed here.  `REFUSED`: a
start refuses it.  `KEPT`: rows stay right; `tests/simulation/test_kept_rows.py` proves each by a
run.  `FOLLOWS`: it cannot change without another field that is listed.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum, StrEnum
from typing import Any

import pytest

from holdfast.errors import IncompatibleStatement
from holdfast.sql import compile_text
from holdfast.state.changelog import FORMAT_VERSION, CommitMarker
from holdfast.state.topics.source_progress import SourceProgress
from holdfast.tasks.compatibility import check_marker, check_progress
from holdfast.transport.partitioner import PARTITIONER
from holdfast.types.columns.schema import BIGINT, STRING, Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema, Schema, SchemaKind
from holdfast.types.ids import OffsetRange
from holdfast.types.statements.expressions import Expression
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.sources import HeaderColumn, TimestampSpec
from holdfast.types.statements.topology import Emit, JoinWindow, Query, Window, WindowKind
from tests.support.values.expressions import condition, made, named
from tests.unit.tasks.processors.kept_fields import KEPT_FIELDS


class May(StrEnum):
    """The consequence of a change."""

    REFUSED = "refused"
    KEPT = "kept"
    FOLLOWS = "follows"


REFUSED, KEPT, FOLLOWS = May.REFUSED, May.KEPT, May.FOLLOWS
_RELATION = {
    "name": FOLLOWS,  # of a sink the query's id; of a source its topic and columns
    "kind": REFUSED, "topic": REFUSED, "key_columns": REFUSED, "value_columns": REFUSED,
    "key_format": REFUSED, "value_format": REFUSED, "timestamp": REFUSED,
    "partitions": KEPT, "replicas": KEPT,  # of a topic that is yet to be made
    "window": REFUSED, "window_size_ms": REFUSED, "wrap_single": REFUSED, "delimiter": REFUSED,
    "key_delimiter": REFUSED, "nullable": REFUSED, "key_nullable": REFUSED,
    "history_ms": FOLLOWS, "broadcast": FOLLOWS,  # of a join that looks into it, in its step
    "key_schema": FOLLOWS, "value_schema": FOLLOWS,  # of the columns; each record tells its own
}  # fmt: skip
_INPUT = {"input": REFUSED}
FIELDS: dict[str, dict[str, May]] = {
    "Query": {
        "id": FOLLOWS,  # another query, with topics of its own
        "statement": KEPT, "source": REFUSED, "filter": REFUSED, "step": REFUSED,
        "sink": REFUSED, "properties": KEPT,
    },
    "AggregateStep": {
        "keys": REFUSED, "window": REFUSED, "aggregates": REFUSED, "outputs": REFUSED,
        "having": REFUSED, "emit": KEPT,  # but not to or from FINAL
        "undo": FOLLOWS,  # of `aggregates`
    },
    "ProjectStep": {"keys": REFUSED, "outputs": REFUSED, "explode": REFUSED},
    "JoinStep": {
        "form": REFUSED, "kind": REFUSED, "left": REFUSED, "right": REFUSED, "keys": REFUSED,
        "outputs": REFUSED, "window": REFUSED, "filter": REFUSED, "history_ms": REFUSED,
        "emit": KEPT, "broadcast": REFUSED, "copartitioned": KEPT,
    },
    "ChangesStep": _INPUT | {"groups": REFUSED},
    "TableStep": _INPUT,
    "SubscribeStep": _INPUT | {"kind": REFUSED},
    "ResolveStep": _INPUT | {"filtered": REFUSED},
    "DeduplicateStep": _INPUT | {"within_ms": REFUSED},
    "Input": {"source": REFUSED, "keys": REFUSED, "columns": REFUSED, "filter": REFUSED},
    "Window": {
        "kind": REFUSED, "size_ms": REFUSED, "advance_ms": REFUSED, "grace_ms": REFUSED,
        "retention_ms": KEPT,  # but not of EMIT FINAL
        "final_within_retention": FOLLOWS,  # of EMIT FINAL, which alone has it
    },
    "JoinWindow": {"before_ms": REFUSED, "after_ms": REFUSED, "grace_ms": REFUSED},
    "AggregateCall": {
        "name": FOLLOWS,  # its place among the aggregates
        "function": REFUSED, "args": REFUSED,
        "literals": REFUSED, "type": REFUSED,
    },
    "NamedExpression": {
        "name": FOLLOWS,  # the sink's column
        "expression": REFUSED,
    },
    "Expression": {
        "sql": REFUSED,  # the text of `canonical`, which is `released` where they differ
        "type": FOLLOWS,  # of `sql` and the source's columns
        "columns": FOLLOWS, "ref": FOLLOWS, "functions": FOLLOWS, "deterministic": FOLLOWS,
        "released": FOLLOWS,  # what `sql` was
        "digits": FOLLOWS,  # of `sql`; what is written is in the `sql` of the step's outputs
    },
    "Source": _RELATION | {"headers": REFUSED, "read_only": FOLLOWS},  # for those who write it
    "Sink": _RELATION | {
        "key_schema": REFUSED,  # the same key would have other bytes
        "always_keyed": REFUSED, "internal": FOLLOWS,  # a step, not the last
    },
    "DataSchema": {
        "subject": FOLLOWS, "schema": FOLLOWS,  # of the topic, and of columns and `full_name`
        "id": FOLLOWS, "fixed": FOLLOWS,  # the registry's unless fixed: a test below
        "full_name": REFUSED,
    },
    "Schema": dict.fromkeys(("kind", "text", "references"), FOLLOWS),
    "HeaderColumn": {"column": REFUSED, "key": REFUSED},
    "TimestampSpec": {"column": REFUSED, "format": REFUSED, "required": REFUSED},
    "Column": {"name": REFUSED, "type": REFUSED},
    "SqlType": dict.fromkeys(
        ("base", "precision", "scale", "element", "fields", "key"), REFUSED
    ),
}  # fmt: skip
SOURCES = """\
CREATE STREAM a (k STRING KEY, v BIGINT, d DECIMAL(6, 2), h BYTES HEADER('h'), ts BIGINT,
    l ARRAY<BIGINT>, m MAP<STRING, BIGINT>, r STRUCT<x BIGINT>)
  WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON', TIMESTAMP='ts');
CREATE STREAM b (k STRING KEY, w BIGINT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');
CREATE TABLE t (k STRING PRIMARY KEY, x BIGINT, f STRING)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE u (k STRING PRIMARY KEY, y BIGINT) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
"""
SAMPLES = [
    ("CREATE TABLE o AS SELECT k, COUNT(*) AS n, LATEST_BY_OFFSET(v, false) + 1 AS m FROM a "
    "WHERE v > 1 GROUP BY k HAVING COUNT(*) > 1;"),
    ("CREATE TABLE o AS SELECT k, COUNT(*) AS n, SUM(d) AS m FROM a "
    "WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 MINUTE) GROUP BY k;"),
    "CREATE TABLE o AS SELECT f, COUNT(*) AS n FROM t WHERE x > 1 GROUP BY f;",
    "CREATE TABLE o AS SELECT k, x FROM t WHERE x > 1;",
    "CREATE STREAM o AS SELECT k, v, EXPLODE(ARRAY[v, 1]) AS e FROM a WHERE v > 1;",
    "CREATE STREAM o WITH (DEDUPLICATE_WITHIN='1 HOUR') AS SELECT k, v FROM a WHERE v > 1;",
    ("CREATE STREAM o AS SELECT ROWKEY AS k, v, w FROM a FULL JOIN b "
    "WITHIN 1 HOUR GRACE PERIOD 1 MINUTE ON a.k = b.k WHERE v > 1;"),
    "CREATE STREAM o AS SELECT a.k, v, x FROM a LEFT JOIN t ON a.k = t.k;",
    "CREATE TABLE o AS SELECT t.k, x, y FROM t JOIN u ON t.k = u.k;",
    "CREATE TABLE o AS SELECT t.k, x, y FROM t JOIN u ON t.f = u.k WHERE y > 1;",
    ("CREATE TABLE o WITH (FORMAT='AVRO', KEY_SCHEMA_FULL_NAME='n') AS "
    "SELECT k, v, COUNT(*) AS n FROM a GROUP BY k, v;"),
]  # fmt: skip
NAMED = DataSchema("o-key", Schema(SchemaKind.AVRO, '"string"'), full_name="n")
NEW: dict[str, Any] = {  # in the place of None and of nothing
    "filter": condition("true"), "having": condition("true"), "history_ms": 1, "grace_ms": 1,
    "format": "yyyy",
    "timestamp": TimestampSpec("X"), "key": SqlType(Base.BIGINT), "element": STRING,
    "explode": (named("array(1)", Column("E", BIGINT)),), "literals": (1,),
    "args": (made("1", BIGINT),),
    "headers": (HeaderColumn(Column("G", STRING), "g"),), "fields": (Column("F", STRING),),
    "keys": (named("1", Column("E", BIGINT)),), "key_columns": (Column("E", BIGINT),),
    "window": WindowKind.SESSION, "key_schema": NAMED,
}  # fmt: skip
_STEP_WINDOWS = {"AggregateStep": Window(WindowKind.TUMBLING, 5, 5, 0, 5),
                 "JoinStep": JoinWindow(7, 7)}  # fmt: skip


def _classes(hint: Any, found: dict[str, type]) -> dict[str, type]:
    for part in typing.get_args(hint):
        _classes(part, found)
    if isinstance(hint, type) and is_dataclass(hint) and hint.__name__ not in found:
        found[hint.__name__] = hint
        for each in typing.get_type_hints(hint).values():
            _classes(each, found)
    return found


def test_every_field_is_listed() -> None:
    found = _classes(Query, {})
    assert set(found) == set(FIELDS)
    assert {n: {f.name for f in fields(c)} for n, c in found.items()} == {
        n: set(of) for n, of in FIELDS.items()
    }


def test_a_run_proves_each_that_is_kept() -> None:
    kept = {(n, f) for n, of in FIELDS.items() for f, may in of.items() if may is KEPT}
    assert kept == set(KEPT_FIELDS)


@dataclass(frozen=True)
class Mutant:
    """A value in which one field of one part is another."""

    of: str
    field: str
    value: Any


def _mutants(value: Any) -> Iterator[Mutant]:
    """Each field by itself; what is only a consequence of another field is left alone."""
    if isinstance(value, tuple):
        for at, part in enumerate(value):
            for inner in _mutants(part):
                yield replace(inner, value=(*value[:at], inner.value, *value[at + 1 :]))
    if not is_dataclass(value) or isinstance(value, type):
        return
    name = type(value).__name__
    for field in fields(value):
        own = getattr(value, field.name)
        may = FIELDS[name][field.name]
        twice = isinstance(value, Query) and value.inputs and field.name == "source"
        if may is not REFUSED or twice:  # a step with inputs has its source there
            continue
        if not is_dataclass(own):
            other = _replaced(value, field.name, _other(name, field.name, own))
            if not isinstance(value, SqlType) or str(other) != str(value):
                yield Mutant(name, field.name, other)
        for inner in _mutants(own):
            yield replace(inner, value=_replaced(value, field.name, inner.value))


def _replaced(value: Any, field: str, own: Any) -> Any:
    if (type(value), field) == (Expression, "sql"):
        return replace(value, sql=own, released="")
    return replace(value, **{field: own})


def _other(of: str, field: str, own: Any) -> Any:
    if field == "window" and of in _STEP_WINDOWS:
        return _STEP_WINDOWS[of]
    if isinstance(own, Enum):
        return next(m for m in type(own) if m is not own)
    if isinstance(own, bool | int):
        return not own if isinstance(own, bool) else own + 1
    if own:
        return f"{own}1" if isinstance(own, str) else own[:-1]
    return "g" if (of, field) == ("HeaderColumn", "key") else NEW[field]


def _refused(before: Query, after: Query) -> bool:
    try:
        if before.stateful:
            marker = CommitMarker(
                FORMAT_VERSION, "app", before.id, 0, 1, PARTITIONER, before.fingerprint(),
                before.canonical(), OffsetRange.of("a", {0: 0}, {0: 9}), 0, 0,
                facts=statement_facts(before),
            )  # fmt: skip
            check_marker(marker, after, 1, owner=f"app/{after.id}/0")
        else:
            facts = statement_facts(before)
            check_progress(SourceProgress(before.source.topic, 0, 9, facts=facts), after)
    except IncompatibleStatement:
        return True
    return False


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    return [q for sample in SAMPLES for q in compile_text(SOURCES + sample).queries]


def test_what_may_not_change_is_refused_wherever_it_stands(queries: list[Query]) -> None:
    tried: set[tuple[str, str]] = set()
    passed = []
    for query in queries:
        assert not _refused(query, query)
        for mutant in _mutants(query):
            tried.add((mutant.of, mutant.field))
            if not _refused(query, mutant.value):
                passed.append(f"{mutant.of}.{mutant.field} of {query.id}: {query.statement}")
    assert not passed, "\n".join(passed)
    wanted = {(n, f) for n, of in FIELDS.items() for f, may in of.items() if may is REFUSED}
    whole = {("Query", "source"), ("Query", "step"), ("Query", "sink"), ("Input", "source")}
    whole |= {("JoinStep", "left"), ("JoinStep", "right"), ("Column", "type")}
    whole |= {("AggregateCall", "type"), ("SqlType", "element"), ("HeaderColumn", "column"),
              ("NamedExpression", "expression")}  # fmt: skip
    whole |= {(n, "input") for n, of in FIELDS.items() if "input" in of}
    assert wanted - whole <= tried  # of `whole` ones every part is tried


def test_final_results_keep_their_times(queries: list[Query]) -> None:
    windowed = next(q for q in queries if q.sink.window is not None)
    step: Any = windowed.step
    final = replace(windowed, step=replace(step, emit=Emit.FINAL))
    longer = replace(step, emit=Emit.FINAL, window=replace(step.window, retention_ms=1 << 40))
    assert _refused(windowed, final)
    assert _refused(final, windowed)
    assert _refused(final, replace(final, step=longer))


def test_keys_keep_the_schema_that_the_statement_gives(queries: list[Query]) -> None:
    query = queries[0]

    def of_keys(schema: DataSchema) -> Query:
        return replace(query, sink=replace(query.sink, key_schema=schema))

    registered = replace(NAMED, full_name="")
    fixed = replace(registered, id=0, fixed=True)
    assert not _refused(of_keys(registered), of_keys(replace(registered, id=7)))
    assert _refused(of_keys(fixed), of_keys(replace(fixed, id=7)))
    assert _refused(of_keys(registered), of_keys(fixed))
