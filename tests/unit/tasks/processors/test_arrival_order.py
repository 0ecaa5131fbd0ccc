"""Records of several topic partitions are processed in the order in which Kafka Streams picks."""

from __future__ import annotations

import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.processors.base import arrival_order, row_schema

# Side, topic partition, offset; all of them different.
_PLACES = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 20))
_RECORDS = st.dictionaries(_PLACES, st.integers(-5, 5), max_size=20)


def _payload(records: list[tuple[tuple[int, int, int], int]]) -> pa.Table:
    columns = {
        "__key": [b"k"] * len(records),
        "__side": [place[0] for place, _ in records],
        "__partition": [place[1] for place, _ in records],
        "__offset": [place[2] for place, _ in records],
        "__timestamp": [time for _, time in records],
        "__tombstone": [False] * len(records),
        "__seq": [None] * len(records),
    }
    schema = row_schema(())
    return pa.table([pa.array(columns[f.name], f.type) for f in schema], schema)


def _picked(records: list[tuple[tuple[int, int, int], int]]) -> list[tuple[int, int, int]]:
    """The queue whose next record is the oldest is next; of equal ones the first."""
    queues: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (side, partition, offset), time in sorted(records):
        queues.setdefault((side, partition), []).append((offset, time))
    picked = []
    while any(queues.values()):
        queue = min((q for q in queues if queues[q]), key=lambda q: (queues[q][0][1], q))
        picked.append((*queue, queues[queue].pop(0)[0]))
    return picked


@given(_RECORDS, st.randoms(use_true_random=False), st.booleans())
def test_the_queue_with_the_oldest_next_record_is_next(
    found: dict[tuple[int, int, int], int], chance: random.Random, mixed: bool
) -> None:
    records = sorted(found.items())
    if mixed:
        chance.shuffle(records)
    order = arrival_order(_payload(records))
    assert [records[n][0] for n in order.tolist()] == _picked(records)
