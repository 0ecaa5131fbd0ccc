"""The properties that SQL may SET: those that decide how its own statements are read and processed.

Statements come from more people than run a job.  Properties that start programs, open files, name
connections, or decide about processes and their memory belong to the person who starts the job.
"""

from __future__ import annotations

from holdfast.config.properties import KAFKA_PREFIX, KSQL_PREFIX, PROPERTIES
from holdfast.config.statement_properties import STATEMENT_PROPERTIES

__all__ = ["SQL_MAY_SET", "refused_in_sql"]

SQL_MAY_SET = frozenset(
    {
        "acceptable.recovery.lag",
        "auto.offset.reset",
        "batch.target.ms",
        "dead.letter.topic",
        "dead.letter.warn.share",
        "delete.retention.ms",
        "deserialization.error",
        "fail.on.data.loss",
        "late.warn.share",
        "locality.wait.ms",
        "max.offsets.per.trigger",
        "null.key.warn.share",
        "on.changelog.loss",
        "placement.wait.ms",
        "processing.guarantee",
        "replication.factor",
        "restore.batch.records",
        "rocksdb.background.jobs",
        "rocksdb.block.bytes",
        "rocksdb.block.cache.bytes",
        "rocksdb.bloom.bits.per.key",
        "rocksdb.compression",
        "rocksdb.memtable.bytes",
        "rocksdb.write.buffer.bytes",
        "state.backend",
        "state.partitions",
        "task.timeout.ms",
        "transaction.timeout.ms",
        "trigger.interval.ms",
        *(prop.name for prop in STATEMENT_PROPERTIES),
    }
)
"""A new property is not in the list until somebody has considered it."""


def refused_in_sql(key: str) -> str | None:
    """Why SQL may not SET a property, and what to do; None where it may, or if unknown."""
    name = key.removeprefix(KSQL_PREFIX)
    ours = name in PROPERTIES or name.startswith(KAFKA_PREFIX)
    if not ours or name in SQL_MAY_SET:
        return None
    return (
        "not for SQL to set: it belongs to the person who starts the job; give it with --config or "
        "--set, or in the environment"
    )
