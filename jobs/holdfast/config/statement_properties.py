"""Properties of statements: the planner reads them from SET, for the statements that follow.

`Settings` has none of them.  Names and meanings are ksqlDB's.
"""

from __future__ import annotations

import re

from holdfast.config import values
from holdfast.config.property import Property
from holdfast.types.statements.differences import DIFFERENCES

__all__ = ["LIMIT", "STATEMENT_PROPERTIES"]

# Of COLLECT_LIST and COLLECT_SET; its values are checked where the aggregate is.
LIMIT = re.compile(r"ksql\.functions\.[a-z0-9_]+\.limit")
_FORMATS = (
    "json", "delimited", "kafka", "none", "avro", "json_sr", "protobuf", "protobuf_nosr",
)  # fmt: skip


def _of_set(name: str, kind: values.Kind, doc: str, default: str) -> Property:
    return Property(name, (), kind, f"{doc} (SET only)", default, only_set=True)


STATEMENT_PROPERTIES = (
    _of_set(
        "emit",
        values.choice("batch", "record"),
        "one result per key and micro-batch, or one per record",
        "batch",
    ),
    _of_set(
        "emit.final.after.jump",
        values.choice("every", "retained"),
        "windows that EMIT FINAL emits when stream time jumps over their ends: every one, or, as "
        "in ksqlDB, only those that start within RETENTION of the newest",
        "every",
    ),
    _of_set(
        DIFFERENCES,
        values.choice("kept", "none"),
        "`none`: where Holdfast differs from ksqlDB on purpose, it answers as ksqlDB does",
        "kept",
    ),
    _of_set(
        "ksql.persistence.default.format.key",
        values.choice(*_FORMATS),
        "KEY_FORMAT where a statement gives none",
        "kafka",
    ),
    _of_set(
        "ksql.persistence.default.format.value",
        values.choice(*_FORMATS, "required"),
        "VALUE_FORMAT where a statement gives none; with `required` it must, as in ksqlDB",
        "json",
    ),
    _of_set(
        "ksql.persistence.wrap.single.values",
        values.flag(),
        "WRAP_SINGLE_VALUE where a statement gives none",
        "true",
    ),
    _of_set(
        "ksql.output.topic.name.prefix",
        values.text("a prefix"),
        "prefix of sink topics' names, where a statement gives no KAFKA_TOPIC",
        "none",
    ),
    _of_set(
        "ksql.timestamp.throw.on.invalid",
        values.flag(),
        "a record without a valid TIMESTAMP stops the job instead of being set aside",
        "false",
    ),
    _of_set(
        "ksql.create.or.replace.enabled",
        values.choice("true"),
        "CREATE OR REPLACE is always available",
        "true",
    ),
    _of_set(
        "ksql.new.query.planner.enabled",
        values.flag(),
        "ksqlDB's new planner: a projection may leave out the key",
        "false",
    ),
)
