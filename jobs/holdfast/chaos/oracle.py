"""The oracle: quiesce, read committed, recompute from the input, compare.

    wait until the job has read its input   group offsets reach the input's end
    wait until no transaction is open       last stable offset reaches the end of sink, changelog
    read sink and changelog, committed      then make sure that the input has not moved on
    recompute from the input topic          the original statement, as one DuckDB query
    checkers                                one finding per anomaly; the worst wins

None of this runs code of the engine: names of topics and columns come from the Topology, all
meaning from the statement's text.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.chaos.changelog_fold import ChangelogFold
from holdfast.chaos.checkers import TABLE_CHECKERS, judge
from holdfast.chaos.checkers_stream import STREAM_CHECKERS
from holdfast.chaos.decode import InputDecoder, SinkDecoder
from holdfast.chaos.evidence import (
    Key,
    OpenTransaction,
    SinkHistory,
    StreamEvidence,
    TableEvidence,
)
from holdfast.chaos.observe import Lag, Observer
from holdfast.chaos.recompute import InputTable, recompute_stream, recompute_table
from holdfast.chaos.statement import Untranslatable
from holdfast.chaos.translate import BatchQuery, translate
from holdfast.chaos.verdict import Finding, JobVerdict, TableVerdict, Verdict
from holdfast.errors import HoldfastError
from holdfast.types.ids import changelog_topic
from holdfast.types.topology import AggregateStep, Query, Topology

__all__ = ["Oracle", "OracleOptions"]

_ROUNDS = 3  # of reading again when the input moved on meanwhile


@dataclass(frozen=True)
class OracleOptions:
    """How long to wait, in seconds: for the job to catch up, then for open transactions.

    Transactions of killed producers end by themselves after the job's transaction.timeout.ms.
    """

    catch_up_s: float = 120.0
    quiet_s: float = 90.0


@dataclass(frozen=True)
class _Snapshot:
    """One query's topics at a moment when none of them moved."""

    input_bounds: Mapping[int, tuple[int, int]]
    sink_bounds: Mapping[int, tuple[int, int]]
    open_transactions: tuple[OpenTransaction, ...]


