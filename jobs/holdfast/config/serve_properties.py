"""The properties of query servers: the folder of their tables, and limits for queries."""

from __future__ import annotations

from holdfast.config import values
from holdfast.config.property import Property

__all__ = ["SERVE_PROPERTIES"]

_GIB = 1 << 30


def _property(name: str, field: str, kind: values.Kind, doc: str) -> Property:
    return Property(f"serve.{name}", ("serve", field), kind, f"query server: {doc}")


SERVE_PROPERTIES = (
    Property(
        "serve.dir",
        ("serve", "dir"),
        values.text("a folder"),
        "query server: folder of its copies of the tables",
        default="<home>/serve",
    ),
    _property(
        "query.timeout.ms",
        "timeout_ms",
        values.whole(1, 3_600_000),
        "a pull query that takes longer ends with an error; a request may ask for less",
    ),
    _property(
        "query.max.keys",
        "keys_max",
        values.whole(1, 1_000_000),
        "keys that one statement may look up",
    ),
    _property(
        "query.max.rows",
        "rows_max",
        values.whole(1, 1_000_000_000),
        "rows of one answer to a pull query",
    ),
    _property(
        "query.max.bytes",
        "bytes_max",
        values.whole(1 << 10, 1_024 * _GIB),
        "memory that an aggregation over a scan may use at a time",
    ),
    _property(
        "query.threads",
        "threads",
        values.whole(1, 256),
        "how many queries decode and evaluate rows at a time",
    ),
    _property(
        "query.memory.bytes",
        "memory_bytes",
        values.whole(64 << 20, 1_024 * _GIB),
        "memory of each process that evaluates or plans queries; there are up to twice "
        "serve.query.threads and one more",
    ),
    _property(
        "query.planning.timeout.ms",
        "planning_ms",
        values.whole(1, 3_600_000),
        "a statement that takes longer to plan is refused",
    ),
    _property(
        "max.open.queries",
        "open_queries",
        values.whole(1, 1_000_000),
        "answers under way at a time, including push queries",
    ),
    _property(
        "tail.max.bytes",
        "tail_bytes_max",
        values.whole(1 << 10, 64 * _GIB),
        "newest changes of a partition kept for its subscribers; a subscriber further behind reads "
        "the changelog",
    ),
    _property(
        "slow.reader.timeout.ms",
        "send_ms",
        values.whole(1, 3_600_000),
        "a reader that takes nothing for this long is cut off",
    ),
    _property(
        "heartbeat.ms",
        "heartbeat_ms",
        values.whole(1, 3_600_000),
        "a push query sends a heartbeat after this long without a row",
    ),
    _property(
        "request.max.bytes",
        "request_bytes",
        values.whole(1 << 10, _GIB),
        "size of a request",
    ),
)
