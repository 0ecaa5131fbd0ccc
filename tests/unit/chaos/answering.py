"""Reads that never were, of a table whose changelog is made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.strikes import Strike
from holdfast.chaos.reads.answers import Read, States
from holdfast.chaos.reads.checkers import ReadEvidence
from holdfast.chaos.reads.table_rows import AskedTable, asked_tables
from holdfast.judge.read.observe import Record
from holdfast.sql import compile_text
from holdfast.tasks.pack.rows import RowCodec
from holdfast.types.components import SERVER
from holdfast.types.statements.topology import Topology

ALIENS, ALIEN = ("Aliens",), ("Alien",)
# Committed in one state partition: (offset of the marker, rows before it); offset + 1 is the
# broker's own mark.
COMMITS = ((2, {"Aliens": (70, 1), "Alien": (71, 5)}), (5, {"Aliens": (80, 2)}))
ENDS = {0: 7, 1: 0}
KILL = Strike(
    Injection(0, SERVER, Fault.KILL, Moment.RANDOM), ("server 1",), 110.0, landed=True,
    recovered_s=120.0,
)  # fmt: skip


def table(topology: Topology, name: str = "T") -> AskedTable:
    """One of its tables that are asked for."""
    return asked_tables(topology).tables[name]


def topology(aggregates: str = "COUNT(*) AS n", tail: str = "", window: str = "") -> Topology:
    return compile_text(
        "CREATE STREAM s (title VARCHAR, x BIGINT, y INT, z DOUBLE)"
        " WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
        f"CREATE TABLE t AS SELECT title, {aggregates} FROM s {window} GROUP BY title {tail};"
    )


def encoded(times: Sequence[int], *columns: Sequence[Any] | pa.Array) -> list[bytes]:
    """Rows as the engine writes them."""
    arrays = [pa.array(column) for column in columns]
    return list(RowCodec([a.type for a in arrays]).encode(np.array(times, np.int64), arrays))


def states(tail: str = "", **edges: Any) -> States:
    """Every state of the table T, its changelog folded."""
    asked = table(topology(tail=tail))
    found = States(asked.rows, frozenset({ALIENS, ALIEN}), ENDS, asked.may_lack)
    taken = 0
    for end, changed in COMMITS:
        for back, (title, (time, count)) in enumerate(changed.items()):
            (row,) = encoded([time], [count])
            offset = end - len(changed) + back
            found.update(Record(0, offset, b"\x01" + title.encode(), row, 0))
        source = {"topic": "s", "start": [[0, taken]], "end": [[0, end]], **edges}
        marker = json.dumps({"source": source}).encode()
        found.update(Record(0, end, b"\x00holdfast.commit", marker, 0))
        taken = end
    return found


def final_states(
    written: Sequence[tuple[int, str, int, int | None]], *, compacted: bool = True
) -> States:
    """The states of a table of final results, which servers follow by its topic: two partitions.

    Args:
        written: (partition, title, start of the window, count or tombstone), in offset order.
    """
    asked = table(topology(tail="EMIT FINAL", window="WINDOW TUMBLING (SIZE 1 HOUR)"))
    found = States(asked.rows, frozenset({ALIENS}), {0: 99, 1: 99}, compacted=compacted)
    for offset, (partition, title, start, count) in enumerate(written):
        value = None if count is None else json.dumps({"N": count}).encode()
        key = title.encode() + start.to_bytes(8, "big")
        found.update(Record(partition, offset, key, value, 70 + offset))
    return found


def read(op: int, count: int, time: int, position: int, **changes: Any) -> Read:
    """One answer about Aliens, by server 0 or 1 in turn."""
    row = {"TITLE": "Aliens", "ROWTIME": time, "N": count}
    right = Read(
        "reader-0", op, "T", ALIENS, 100.0 + op, 0.01, None, [row], {0: position}, {0: str(op % 2)}
    )
    return replace(right, **changes)


def failed(op: int, **changes: Any) -> Read:
    return read(op, 0, 0, 0, rows=None, positions={}, servers={}, reason="nobody", **changes)


def reads() -> list[Read]:
    """Good ones: ten of each state, twenty of them while a server is away."""
    first = [read(op, 1, 70, 3) for op in range(10)]
    later = [read(op, 2, 80, 7) for op in range(10, 30)]
    return first + later


def evidence(
    found: Sequence[Read] | None = None,
    tables: Mapping[str, States] | None = None,
    strikes: Sequence[Strike] = (KILL,),
    servers: int = 2,
) -> ReadEvidence:
    if tables is None:
        tables = {"T": states()}
    return ReadEvidence(servers, reads() if found is None else found, tables, strikes)