class Oracle:
    """Judges one job.

    Args:
        application_id: names the job's groups and changelogs.
        observer: reads its topics.
        tell: gets a line now and then.
    """

    def __init__(
        self,
        application_id: str,
        observer: Observer,
        *,
        options: OracleOptions | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._application_id = application_id
        self._observer = observer
        self._options = options or OracleOptions()
        self._tell = tell

    def judge(self, topology: Topology) -> JobVerdict:
        """The verdict on every table and stream of the job, in the file's order."""
        start = time.monotonic()
        tables = tuple(self._judge_query(query) for query in topology.queries)
        return JobVerdict(self._application_id, tables, time.monotonic() - start)

    def _judge_query(self, query: Query) -> TableVerdict:
        try:
            return self._judged(query)
        except Untranslatable as reason:
            return _unknown(query, "recompute", f"the judge cannot recompute it: {reason}")
        except HoldfastError as error:
            return _unknown(query, "observe", str(error))
        except Exception as error:  # noqa: BLE001 - one table that cannot be judged is unknown
            return _unknown(query, "oracle", f"judging crashed: {type(error).__name__}: {error}")

    def _judged(self, query: Query) -> TableVerdict:
        deadline = time.monotonic() + self._options.catch_up_s
        lag = self._observer.await_caught_up(query, deadline, lambda lag: self._told(query, lag))
        if not lag.caught_up:
            fact = f"it has committed {lag.committed} of {lag.end} input offsets; is it running?"
            return _unknown(query, "catch_up", fact)
        for _ in range(_ROUNDS):
            verdict = self._round(query)
            if verdict is not None:
                return verdict
        return _unknown(query, "catch_up", f"{query.source.topic} is still being written")

    def _told(self, query: Query, lag: Lag) -> None:
        if not lag.caught_up:
            self._tell(f"{query.sink.name}: {lag.committed} of {lag.end} input offsets committed")

    def _round(self, query: Query) -> TableVerdict | None:
        """One reading; None when the input moved on, which makes it worthless."""
        snapshot = self._snapshot(query)
        table = isinstance(query.step, AggregateStep)
        make = self._table if table else self._stream
        verdict = make(query, snapshot)
        moved = self._observer.bounds(query.source.topic) != snapshot.input_bounds
        caught_up = self._observer.lag(query).caught_up
        return verdict if caught_up and not moved else None

    def _snapshot(self, query: Query) -> _Snapshot:
        observer = self._observer
        input_bounds = observer.bounds(query.source.topic)
        deadline = time.monotonic() + self._options.quiet_s
        topics = [query.sink.topic, changelog_topic(self._application_id, query.id)]
        still_open = [
            t for topic in topics if observer.exists(topic)
            for t in observer.await_quiet(topic, deadline)
        ]  # fmt: skip
        return _Snapshot(input_bounds, observer.bounds(query.sink.topic), tuple(still_open))

    def _table(self, query: Query, snapshot: _Snapshot) -> TableVerdict:
        self._tell(f"{query.sink.name}: recomputing from {query.source.topic}")
        batch = translate(query, sorted(snapshot.input_bounds))
        history = self._history(query, batch, snapshot)
        changelog = self._changelog(query)
        table, decoder = self._input(query, batch, snapshot)
        recomputed = recompute_table(batch, query.sink, table)
        evidence = TableEvidence(
            name=query.sink.name,
            input_records=table.records,
            history=history,
            expected=recomputed.rows,
            matches=batch.matches,
            counts=(*batch.growing, *batch.never_shrinking),
            windowed=batch.window is not None,
            changelog_rows=changelog.rows,
            changelog_rows_min=_kept(query, recomputed.groups, recomputed.newest_ms),
            changelog_rows_max=len(recomputed.groups),
            unlevel=tuple(changelog.unlevel(snapshot.input_bounds)),
            dropped_late=changelog.dropped_late(),
            open_transactions=snapshot.open_transactions,
            doubtful=_doubts(snapshot, decoder),
        )
        findings = judge(evidence, TABLE_CHECKERS)
        return TableVerdict(evidence.name, findings, table.records, len(history.rows))

    def _stream(self, query: Query, snapshot: _Snapshot) -> TableVerdict:
        self._tell(f"{query.sink.name}: recomputing from {query.source.topic}")
        sink = query.sink
        batch = translate(query, sorted(snapshot.input_bounds))
        formats = (sink.key_format, sink.value_format)
        decoder = SinkDecoder(sink.key_columns, sink.value_columns, formats, windowed=False)
        actual: Counter[Key] = Counter()
        for record in self._observer.records(sink.topic, snapshot.sink_bounds):
            row = decoder.row(record.value) or {}
            actual[(*decoder.key(record.key), *(row.get(name) for name in batch.values))] += 1
        table, inputs = self._input(query, batch, snapshot)
        columns = (*sink.key_columns, *sink.value_columns)
        evidence = StreamEvidence(
            name=sink.name,
            input_records=table.records,
            actual=actual,
            expected=recompute_stream(batch, columns, table),
            open_transactions=snapshot.open_transactions,
            doubtful=_doubts(snapshot, inputs),
        )
        findings = judge(evidence, STREAM_CHECKERS)
        return TableVerdict(sink.name, findings, table.records, actual.total())

    def _history(self, query: Query, batch: BatchQuery, snapshot: _Snapshot) -> SinkHistory:
        sink = query.sink
        decoder = SinkDecoder(
            sink.key_columns,
            sink.value_columns,
            (sink.key_format, sink.value_format),
            windowed=batch.window is not None,
        )
        history = SinkHistory(batch.growing, batch.never_shrinking)
        for record in self._observer.records(sink.topic, snapshot.sink_bounds):
            history.update(decoder.key(record.key), decoder.row(record.value))
        return history

    def _changelog(self, query: Query) -> ChangelogFold:
        topic = changelog_topic(self._application_id, query.id)
        bounds = self._observer.bounds(topic)
        fold = ChangelogFold(bounds)
        for record in self._observer.records(topic, bounds):
            fold.update(record.partition, record.key, record.value, record.offset)
        return fold

    def _input(
        self, query: Query, batch: BatchQuery, snapshot: _Snapshot
    ) -> tuple[InputTable, InputDecoder]:
        decoder = InputDecoder(query.source, batch.needed)
        table = InputTable(decoder)
        for r in self._observer.records(query.source.topic, snapshot.input_bounds):
            table.add(r.partition, r.offset, r.key, r.value, r.timestamp_ms)
        return table, decoder


def _kept(query: Query, groups: set[Key], newest_ms: int) -> int:
    """Groups whose rows no retention can have removed from the changelog."""
    window = query.step.window if isinstance(query.step, AggregateStep) else None
    if window is None:
        return len(groups)
    oldest = newest_ms - window.retention_ms
    return sum(1 for key in groups if key[-1] >= oldest)


def _doubts(snapshot: _Snapshot, decoder: InputDecoder) -> str:
    """What lets more than one answer be right, in words; empty when nothing does."""
    doubts = []
    deleted = sum(start for start, _ in snapshot.input_bounds.values())
    if deleted:
        doubts.append(f"{deleted} input offsets are deleted by retention and cannot be recomputed")
    gone = sum(start for start, _ in snapshot.sink_bounds.values())
    if gone:
        doubts.append(f"{gone} sink offsets are deleted by retention")
    if decoder.doubtful:
        doubts.append(f"{decoder.doubtful} input values are not of their column's JSON type")
    return "; ".join(doubts)


def _unknown(query: Query, checker: str, fact: str) -> TableVerdict:
    return TableVerdict(query.sink.name, (Finding(checker, Verdict.UNKNOWN, fact),))
