"""Gathers the evidence about one query: from its topics, its stores, and its statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.judge.evidence import (
    ChangelogEvidence,
    Progress,
    SinkHistory,
    StreamEvidence,
    TableEvidence,
)
from holdfast.judge.gather.late import late_bound
from holdfast.judge.gather.snapshot import Bounds, Snapshot
from holdfast.judge.read.changelog_fold import ChangelogFold, ProgressFold
from holdfast.judge.read.changelog_rows import element_counts, row_heads
from holdfast.judge.read.decode import InputDecoder, SinkDecoder
from holdfast.judge.read.incarnations import living, place_name
from holdfast.judge.read.left_out import dead_letters
from holdfast.judge.read.marker_story import MarkerStory
from holdfast.judge.read.observe import Observer
from holdfast.judge.recompute.blanks import Blanks
from holdfast.judge.recompute.recompute import (
    InputTable,
    Recomputed,
    recompute_first,
    recompute_stream,
    recompute_table,
)
from holdfast.judge.statement.translate import BatchQuery, translate
from holdfast.judge.values import Key, RowHead
from holdfast.types.statements.topology import AggregateStep, Query, Sink, Source
from holdfast.types.stores import StoreDigest

__all__ = ["PlainGatherer", "by_place"]


class PlainGatherer:
    """Reads what there is of one job's queries, each over one stream.

    Args:
        application_id: names the job's changelogs.
    """

    def __init__(self, application_id: str, observer: Observer) -> None:
        self._application_id = application_id
        self.observer = observer

    def table(
        self,
        query: Query,
        snapshot: Snapshot,
        stores: Mapping[int, Sequence[StoreDigest]] | None,
        origin: Source | None = None,
    ) -> TableEvidence:
        """The evidence about a table.

        Args:
            stores: by state partition; None when they could not be read.
            origin: the only declared source of all its records; None: there is no such source.

        Raises:
            Untranslatable: the judge cannot recompute the statement.
        """
        batch = translate(query, sorted(_input_bounds(query, snapshot)))
        history = self._history(query, batch, snapshot)
        changelog = self._changelog(query)
        table, decoder = self._input(query, batch, snapshot)
        recomputed = recompute_table(batch, query.sink, table)
        record_count = batch.growing[0] if batch.growing and not batch.having else ""
        short = _short(history, recomputed, record_count) if batch.window is not None else {}
        blanks = Blanks(query.sink)
        first = recompute_first(batch, query.sink, table, short, recomputed)
        return TableEvidence(
            name=query.sink.name,
            input_records=table.records,
            history=history,
            expected=blanks.rows(recomputed.rows, batch.matches),
            matches=batch.matches,
            counts=(*batch.growing, *batch.never_shrinking),
            records=recomputed.records,
            newest=recomputed.newest,
            record_count=record_count,
            windowed=batch.window is not None,
            changelog=ChangelogEvidence(
                folded=changelog.partitions(),
                rows_min=_kept(query, recomputed),
                rows_max=len(recomputed.records),
                stores=stores,
                heads=_heads(query, changelog),
                elements=_elements(query, changelog, recomputed),
            ),
            progress=_progress(query, snapshot, changelog),
            dropped_late=changelog.dropped_late(),
            first={k: [blanks.row(r, batch.matches) for r in rows] for k, rows in first.items()},
            open_transactions=snapshot.open_transactions,
            doubtful=_doubts(query, snapshot, decoder),
            undecodable=decoder.undecodable,
            dead_letters=dead_letters(self.observer, self._application_id, query),
            timed=self._timed(query.sink),
            late_most=late_bound(self.observer, origin, batch.window, changelog.dropped_late()),
        )

    def stream(self, query: Query, snapshot: Snapshot) -> StreamEvidence:
        """The evidence about a query without state.

        Raises:
            Untranslatable: the judge cannot recompute the statement.
        """
        sink = query.sink
        batch = translate(query, sorted(_input_bounds(query, snapshot)))
        formats = (sink.key_format, sink.value_format)
        decoder = SinkDecoder(sink.key_columns, sink.value_columns, formats, windowed=False)
        blanks = Blanks(sink)
        actual: Counter[Key] = Counter()
        times: Counter[int] = Counter()
        for record in self.observer.records(sink.topic, snapshot.sink):
            row = decoder.row(record.value) or {}
            times[record.timestamp_ms] += 1
            values = (row.get(name) for name in batch.values)
            actual[blanks.record((*decoder.key(record.key), *values))] += 1
        table, inputs = self._input(query, batch, snapshot)
        columns = (*sink.key_columns, *sink.value_columns)
        return StreamEvidence(
            name=sink.name,
            input_records=table.records,
            actual=actual,
            expected=blanks.records(recompute_stream(batch, columns, table)),
            progress=_progress(query, snapshot, self._source_progress(query)),
            open_transactions=snapshot.open_transactions,
            doubtful=_doubts(query, snapshot, inputs),
            undecodable=inputs.undecodable,
            dead_letters=dead_letters(self.observer, self._application_id, query),
            strange_times=_strange(times, table) if self._timed(sink) else (),
        )

    def _timed(self, sink: Sink) -> bool:
        """Whether the sink's records carry event times as timestamps, and not a column's value."""
        return sink.timestamp is None and self.observer.keeps_times(sink.topic)

    def _marker_topic(self, query: Query) -> str:
        return self.observer.marker_topic(query)

    def _history(self, query: Query, batch: BatchQuery, snapshot: Snapshot) -> SinkHistory:
        sink = query.sink
        decoder = SinkDecoder(
            sink.key_columns,
            sink.value_columns,
            (sink.key_format, sink.value_format),
            windowed=batch.window is not None,
        )
        history = SinkHistory(batch.growing, batch.never_shrinking)
        for record in self.observer.records(sink.topic, snapshot.sink):
            key, row = decoder.key(record.key), decoder.row(record.value)
            history.update(key, row, record.timestamp_ms)
        return history

    def _changelog(self, query: Query) -> ChangelogFold:
        topic = self._marker_topic(query)
        bounds = self.observer.bounds(topic)
        fold = ChangelogFold(bounds, self._story(query))
        for record in self.observer.records(topic, bounds):
            fold.update(record.partition, record.key, record.value, record.offset)
        return fold

    def _story(self, query: Query) -> MarkerStory:
        return MarkerStory(self._application_id, query.id, self.observer.incarnations)

    def _source_progress(self, query: Query) -> ProgressFold:
        topic = self._marker_topic(query)
        fold = ProgressFold(self._story(query))
        for record in self.observer.records(topic, self.observer.bounds(topic)):
            fold.update(record.key, record.value)
        return fold

    def _input(
        self, query: Query, batch: BatchQuery, snapshot: Snapshot
    ) -> tuple[InputTable, InputDecoder]:
        decoder = InputDecoder(query.source, batch.needed)
        table = InputTable(decoder)
        for r in self.observer.records(query.source.topic, _input_bounds(query, snapshot)):
            table.add(r.partition, r.offset, r.key, r.value, r.timestamp_ms)
        return table, decoder


def _input_bounds(query: Query, snapshot: Snapshot) -> Bounds:
    return snapshot.inputs[query.source.topic]


def _progress(query: Query, snapshot: Snapshot, fold: ChangelogFold | ProgressFold) -> Progress:
    topic, bounds = query.source.topic, _input_bounds(query, snapshot)
    ends = {p: end for p, (start, end) in living(bounds).items() if end > start}
    return Progress(
        ends=by_place(topic, ends),
        taken_in=by_place(topic, fold.taken_in()),
        group=by_place(topic, snapshot.groups[query.id, topic]),
        unlevel=tuple(fold.unlevel(bounds)),
        contradictions=fold.contradictions,
    )


def _strange(times: Mapping[int, int], table: InputTable) -> list[str]:
    """Times of sink records that no input record has."""
    known = set(table.table()["__timestamp"].to_pylist())
    known |= {1} if 0 in known else set()  # Kafka's clients read 0 as no timestamp
    return [f"{n} records at {at} ms" for at, n in sorted(times.items()) if at not in known]


def by_place(topic: str, offsets: Mapping[int, int]) -> dict[str, int]:
    """Offsets by topic partition, named like `orders-0`."""
    return {place_name(topic, p): offset for p, offset in offsets.items()}


def _heads(query: Query, changelog: ChangelogFold) -> dict[Key, RowHead | None] | None:
    step = query.step
    assert isinstance(step, AggregateStep), "only tables have a changelog"
    return row_heads(changelog.heads(), query.sink.key_columns, step)


def _elements(
    query: Query, changelog: ChangelogFold, recomputed: Recomputed
) -> dict[Key, dict[str, int]]:
    """Without windows past retention, whose elements leave before them."""
    step = query.step
    assert isinstance(step, AggregateStep), "only tables have a changelog"
    keys = query.sink.key_columns
    counts = element_counts(changelog.heads(), changelog.elements(), keys, step)
    if step.window is None:
        return counts
    oldest = recomputed.newest_ms - step.window.retention_ms
    return {key: count for key, count in counts.items() if key[-1] >= oldest}


def _short(history: SinkHistory, recomputed: Recomputed, record_count: str) -> dict[Key, int]:
    """Windows that lack records, with the number of records that they have."""
    found = {}
    for key, row in recomputed.rows.items():
        count = history.rows.get(key, {}).get(record_count)
        if isinstance(count, int) and 0 < count < row[record_count]:
            found[key] = count
    return found


def _kept(query: Query, recomputed: Recomputed) -> int:
    """The number of groups whose rows no retention can have removed from the changelog."""
    window = query.step.window if isinstance(query.step, AggregateStep) else None
    if window is None:
        return len(recomputed.records)
    oldest = recomputed.newest_ms - window.retention_ms
    return sum(1 for key in recomputed.records if key[-1] >= oldest)


def _doubts(query: Query, snapshot: Snapshot, decoder: InputDecoder) -> str:
    """The facts that allow more than one right answer, in words; empty when there are none."""
    doubts = []
    deleted = sum(start for start, _ in _input_bounds(query, snapshot).values())
    if deleted:
        doubts.append(f"{deleted} input offsets are deleted by retention and cannot be recomputed")
    gone = sum(start for start, _ in snapshot.sink.values())
    if gone:
        doubts.append(f"{gone} sink offsets are deleted by retention")
    if decoder.doubtful:
        doubts.append(f"{decoder.doubtful} input values are not of their column's JSON type")
    return "; ".join(doubts)
