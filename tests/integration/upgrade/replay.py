"""Computes a query's changelog and sink anew from the saved input, and tells what differs.

The commit markers tell how the batches were cut, so every transaction is computed from the same
records as when it was written.  Other parts of a batch's order are not told: the rows of a
transaction are compared by key, the records of a sink as a multiset.

Two things may differ, because they never were the same for every cut of a batch: the last digits of
a sum of DOUBLEs, and the order of the distinct values that COUNT_DISTINCT keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from holdfast.state.changelog import DATA_PREFIX, MARKER_KEY, CommitMarker
from holdfast.state.elements import is_element
from holdfast.state.memory import MemoryStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.tasks.aggregates.registry import bind
from holdfast.tasks.expiry import expiring
from holdfast.tasks.processors.aggregates.state import StateColumns
from holdfast.tasks.processors.base import NO_TIME, Changes, Watermark
from holdfast.tasks.processors.kinds import processor_of
from holdfast.tasks.processors.layout import layout_of
from holdfast.tasks.processors.timed import processed
from holdfast.types.ids import OffsetRange, changelog_topic
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.topology import AggregateStep, Query
from holdfast.types.times import FOREVER
from tests.integration.upgrade.evaluate import Batch, payloads, projected
from tests.integration.upgrade.mended import mended
from tests.integration.upgrade.written import APPLICATION, STATE_PARTITIONS, Record, Written

__all__ = ["Transaction", "differences", "plain_rows", "plain_value", "transactions"]

Rows = Mapping[bytes, bytes | None]
Sunk = tuple[bytes | None, bytes | None, int]  # key, value, time in ms
_NOWHERE = StorePosition(topic_id="", offset=0, written_ms=0, fingerprint="")


@dataclass(frozen=True)
class Transaction:
    """The rows of one transaction by state key, and its commit marker."""

    rows: Rows
    marker: CommitMarker


def transactions(records: Sequence[Record]) -> Iterator[Transaction]:
    """The transactions of a changelog partition, without element rows; each ends with a marker."""
    rows: dict[bytes, bytes | None] = {}
    for record in records:
        assert record.key is not None
        if record.key == MARKER_KEY:
            assert record.value is not None
            yield Transaction(rows, CommitMarker.from_bytes(record.value))
            rows = {}
        elif not is_element(record.key):
            assert record.key.startswith(DATA_PREFIX)
            rows[record.key.removeprefix(DATA_PREFIX)] = record.value
    assert rows == {}, "the last transaction has no marker"


def differences(written: Written, query: Query) -> list[str]:
    """One line for each difference between what was written and what is computed now."""
    if not query.stateful:
        return _sinks_differ(query, _projected(written, query), _sunk(written, query))
    batches = _Batches(written, query)
    found, sunk = [], Counter[Sunk]()
    changelog = written.topics[changelog_topic(APPLICATION, query.id)]
    for partition, records in enumerate(changelog):
        replay = _Replay(query, partition)
        for number, each in enumerate(transactions(records)):
            where = f"{query.id} state partition {partition}, transaction {number}"
            payload = batches.payload(each.marker.source, partition)
            found += [f"{where}: {told}" for told in replay.differences(each, payload)]
        sunk += replay.sunk
    before = _sunk(written, query)
    return [*found, *_sinks_differ(query, _left(written, query, sunk, before), before)]


class _Batches:
    """Makes the payloads of a query's batches, each once for all state partitions."""

    def __init__(self, written: Written, query: Query) -> None:
        self._written, self._query = written, query
        self._made: dict[str, list[pa.Table]] = {}

    def payload(self, source: OffsetRange, partition: int) -> pa.Table:
        """A state partition's part of the batch with these offsets."""
        known = repr(sorted(source.items()))
        if known not in self._made:
            batch = _batch(self._written, self._query, source)
            self._made[known] = payloads(self._query, batch)
        return self._made[known][partition]


def _batch(written: Written, query: Query, source: OffsetRange) -> Batch:
    def between(topic: str, partition: int) -> list[Record]:
        start, end = source[topic, partition]
        records = written.topics[topic][partition]
        return [r for r in records if (start or 0) <= r.offset < end]

    return [
        {p: between(each.topic, p) for t, p in sorted(source) if t == each.topic}
        for each in query.sources
    ]


