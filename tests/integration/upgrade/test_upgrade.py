"""A job of this version goes on from the broker and the stores that an earlier release left."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.judge.oracle import Oracle, OracleOptions
from holdfast.judge.read.observe import Observer
from holdfast.judge.verdict import Verdict
from holdfast.local.broker import LocalKafka
from holdfast.state.elements import is_element, state_key_of
from holdfast.tasks.processors.aggregates.state import StateColumns
from holdfast.types.ids import changelog_topic
from holdfast.types.statements.topology import AggregateStep, JoinForm, JoinStep, Query, Topology
from tests.integration.upgrade.given import part
from tests.integration.upgrade.replay import plain_rows, plain_value, transactions
from tests.integration.upgrade.write import PROPERTIES, produce, read_all
from tests.integration.upgrade.written import (
    APPLICATION,
    FOLDER,
    KEPT,
    RELEASES,
    Record,
    Written,
    compiled,
    load_aggregates,
    unpack_folder,
)
from tests.support.jobs.running_job import RunningJob

pytestmark = pytest.mark.timeout(900)

# One of every kind; what is computed before the shuffle is compared in `test_replay`.
_RUN = (
    "by_string", "by_struct", "by_decimal", "by_upper", "filtered", "sums", "lists", "sets", "own",
    "in_tens", "in_hops", "sessions", "by_city", "counted", "settled", "lived", "paired", "housed",
    "once", "projected", "exploded", "tagged",
)  # fmt: skip
# The others have types, functions or extreme values of which the judge thinks otherwise or nothing:
# overflows of INTEGER, UCASE('ß'), half a surrogate pair in a column that is not read.
_JUDGED = ("filtered", "in_hops", "sessions", "by_city", "counted", "paired", "housed", "tagged")
Rows = dict[bytes | None, bytes | None]


@dataclass(frozen=True)
class Upgraded:
    """A job that has gone on, and its topics before (`written`) and after it."""

    job: RunningJob
    topology: Topology
    written: Written
    topics: dict[str, list[list[Record]]]


@pytest.fixture(scope="module", params=RELEASES)
def upgraded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Upgraded]:
    release, home = FOLDER / request.param, tmp_path_factory.mktemp("upgraded")
    text = _chosen((release / "job.sql").read_text(encoding="utf-8"))
    (home / "job.sql").write_text(text, encoding="utf-8")
    load_aggregates(request.param)
    broker = LocalKafka(home)
    unpack_folder(release / "broker.tar.xz", broker.folder / "data")
    unpack_folder(release / "stores.tar.xz", home / "state")
    try:
        client = {"bootstrap.servers": broker.start(port=0).bootstrap_servers}
        functions = {"functions": str(release / "functions.py")}
        job = RunningJob(home, client, APPLICATION, properties=PROPERTIES | functions)
        produce(client, part(1))
        done = job.finish()
        assert done.returncode == 0, done.stderr
        topology = compiled(text)
        yield Upgraded(job, topology, Written.of(request.param), read_all(client))
    finally:
        broker.wipe()


def _chosen(text: str) -> str:
    """The declarations, and the statements of `_RUN`."""
    found = []
    for each in re.sub(r"--.*", "", text).split(";"):
        made = re.search(r"CREATE (?:TABLE|STREAM) (\w+) (?:AS|WITH \([^)]*\) AS)\s", each)
        if made is None or made[1] in _RUN:
            found.append(each)
    return ";".join(found)


def test_all_of_the_chosen_run(upgraded: Upgraded) -> None:
    sinks = {q.sink.name.lower() for q in upgraded.topology.queries if not q.sink.internal}
    assert sinks == set(_RUN)


def test_the_rest_of_the_input_gives_what_the_release_made_of_it(upgraded: Upgraded) -> None:
    """Sinks and state are those of a job that was never upgraded."""
    for query in upgraded.topology.queries:
        if _depends_on_batches(query) or query.sink.internal:
            continue
        topic, written = query.sink.topic, upgraded.written.topics
        assert _last(query, upgraded.topics[topic]) == _last(query, written[topic]), query.id
        if query.stateful:
            changelog = changelog_topic(APPLICATION, query.id)
            for now, before in zip(upgraded.topics[changelog], written[changelog], strict=True):
                assert _state(query, now) == _state(query, before), query.id


def _depends_on_batches(query: Query) -> bool:
    """A stream's join with a stream: which of its records are late; the judge knows."""
    step = query.step
    return isinstance(step, JoinStep) and step.form is JoinForm.STREAM_STREAM


