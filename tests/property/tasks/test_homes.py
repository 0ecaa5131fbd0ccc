"""Rows of every kind of query are where their homes say, and are at home anywhere else.

Records take the engine's own way: decoded, packed and cut for several state partitions, processed.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.ingest.records import RecordDecoder
from holdfast.ingest.used_columns import used_columns
from holdfast.sql.plan.topology import compile_text
from holdfast.tasks.pack.packing import Packer, from_arrow, unpacked
from holdfast.tasks.processors.base import KEY, NO_TIME
from holdfast.tasks.processors.homes import homes, merged
from holdfast.testing.bytes_of import RawRecord
from holdfast.testing.state_partition import _NOWHERE, StatePartition
from holdfast.transport.partitioner import murmur2_partition, state_partitions
from holdfast.transport.reader import Chunk
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import (
    AggregateStep,
    ChangesStep,
    DeduplicateStep,
    JoinForm,
    JoinStep,
    Query,
    ResolveStep,
    SubscribeStep,
    TableStep,
    Topology,
)

TOPIC_PARTITIONS = 2
SOURCES = """
CREATE STREAM a (k VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE STREAM b (k VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');
CREATE TABLE t (k VARCHAR PRIMARY KEY, v BIGINT, f VARCHAR)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE u (k VARCHAR PRIMARY KEY, v BIGINT) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
CREATE TABLE versioned (k VARCHAR PRIMARY KEY, v BIGINT)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', HISTORY_RETENTION='1 HOUR');
CREATE TABLE small (k VARCHAR PRIMARY KEY, v BIGINT)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', BROADCAST=TRUE);
CREATE TABLE small_versioned (k VARCHAR PRIMARY KEY, v BIGINT)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', BROADCAST=TRUE, HISTORY_RETENTION='1 HOUR');
CREATE TABLE p (k1 VARCHAR PRIMARY KEY, k2 BIGINT PRIMARY KEY, v BIGINT, f VARCHAR)
  WITH (KAFKA_TOPIC='p', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');
CREATE TABLE n (k BIGINT PRIMARY KEY, v BIGINT)
  WITH (KAFKA_TOPIC='n', VALUE_FORMAT='JSON');
"""
_GRACE = "GRACE PERIOD 3 SECONDS"
_WITHIN = f"WITHIN (2 SECONDS, 4 SECONDS) {_GRACE}"
_TUMBLING = f"WINDOW TUMBLING (SIZE 4 SECONDS, {_GRACE})"
_HOPPING = f"WINDOW HOPPING (SIZE 6 SECONDS, ADVANCE BY 2 SECONDS, {_GRACE})"
_SESSION = f"WINDOW SESSION (3 SECONDS, {_GRACE})"
_COUNTED = (
    "CREATE TABLE s WITH (KEY_FORMAT='JSON') AS SELECT {0}, COUNT(*) AS n, SUM(v) AS total "
    "FROM {1} GROUP BY {0}"
)
_RECORD = "SET 'emit' = 'record'; "


def _grouped(window: str, end: str = "CHANGES", key: str = "k") -> str:
    return f"{_COUNTED.format(key, f'a {window}')} EMIT {end};"


def _joined(join: str, key: str = "a.k", on: str = "a.k = b.k") -> str:
    return f"CREATE STREAM s AS SELECT {key}, a.v AS x, b.v AS y FROM a {join} ON {on};"


def _looked_up(join: str) -> str:
    return f"CREATE STREAM s AS SELECT a.k, a.v, t.v AS x FROM a {join} AS t ON a.k = t.k;"


KINDS = {
    "grouped": _grouped(""),
    "grouped-by-two": _grouped("", key="k, v"),
    "grouped-by-number": _grouped("", key="v"),
    "grouped-by-record": _RECORD + _grouped(""),
    "listed": "CREATE TABLE s AS SELECT k, COLLECT_LIST(v) AS every, LATEST_BY_OFFSET(v) AS last "
    "FROM a GROUP BY k;",
    "tumbling": _grouped(_TUMBLING),
    "tumbling-final": _grouped(_TUMBLING, "FINAL"),
    "tumbling-by-record": _RECORD + _grouped(_TUMBLING),
    "hopping": _grouped(_HOPPING, key="k, v"),
    "hopping-by-record": _RECORD + _grouped(_HOPPING),
    "hopping-final": _grouped(_HOPPING, "FINAL"),
    "sessions": _grouped(_SESSION),
    "sessions-by-record": _RECORD + _grouped(_SESSION, key="k, v"),
    "sessions-final": _grouped(_SESSION, "FINAL"),
    "undo": _COUNTED.format("f", "t") + ";",
    "undo-of-two": _COUNTED.format("f", "p") + ";",
    "inner": _joined(f"JOIN b {_WITHIN}"),
    "inner-by-number": "CREATE STREAM s AS SELECT a.v, a.k AS x, b.k AS y "
    f"FROM a JOIN b {_WITHIN} ON a.v = b.v;",
    "left": _joined(f"LEFT JOIN b {_WITHIN}"),
    "right": _joined(f"RIGHT JOIN b {_WITHIN}", "b.k"),
    "full": _joined(f"FULL JOIN b {_WITHIN}", "ROWKEY AS k"),
    "inner-no-grace": _joined("JOIN b WITHIN 3 SECONDS"),
    "left-no-grace": _joined("LEFT JOIN b WITHIN 3 SECONDS"),
    "full-no-grace": _joined("FULL JOIN b WITHIN 3 SECONDS", "ROWKEY AS k"),
    "self": f"CREATE STREAM s AS SELECT * FROM a l JOIN a r {_WITHIN} ON l.k = r.k;",
    "lookup": _looked_up("LEFT JOIN t"),
    "as-of": _looked_up("LEFT JOIN versioned"),
    "broadcast": _looked_up("LEFT JOIN small"),
    "broadcast-as-of": _looked_up("JOIN small_versioned"),
    "tables": "CREATE TABLE s AS SELECT ROWKEY AS k, t.v AS x, u.v AS y FROM t FULL JOIN u "
    "ON t.k = u.k;",
    "tables-where": "CREATE TABLE s AS SELECT t.k, t.v AS x, u.v AS y FROM t LEFT JOIN u "
    "ON t.k = u.k WHERE t.v > 1;",
    "foreign": "CREATE TABLE s AS SELECT t.k, t.v AS x, u.v AS y FROM t LEFT JOIN u ON t.f = u.k;",
    "foreign-of-two": "CREATE TABLE s AS SELECT k1, k2, p.v AS x, u.v AS y FROM p JOIN u "
    "ON p.f = u.k;",
    "foreign-number": "CREATE TABLE s AS SELECT t.k, t.v AS x, n.v AS y FROM t JOIN n "
    "ON t.v = n.k;",
    "where": "CREATE TABLE s AS SELECT k, v FROM t WHERE v > 1;",
    "where-of-two": "CREATE TABLE s AS SELECT k1, k2, v FROM p WHERE v > 1;",
    "once": "CREATE STREAM s WITH (DEDUPLICATE_WITHIN='20 SECONDS') AS SELECT k, v FROM a;",
    "once-by-number": "CREATE STREAM s WITH (DEDUPLICATE_WITHIN='20 SECONDS') AS "
    "SELECT v, k FROM a PARTITION BY v;",
    "several": f"CREATE STREAM s AS SELECT a.k, a.v, b.v AS w, t.v AS x FROM a JOIN b {_WITHIN} "
    "ON a.k = b.k LEFT JOIN t ON a.k = t.k;",
}  # fmt: skip
NUMBERS = (0, 1, 2, 3, -1, (1 << 63) - 1, -(1 << 63), 0x4C00000000000000)
# Empty ones, ones that look like a row's tag, a length, a key of several columns, and long ones.
KEYS = (
    "", "L", "R", "O", "S", "T", "V", "LL", "VV", "T\x7f", "\0\0\0\1a", "S\0\0\0\1a", "a\0",
    "O" * 26, "L" * 24, "\0" * 16, "\0" * 32, '{"k0":"a","k1":1}', "a", "b", "c", "ä", "😀",
    "x" * 300, "y" * 1200,
)  # fmt: skip
STREAMS, TABLES = ("a", "b"), ("t", "u", "p", "n")
Batch = Mapping[str, Sequence[RawRecord]]


@cache
def topology(kind: str) -> Topology:
    text = KINDS[kind]
    return compile_text(SOURCES + (text if "EMIT" in text else text.replace(";", " EMIT CHANGES;")))


class Job:
    """A statement's queries over so many state partitions each, fed batch by batch."""

    def __init__(self, of: Topology, count: int) -> None:
        self.of, self.count = of, count
        self.parts = {q.id: [StatePartition(q) for _ in range(count)] for q in of.queries}
        self.hashed = {q.id: set[bytes]() for q in of.queries}
        self._ends = Counter[tuple[str, int]]()

    def run(self, batch: Batch) -> list[RawRecord]:
        """The statement's sink records of a batch."""
        there = {
            topic: self._chunks(topic, [(0, record) for record in records])
            for topic, records in batch.items()
        }
        sent: list[tuple[int, RawRecord]] = []
        for query in self.of.queries:
            sent = self._applied(query, there)
            there[query.sink.topic] = self._chunks(query.sink.topic, sent)
        return [record for _, record in sent]

    def rows(self, query: Query) -> list[dict[bytes, bytes]]:
        """A query's rows by state partition."""
        return [dict(part.rows()) for part in self.parts[query.id]]

    def rescaled(self, count: int) -> Job:
        """A job that continues with these rows over another number of state partitions."""
        other = Job(self.of, count)
        other._ends = self._ends.copy()
        other.hashed = {query: keys.copy() for query, keys in self.hashed.items()}
        for query in self.of.queries:
            parts = self.parts[query.id]
            rewritten = _rewritten(query, self.rows(query), count)
            for part, rows in zip(other.parts[query.id], rewritten, strict=True):
                part._store.replay(list(rows), list(rows.values()), position=_NOWHERE, marker=None)
                part._stream_time_ms = max(each._stream_time_ms for each in parts)
        return other

    def stream_times(self) -> set[int]:
        """Those of all state partitions."""
        return {part._stream_time_ms for parts in self.parts.values() for part in parts}

    def _chunks(self, topic: str, records: Sequence[tuple[int, RawRecord]]) -> list[Chunk]:
        chunks = [Chunk([], [], [], [], 0) for _ in range(TOPIC_PARTITIONS)]
        for own, record in records:  # one without key follows its state partition
            no_key = record.key is None
            at = own % TOPIC_PARTITIONS if no_key else murmur2_partition(record.key, len(chunks))
            chunk = chunks[at]
            chunk.keys.append(record.key)
            chunk.values.append(record.value)
            chunk.offsets.append(self._ends[topic, at])
            chunk.timestamps.append(record.timestamp)
            self._ends[topic, at] += 1
        return chunks

    def _applied(
        self, query: Query, there: Mapping[str, list[Chunk]]
    ) -> list[tuple[int, RawRecord]]:
        blobs = unpacked(self._packed(query, there))
        sent = []
        for place, part in enumerate(self.parts[query.id]):
            payload = from_arrow(blobs.get(place, []), part.schema)
            self.hashed[query.id].update(payload[KEY].drop_null().to_pylist())
            changes = part.process(payload)
            told = zip(changes.sink_keys, changes.sink_values, changes.sink_timestamps, strict=True)
            sent += [(place, RawRecord(*each)) for each in told]
        return sent

    def _packed(self, query: Query, there: Mapping[str, list[Chunk]]) -> Iterator[bytes]:
        for side, source in enumerate(query.sources[:1] if query.read_once else query.sources):
            columns = used_columns(query, side)
            decoder = RecordDecoder(IngestOptions(source, {}, columns, query=query, side=side))
            packer = Packer(query, self.count, range(2) if query.read_once else [side])
            for at, chunk in enumerate(there.get(source.topic, [])):
                read, bad = decoder.decode(chunk, at)
                assert not bad
                yield from (blob for _, blob in packer([read] if read.num_rows else []))


def _rewritten(
    query: Query, parts: Sequence[Mapping[bytes, bytes]], count: int
) -> list[dict[bytes, bytes]]:
    """The rows of all state partitions, by state partition of so many."""
    found: list[dict[bytes, bytes]] = [{} for _ in range(count)]
    common: dict[bytes, list[bytes]] = defaultdict(list)
    for rows in parts:
        keys = list(rows)
        owners = homes(query, keys)
        places = state_partitions(pa.array(owners, pa.binary()), count).tolist()
        for key, owner, place in zip(keys, owners, places, strict=True):
            if owner is None:
                common[key].append(rows[key])
            else:
                assert key not in found[place]
                found[place][key] = rows[key]
    for each in found:
        each.update(merged(query, common))
    return found


class Records:
    """Makes batches of records whose times ascend over all topics."""

    def __init__(self, seed: int, keys: Sequence[str] = KEYS) -> None:
        self._rng = random.Random(seed)
        self._keys = keys
        self._now = 1_000_000

    def batch(self, size: int = 150) -> Batch:
        made: dict[str, list[RawRecord]] = defaultdict(list)
        for _ in range(size):
            topic = self._rng.choice(STREAMS + TABLES)
            self._now += self._rng.randrange(1, 120)
            key = self._key(topic, self._rng.choice(self._keys))
            dead = topic in TABLES and self._rng.random() < 0.2
            made[topic].append(RawRecord(key, None if dead else self._value(), self._now))
        return made

    def all_at_once(self, after_ms: int = 1) -> Batch:
        """So many records of one time that every state partition gets it."""
        self._now += after_ms
        names = [f"bell{n}" for n in range(60)]
        made = {topic: [(self._key(topic, name), name) for name in names] for topic in "abtup"}
        made["n"] = [(n.to_bytes(8, "big"), "") for n in range(100, 160)]
        return {
            topic: [RawRecord(k, _json({"v": n, "f": name}), self._now)
                    for n, (k, name) in enumerate(records, 100)]
            for topic, records in made.items()
        }  # fmt: skip

    def _key(self, topic: str, text: str) -> bytes | None:
        if topic == "n":
            return self._rng.choice(NUMBERS).to_bytes(8, "big", signed=True)
        if topic == "p":  # either column may be null, or both
            part = {"K1": text, "K2": self._rng.choice(NUMBERS)}
            return _json({name: value for name, value in part.items() if self._rng.random() < 0.8})
        return None if self._rng.random() < 0.03 else text.encode()

    def _value(self) -> bytes:
        foreign = self._rng.choice([None, *self._keys])
        return _json({"v": self._rng.choice(NUMBERS[:6]), "f": foreign})


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _assert_at_home(job: Job) -> None:
    for query in job.of.queries:
        for place, rows in enumerate(job.rows(query)):
            own = [owner for owner in homes(query, list(rows)) if owner is not None]
            assert set(own) <= job.hashed[query.id]
            assert set(state_partitions(pa.array(own, pa.binary()), job.count)) <= {place}


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_in_the_state_partitions_of_their_homes(kind: str, count: int) -> None:
    job, records = Job(topology(kind), count), Records(count)
    for _ in range(3):
        job.run(records.batch())
        _assert_at_home(job)


@settings(max_examples=80)
@given(st.sampled_from(sorted(KINDS)), st.integers(2, 9), st.lists(st.text(), min_size=1))
def test_any_text_has_a_home(kind: str, count: int, keys: list[str]) -> None:
    job = Job(topology(kind), count)
    job.run(Records(len(keys), keys).batch(40))
    _assert_at_home(job)


@pytest.mark.parametrize("kind", KINDS)
def test_only_clocks_versions_and_broadcast_tables_have_no_home(kind: str) -> None:
    job, records = Job(topology(kind), 3), Records(7)
    _sent(job, [records.batch(), records.all_at_once()])
    for query in job.of.queries:
        counts = [homes(query, list(rows)).count(None) for rows in job.rows(query)]
        assert min(map(len, job.rows(query))) > 10
        step = query.step
        if isinstance(step, JoinStep) and step.broadcast:
            assert counts == [len(rows) for rows in job.rows(query)]
            assert all(rows == job.rows(query)[0] for rows in job.rows(query))
        else:
            clock = isinstance(step, JoinStep) and step.form is JoinForm.STREAM_STREAM
            assert counts == [int(clock or isinstance(step, SubscribeStep))] * 3


@pytest.mark.parametrize(
    ("kind", "tags"),
    [("inner", "LRT"), ("left", "LORT"), ("right", "LORT"), ("full", "LORT"), ("self", "LRT"),
     ("left-no-grace", "LRT"), ("tables", "LR"), ("foreign", "LRSV")],
)  # fmt: skip
def test_these_kinds_keep_rows_under_every_tag(kind: str, tags: str) -> None:
    job = Job(topology(kind), 3)
    job.run(Records(1).batch(300))
    tagged = [query for query in job.of.queries if not isinstance(query.step, ResolveStep)]
    found = {key[:1] for query in tagged for rows in job.rows(query) for key in rows}
    assert found == {tag.encode() for tag in tags}


def test_the_kinds_are_all_there_are() -> None:
    steps = [q.step for kind in KINDS for q in topology(kind).queries]
    assert {type(s) for s in steps} == {
        AggregateStep, JoinStep, ChangesStep, TableStep, SubscribeStep, ResolveStep,
        DeduplicateStep,
    }  # fmt: skip
    assert {s.form for s in steps if isinstance(s, JoinStep)} == set(JoinForm)
    windows = {(s.window and s.window.kind, s.emit) for s in steps if isinstance(s, AggregateStep)}
    assert len(windows) == 11


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "after"), [(3, 5), (4, 2), (1, 3)])
def test_a_job_continues_over_another_number_of_state_partitions(
    kind: str, before: int, after: int
) -> None:
    job, records = Job(topology(kind), before), Records(before)
    begun = _sent(job, [records.batch(), records.batch(), records.all_at_once()])
    assert len(job.stream_times() - {NO_TIME}) == 1
    other = job.rescaled(after)
    for query in job.of.queries:
        assert _own(query, job) == _own(query, other)
    rest = [records.batch(), records.batch(), records.all_at_once(), records.all_at_once(60_000)]
    one, two = _sent(job, rest), _sent(other, rest)
    assert len(one) > 20
    assert _told(job.of, begun, one) == _told(job.of, begun, two)
    _assert_at_home(other)
    for query in job.of.queries:
        if not _numbered(query):
            assert _own(query, job) == _own(query, other)


def _sent(job: Job, batches: Sequence[Batch]) -> list[RawRecord]:
    return [record for batch in batches for record in job.run(batch)]


def _told(of: Topology, begun: Sequence[RawRecord], more: Sequence[RawRecord]) -> Any:
    """The table that the sink's readers have, or all further records of a stream.

    A foreign-key join's steps answer each other in an order that depends on state partitions:
    only the table that they come to is sure, not when they did.
    """
    if of.queries[-1].sink.kind == "STREAM":
        return Counter((r.key, r.value, r.timestamp) for r in more)
    if isinstance(of.queries[-1].step, ResolveStep):
        last = {r.key: r.value for r in (*begun, *more)}
        return {key: value for key, value in last.items() if value is not None}
    return {r.key: (r.value, r.timestamp) for r in more}


def _own(query: Query, job: Job) -> Counter[tuple[bytes, bytes]]:
    """The rows that have a home."""
    rows = [row for each in job.rows(query) for row in each.items()]
    owners = homes(query, [key for key, _ in rows])
    return Counter(row for owner, row in zip(owners, rows, strict=True) if owner is not None)


def _numbered(query: Query) -> bool:
    """Whether rows depend on numbers or versions, which a state partition counts for itself."""
    step = query.step
    forms = JoinForm.STREAM_STREAM, JoinForm.FOREIGN_KEY
    return isinstance(step, ResolveStep) or (isinstance(step, JoinStep) and step.form in forms)


def test_a_clock_is_as_late_as_the_latest() -> None:
    job = Job(topology("full"), 4)
    job.run(Records(5).batch())
    (query,) = job.of.queries
    every = {key for rows in job.rows(query) for key in rows}
    (key,) = (key for key in every if homes(query, [key]) == [None])
    rows = [part[key] for part in job.rows(query)]
    assert len(set(rows)) == 4
    (clock,) = merged(query, {key: rows}).values()
    assert clock not in rows
    numbers = [_numbers(row) for row in rows]
    assert _numbers(clock) == [max(each) for each in zip(*numbers, strict=True)]


def _numbers(row: bytes) -> list[int]:
    return [int.from_bytes(row[n : n + 8], "little", signed=True) for n in range(0, 32, 8)]


def test_a_version_is_later_than_every_other() -> None:
    query = topology("foreign").queries[0]
    rows = [n.to_bytes(8, "big") for n in (3, 300, 0)]
    assert homes(query, [b"V", b"LV", b"L"]) == [None, b"V", b""]
    assert merged(query, {b"V": rows}) == {b"V": rows[1]}


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("key", ["a", "b", "c", "d", "e", "f"])
def test_a_row_that_has_changed_often_goes_on_changing(key: str, after: int) -> None:
    """Its next version must be later, wherever it comes from."""
    job = Job(topology("foreign"), 4)
    changes = [RawRecord(key.encode(), _json({"v": n, "f": "x"}), n) for n in range(30)]
    job.run({"t": changes, "u": [RawRecord(b"x", _json({"v": 7}), 1)]})
    other = job.rescaled(after)
    (told,) = other.run({"t": [RawRecord(key.encode(), _json({"v": 99, "f": "x"}), 40)]})
    assert (told.key, told.value) == (key.encode(), b'{"X":99,"Y":7}')


def test_other_queries_have_no_rows_of_every_state_partition() -> None:
    (query,) = topology("grouped").queries
    assert merged(query, {}) == {}
    with pytest.raises(TypeError, match="no rows that belong to every state partition"):
        merged(query, {b"a": [b"1"]})


def test_a_query_without_state_has_no_homes() -> None:
    text = SOURCES + "CREATE STREAM s AS SELECT k, v FROM a EMIT CHANGES;"
    (query,) = compile_text(text).queries
    with pytest.raises(TypeError, match="keeps no state"):
        homes(query, [])