@dataclass
class _Replay:
    """One state partition of a query, from its first batch on.

    Attributes:
        sunk: the sink records so far.
    """

    query: Query
    partition: int
    sunk: Counter[Sunk] = field(default_factory=Counter)
    _last: CommitMarker | None = None

    def __post_init__(self) -> None:
        layout = layout_of(self.query)
        self._retention_ms = layout.retention_ms
        self._processor = processor_of(self.query)
        self._store = TableStore(
            MemoryStore(), windowed=layout.windowed, segmented=layout.segmented
        )

    def differences(self, written: Transaction, payload: pa.Table) -> Iterator[str]:
        """Applies a batch; goes on from what was written, so that one mistake is told once."""
        changes = processed(
            self._processor, payload, self._time(), self._store, self._watermark(written.marker)
        )
        rows = dict(zip(changes.keys, changes.rows, strict=True))
        expired = self._expired(changes)
        rows |= dict.fromkeys(expired)
        sunk = (changes.sink_keys, changes.sink_values, changes.sink_timestamps)
        self.sunk.update(zip(*sunk, strict=True))
        yield from _rows_differ(rows, written.rows, plain_rows(self.query))
        count = self._store.rows + len(changes.created) - changes.removed - len(expired)
        yield from self._marker_differs(changes, count, written.marker)
        self._go_on(written)

    def _time(self) -> int:
        return NO_TIME if self._last is None else self._last.stream_time_ms

    def _watermark(self, marker: CommitMarker) -> Watermark | None:
        newest = None if self._last is None else self._last.newest_ms
        if marker.watermark_ms is None and newest is None:
            return None
        limit = FOREVER if marker.watermark_ms is None else marker.watermark_ms
        return Watermark(limit, self._time() if newest is None else newest)

    def _expired(self, changes: Changes) -> list[bytes]:
        if self._retention_ms is None or changes.stream_time_ms == NO_TIME:
            return []
        return expiring(self._store, changes, changes.stream_time_ms - self._retention_ms)

    def _marker_differs(self, changes: Changes, rows: int, marker: CommitMarker) -> Iterator[str]:
        last = self._last
        found = {
            "fingerprint": self.query.fingerprint(),
            "canonical": self.query.canonical(),
            "facts": statement_facts(self.query),
            "state_partition": self.partition,
            "state_partitions": STATE_PARTITIONS,
            "stream_time_ms": changes.stream_time_ms,
            "newest_ms": changes.newest_ms,
            "rows": rows,
            "records": changes.records + (last.records if last else 0),
            "dropped_late": changes.dropped_late + (last.dropped_late if last else 0),
            "dropped_null_key": changes.dropped_null_key + (last.dropped_null_key if last else 0),
        }
        for name, value in found.items():
            if value != getattr(marker, name):
                yield f"the marker's {name} was {getattr(marker, name)!r}, is {value!r}"

    def _go_on(self, written: Transaction) -> None:
        there = {key: self._store.get_many([key])[0] is not None for key in written.rows}
        created = [k for k, row in written.rows.items() if row is not None and not there[k]]
        removed = sum(row is None and there[k] for k, row in written.rows.items())
        self._store.apply(
            list(written.rows), list(written.rows.values()), created=created, removed=removed,
            position=_NOWHERE, marker=None,
        )  # fmt: skip
        self._last = written.marker


def _rows_differ(now: Rows, before: Rows, plain: Callable[[bytes | None], Any]) -> Iterator[str]:
    for key in sorted(now.keys() | before.keys()):
        if key not in before:
            yield f"the key {key!r} is new, with {now[key]!r}"
        elif key not in now:
            yield f"the key {key!r} is missing, it had {before[key]!r}"
        elif now[key] != before[key] and plain(now[key]) != plain(before[key]):
            yield f"the row of {key!r} was {before[key]!r}, is {now[key]!r}"


def plain_rows(query: Query) -> Callable[[bytes | None], Any]:
    """Makes comparable values of a query's rows."""
    step = query.step
    if not isinstance(step, AggregateStep):
        return lambda row: row
    codec = StateColumns(step).codec
    widths = [len(bind(call).state) for call in step.aggregates]
    calls = [c.function for c, width in zip(step.aggregates, widths, strict=True)
             for _ in range(width)]  # fmt: skip

    def plain(row: bytes | None) -> Any:
        if row is None:
            return None
        time, _, columns = codec.decode([row])
        values = [_rounded(column[0].as_py()) for column in columns]
        pairs = zip(calls, values, strict=True)
        return time.tolist(), [_as_known(call, value) for call, value in pairs]

    return plain


def _as_known(call: str, value: Any) -> Any:
    """The state of an aggregate, without what this version forgets."""
    if call == "ATTR" and value and len(value) > 1:
        return "several"
    by_order = call != "COUNT_DISTINCT" or not isinstance(value, list)
    return value if by_order else sorted(value, key=repr)


def _rounded(value: Any) -> Any:
    """The value with 12 digits of every DOUBLE in it."""
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return value


def _plain_sunk(query: Query, sunk: Counter[Sunk]) -> Counter[Sunk]:
    found = Counter[Sunk]()
    for (key, value, time), count in sunk.items():
        found[key, plain_value(query, value), time] += count
    return found


def plain_value(query: Query, value: bytes | None) -> bytes | None:
    """A comparable value of a query's sink."""
    if value is None or not value.startswith(b"{"):
        return value
    row = orjson.loads(value)
    return orjson.dumps(_rounded({n: v for n, v in row.items() if n not in mended(query.id)}))


def _left(
    written: Written, query: Query, now: Counter[Sunk], before: Counter[Sunk]
) -> Counter[Sunk]:
    """The records without those that the broker has compacted away: of keys with later ones."""
    if query.sink.topic not in written.compacted:
        return now
    keys = {key for key, _, _ in before}
    return now - Counter({each: n for each, n in (now - before).items() if each[0] in keys})


def _projected(written: Written, query: Query) -> Counter[Sunk]:
    source = written.topics[query.source.topic]
    sunk = Counter[Sunk]()
    for each in projected(query, [dict(enumerate(source))]):
        sunk.update(zip(each.keys, each.values, each.timestamps, strict=True))
    return sunk


def _sunk(written: Written, query: Query) -> Counter[Sunk]:
    partitions = written.topics[query.sink.topic]
    return Counter((r.key, r.value, r.timestamp_ms) for records in partitions for r in records)


def _sinks_differ(query: Query, now: Counter[Sunk], before: Counter[Sunk]) -> list[str]:
    now, before = (_plain_sunk(query, each) for each in (now, before))
    gone = [f"the sink had {record!r}, {n} times more" for record, n in (before - now).items()]
    new = [f"the sink has {record!r}, {n} times more" for record, n in (now - before).items()]
    return sorted(gone) + sorted(new)