def _last(query: Query, partitions: Sequence[Sequence[Record]]) -> Rows:
    return {r.key: plain_value(query, r.value) for records in partitions for r in records}


def _state(query: Query, records: Sequence[Record]) -> dict[bytes, Any]:
    rows: dict[bytes, bytes | None] = {}
    for each in transactions(records):
        rows |= each.rows
    plain = plain_rows(query)
    return {key: plain(row) for key, row in rows.items() if row is not None}


def test_every_record_is_counted_once(upgraded: Upgraded) -> None:
    """A count of the input by plain Python, of all records and not only of the newer ones."""
    counts, tens = Counter[bytes](), Counter[bytes]()
    names = defaultdict[bytes, list[str | None]](list)
    for key, fields in _given(upgraded, "events"):
        counts[key] += 1
        tens[key + struct.pack(">q", fields["ts"] // 10_000 * 10_000)] += 1
    for key, fields in _given(upgraded, "ordered"):
        names[key].append(fields.get("name"))
    assert _results(upgraded, "BY_STRING", "C") == counts
    assert _results(upgraded, "IN_TENS", "C") == tens
    assert _results(upgraded, "LISTS", "LN") == names


def _given(upgraded: Upgraded, topic: str) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The keys and fields of the records that have both, and a time."""
    for record in itertools.chain(*upgraded.topics[topic]):
        if record.key is not None and record.value is not None:
            with contextlib.suppress(ValueError):
                fields = json.loads(record.value)
                if "ts" in fields:
                    yield record.key, fields


def _results(upgraded: Upgraded, topic: str, column: str) -> dict[bytes | None, Any]:
    last = {r.key: r.value for records in upgraded.topics[topic] for r in records}
    return {key: json.loads(value)[column] for key, value in last.items() if value is not None}


def test_distinct_values_inside_of_old_rows_become_element_rows(upgraded: Upgraded) -> None:
    query = next(q for q in upgraded.topology.queries if q.sink.name == "SETS")
    assert isinstance(query.step, AggregateStep)
    codec, moved = StateColumns(query.step).codec, 0
    for records in upgraded.topics[changelog_topic(APPLICATION, query.id)]:
        last = {r.key: r.value for r in records if r.key is not None and r.value is not None}
        elements = Counter(state_key_of(key) for key in last if is_element(key))
        for each in list(transactions(records))[-1:]:
            rows = {key: row for key, row in each.rows.items() if row is not None}
            _, _, columns = codec.decode(list(rows.values()))
            counts = [0] * len(rows)
            for call, column in zip(query.step.aggregates, columns, strict=True):
                if call.function == "COUNT_DISTINCT":
                    counts = [a + b for a, b in zip(counts, column.to_pylist(), strict=True)]
            assert counts == [elements[key] for key in rows]
            moved += sum(counts)
    assert moved > 0


def test_every_state_partition_goes_on_where_the_release_ended(upgraded: Upgraded) -> None:
    for query in upgraded.topology.queries:
        if not query.stateful:
            continue
        topic = changelog_topic(APPLICATION, query.id)
        ends = upgraded.written.first_ends[topic]
        for records, end in zip(upgraded.topics[topic], ends, strict=True):
            markers = [each.marker for each in transactions(records)]
            before = [each.marker for each in transactions([r for r in records if r.offset < end])]
            assert 0 < len(before) < len(markers), query.id
            for last, following in itertools.pairwise(markers):
                starts = following.source.starts()
                assert last.source.ends() == {p: starts[p] for p in last.source}, query.id
                assert last.source.ids == following.source.ids


def test_the_judge_finds_nothing(upgraded: Upgraded) -> None:
    observer = Observer(upgraded.job.client, APPLICATION)
    oracle = Oracle(APPLICATION, observer, options=OracleOptions(5.0, 5.0))
    tables = [t for t in oracle.judge(upgraded.topology).tables if t.name.lower() in _JUDGED]
    assert len(tables) == len(_JUDGED)
    assert [(t.name, f) for t in tables for f in t.findings if f.verdict is not Verdict.VALID] == []


def test_stores_are_used_as_they_were_and_lost_ones_come_back(upgraded: Upgraded) -> None:
    status = upgraded.job.status()
    assert status is not None
    for query_id, query in status.queries.items():
        restored = sum(each.restore_records for each in query.state_partitions)
        assert (restored > 0) is (query_id not in (*KEPT, "csas_projected", "csas_exploded")), (
            query_id
        )
