"""Several topics of a real broker planned as one, and read side by side."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from holdfast.config.settings import Settings
from holdfast.ingest.planner import Planner, bounds_of
from holdfast.ingest.ranges import KafkaRange, kafka_ranges
from holdfast.ingest.reading import read, read_packed
from holdfast.local.broker import BrokerStatus
from holdfast.runtime.queries.inputs import Inputs
from holdfast.sql import compile_text
from holdfast.tasks.pack.packing import from_arrow, unpacked
from holdfast.tasks.processors.base import SIDE, row_schema
from holdfast.types.columns.schema import BIGINT, STRING, Column
from holdfast.types.ids import Place
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import Source
from tests.integration.ingest import topics

CLICKS, VIEWS = 400, 40
STEP_MS = 1_000  # between two clicks; views are ten times as rare


@pytest.fixture
def options(kafka: BrokerStatus) -> IngestOptions:
    servers = kafka.bootstrap_servers
    clicks, views = topics.create(servers, partitions=2), topics.create(servers)
    for i in range(CLICKS):
        record = (b"k%d" % (i % 5), json.dumps({"n": i}).encode())
        topics.produce(servers, clicks, [record], i % 2, timestamp=1_000_000 + i * STEP_MS)
    for i in range(VIEWS):
        record = (b"k%d" % (i % 5), json.dumps({"page": f"p{i}"}).encode())
        topics.produce(servers, views, [record], timestamp=1_000_000 + i * 10 * STEP_MS)
    key = (Column("K", STRING),)
    given = IngestOptions(
        Source("CLICKS", "STREAM", clicks, key, (Column("N", BIGINT),)),
        {"bootstrap.servers": servers}, ("K", "N"), transactional_id_prefix=f"app-{clicks}",
    )  # fmt: skip
    source = Source("VIEWS", "STREAM", views, key, (Column("PAGE", STRING),))
    return replace(given, others=(replace(given, source=source, columns=("K", "PAGE"), side=1),))


def _rows(options: IngestOptions, ranges: list[KafkaRange]) -> list[dict[str, Any]]:
    return [
        {**row, "side": each.side}
        for each in ranges for batch in read(options, each) for row in batch.to_pylist()
    ]  # fmt: skip


def _whole(options: IngestOptions) -> list[KafkaRange]:
    ends = {place: high for place, (_, high) in bounds_of(options).items()}
    return kafka_ranges(options, dict.fromkeys(ends, 0), ends)


def test_each_side_has_its_own_columns_and_records(options: IngestOptions) -> None:
    rows = _rows(options, _whole(options))
    assert Counter(row["side"] for row in rows) == {0: CLICKS, 1: VIEWS}
    assert {row["N"] for row in rows if row["side"] == 0} == set(range(CLICKS))
    pages = [row for row in rows if row["side"] == 1 and row["PAGE"] == "p7"]
    assert [(row["K"], "N" in row) for row in pages] == [("k2", False)]


def test_batches_with_a_limit_end_at_one_record_time_in_all_topics(options: IngestOptions) -> None:
    limited = replace(options, max_offsets_per_trigger=120)
    planner, batches = Planner(limited), list[list[dict[str, Any]]]()
    at: dict[Place, int] = dict.fromkeys(bounds_of(limited), 0)
    while sum(map(len, batches)) < CLICKS + VIEWS:
        planned = planner.plan(at)
        assert planned.end != at
        batches.append(_rows(limited, kafka_ranges(limited, at, planned.end)))
        at = planned.end
    assert len(batches) >= 4
    assert [len(b) <= 120 for b in batches] == [True] * len(batches)
    times = [[row["__timestamp"] for row in b] for b in batches]
    assert all(max(a) < min(b) for a, b in pairwise(times))
    places = [(r["side"], r["__partition"], r["__offset"]) for b in batches for r in b]
    assert len(set(places)) == len(places) == CLICKS + VIEWS


def test_both_sides_of_a_self_join_get_every_record_of_one_read(
    kafka: BrokerStatus, options: IngestOptions
) -> None:
    topic = options.source.topic
    query = compile_text(f"""
        CREATE STREAM s (k STRING KEY, n BIGINT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');
        CREATE STREAM o AS SELECT a.k, a.n, b.n FROM s a JOIN s b WITHIN 1 HOUR ON a.k = b.k
            WHERE a.n >= 0 AND b.n >= 100;
    """).queries[0]
    inputs = Inputs(query, Settings("twins", kafka.bootstrap_servers))
    assert inputs.topics == (topic,)
    twins, found = inputs.options(), list[tuple[int, int]]()
    ranges = _whole(twins)
    assert [(r.partition, r.side) for r in ranges] == [(0, 0), (1, 0)]
    for each in ranges:
        parts = unpacked(blob for _, blob in read_packed(twins, query, 4, each))
        for blobs in parts.values():
            table = from_arrow(blobs, row_schema(query.inputs))
            places = zip(table[SIDE].to_pylist(), table["__offset"].to_pylist(), strict=True)
            found += [(side, offset * 2 + each.partition) for side, offset in places]
    assert sorted(found) == [(side, n) for side in (0, 1) for n in range(CLICKS)]
