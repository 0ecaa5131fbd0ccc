"""Gathers the evidence about a statement that is more than one query over one stream."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.judge.evidence import Progress, QueryState, SinkHistory, StreamEvidence, TableEvidence
from holdfast.judge.gather.late import late_bound
from holdfast.judge.gather.snapshot import Snapshot, Stores, stores_of
from holdfast.judge.gather.tables import by_place
from holdfast.judge.read.arrivals import Batches
from holdfast.judge.read.changelog_fold import ChangelogFold, ProgressFold
from holdfast.judge.read.decode import SinkDecoder
from holdfast.judge.read.incarnations import living, place_name
from holdfast.judge.read.marker_story import MarkerStory
from holdfast.judge.read.observe import Observer
from holdfast.judge.recompute.blanks import Blanks
from holdfast.judge.recompute.rebuild import (
    Facts,
    RebuiltStream,
    rebuilt_stream,
    rebuilt_table,
)
from holdfast.judge.recompute.relations import Relation, load
from holdfast.judge.statement.statement import Parts, SourceName, split
from holdfast.judge.statement.translate import needed_columns
from holdfast.judge.statement.units import Unit
from holdfast.judge.values import Key
from holdfast.types.statements.topology import Query, Source, WindowKind

__all__ = ["UnitGatherer"]

_MARKER = b"\x00holdfast.commit"


@dataclass
class _Read:
    """The facts collected while reading one unit."""

    records: int = 0
    doubts: list[str] = field(default_factory=list)
    states: list[QueryState] = field(default_factory=list)
    batches: dict[str, Batches] = field(default_factory=dict)
    state_partitions: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int | None] = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)


class UnitGatherer:
    """Reads the evidence about one job's statements.

    Args:
        application_id: names the job's changelogs.
    """

    def __init__(self, application_id: str, observer: Observer) -> None:
        self._application_id = application_id
        self._observer = observer

    def topics(self, unit: Unit) -> list[str]:
        """The topics that the unit's statements name, and that it is recomputed from.

        Raises:
            Untranslatable: a statement cannot be read.
        """
        return sorted(
            {
                unit.source(name).topic
                for statement in unit.statements
                for name in _names(split(statement[-1].statement))
            }
        )

    def table(self, unit: Unit, snapshot: Snapshot, stores: Stores) -> TableEvidence:
        """The evidence about a table.

        Raises:
            Untranslatable: the judge cannot recompute the statement.
        """
        read = self._queries(unit, snapshot, stores)
        facts = self._facts(unit, unit.statements[0], snapshot, read)
        made = rebuilt_table(facts)
        blanks = Blanks(unit.sink)
        last = facts.queries[-1].id
        dropped = read.dropped.get(last, 0)
        return TableEvidence(
            name=unit.sink.name,
            input_records=read.records,
            history=self._history(unit, snapshot),
            expected=blanks.rows(made.rows, made.matches),
            matches=made.matches,
            progress=_together(read.progress),
            dropped_late=dropped,
            open_transactions=snapshot.open_transactions,
            doubtful="; ".join(read.doubts),
            empty=None if made.empty is None else blanks.row(made.empty, made.matches),
            late=made.late,
            states=read.states,
            late_most=late_bound(
                self._observer, _origin(unit, facts.parts), facts.parts.window, dropped
            ),
        )

    def stream(self, unit: Unit, snapshot: Snapshot, stores: Stores) -> StreamEvidence:
        """The evidence about a stream.

        Raises:
            Untranslatable: the judge cannot recompute a statement that writes to it.
        """
        read = self._queries(unit, snapshot, stores)
        blanks = Blanks(unit.sink)
        made = [
            _blanked(rebuilt_stream(self._facts(unit, statement, snapshot, read)), blanks)
            for statement in unit.statements
        ]
        written = list(map(blanks.record, self._written(unit, snapshot)))
        alone = len(made) == 1
        expected = Counter(key for each in made for _, key in each.ranked)
        possible: Counter[Key] = Counter()
        for each in made:
            possible += each.possible
        return StreamEvidence(
            name=unit.sink.name,
            input_records=read.records,
            actual=Counter(written),
            expected=expected,
            progress=_together(read.progress),
            open_transactions=snapshot.open_transactions,
            doubtful="; ".join(read.doubts),
            possible=possible,
            count=made[0].count if alone else None,
            undetermined="; ".join(filter(None, (each.doubt for each in made))),
            written=written,
            order=made[0].ranked if alone and made[0].ordered else None,
            keys=len(unit.sink.key_columns),
            dropped_late=read.dropped.get(unit.queries[-1].id, 0) if alone else None,
            late=made[0].late if alone else None,
            states=read.states,
        )

    # -- the queries' states -------------------------------------------------------------------

    def _queries(self, unit: Unit, snapshot: Snapshot, stores: Stores) -> _Read:
        read = _Read()
        for query in unit.queries:
            self._query(query, snapshot, read, stores)
        gone = sum(start for start, _ in snapshot.sink.values())
        if gone:
            read.doubts.append(f"{gone} sink offsets are deleted by retention")
        return read

    def _query(self, query: Query, snapshot: Snapshot, read: _Read, stores: Stores) -> None:
        topic = self._markers(query)
        bounds = self._observer.bounds(topic)
        incarnations = self._observer.incarnations
        story = MarkerStory(self._application_id, query.id, incarnations)
        if not query.stateful:
            progress = ProgressFold(story)
            for record in self._observer.records(topic, bounds):
                progress.update(record.key, record.value)
            ends = {(query.source.topic, p): end for p, end in progress.taken_in().items()}
            read.progress.append(self._progress(query, snapshot, ends, story))
            return
        fold, batches = ChangelogFold(bounds, story), Batches(incarnations=incarnations)
        for r in self._observer.records(topic, bounds):
            fold.update(r.partition, r.key, r.value, r.offset)
            if r.key is not None and r.key.startswith(_MARKER) and r.value is not None:
                batches.add(r.partition, json.loads(r.value))
        read.states.append(
            QueryState(query.id, fold.partitions(), stores_of(self._observer, query, stores))
        )
        read.batches[query.id] = batches
        read.state_partitions[query.id] = len(bounds)
        read.dropped[query.id] = fold.dropped_late()
        read.progress.append(self._progress(query, snapshot, batches.ends(), story))

    def _progress(
        self,
        query: Query,
        snapshot: Snapshot,
        taken_in: Mapping[tuple[str, int], int],
        story: MarkerStory,
    ) -> Progress:
        ends: dict[str, int] = {}
        group: dict[str, int] = {}
        for topic in sorted({source.topic for source in query.sources}):
            bounds = living(self._observer.bounds(topic))
            ends |= by_place(topic, {p: end for p, (start, end) in bounds.items() if end > start})
            group |= by_place(topic, snapshot.groups[query.id, topic])
        taken = {place_name(topic, p): end for (topic, p), end in taken_in.items()}
        behind = [
            f"{query.id}: has taken in {place} to {taken.get(place)}, its end is {end}"
            for place, end in ends.items()
            if taken.get(place, 0) < end
        ]
        return Progress(ends, taken, group, behind, story.contradictions)

    def _markers(self, query: Query) -> str:
        return self._observer.marker_topic(query)

    # -- input and output ----------------------------------------------------------------------

    def _facts(
        self, unit: Unit, queries: Sequence[Query], snapshot: Snapshot, read: _Read
    ) -> Facts:
        parts = split(queries[-1].statement)
        relations = [self._relation(unit, name, parts, snapshot, read) for name in _names(parts)]
        facts = Facts(parts, queries, relations, read.batches, read.state_partitions)
        return replace(facts, dropped_late=read.dropped.get(queries[-1].id, 0))

    def _relation(
        self, unit: Unit, name: SourceName, parts: Parts, snapshot: Snapshot, read: _Read
    ) -> Relation:
        source = unit.source(name)
        bounds = snapshot.inputs[source.topic]
        needed = needed_columns(parts, source, *(join.on for join in parts.joins))
        records = self._observer.records(source.topic, bounds)
        relation, decoder = load(name.owner, source, needed, records)
        count = relation.data.num_rows + decoder.undecodable
        read.records += count
        deleted = sum(start for start, _ in bounds.values())
        if deleted:
            read.doubts.append(f"{deleted} offsets of {source.topic} are deleted by retention")
        if decoder.doubtful:
            read.doubts.append(
                f"{decoder.doubtful} input values are not of their column's JSON type"
            )
        whole = sum(end - start for start, end in bounds.values())
        looked_up = source.kind == "TABLE" and unit.sink.kind == "STREAM"
        if looked_up and count < whole and self._observer.compacted(source.topic):
            read.doubts.append(
                f"{source.topic} is compacted: {count} of {whole} offsets are left, so it is "
                "unknown what a stream's record found before"
            )
        return relation

    def _history(self, unit: Unit, snapshot: Snapshot) -> SinkHistory:
        decoder, history = _decoder(unit), SinkHistory()
        for record in self._observer.records(unit.sink.topic, snapshot.sink):
            history.update(decoder.full_key(record.key), decoder.row(record.value))
        return history

    def _written(self, unit: Unit, snapshot: Snapshot) -> Iterator[Key]:
        decoder, names = _decoder(unit), [c.name for c in unit.sink.value_columns]
        width = len(unit.sink.key_columns)
        for record in self._observer.records(unit.sink.topic, snapshot.sink):
            row = decoder.row(record.value) or {}
            yield (*decoder.full_key(record.key)[:width], *(row.get(name) for name in names))


def _blanked(made: RebuiltStream, blanks: Blanks) -> RebuiltStream:
    ranked = [(rank, blanks.record(record)) for rank, record in made.ranked]
    return replace(made, ranked=ranked, possible=blanks.records(made.possible))


def _origin(unit: Unit, parts: Parts) -> Source | None:
    """The only declared source of all the statement's records."""
    return None if parts.joins else unit.origin(unit.source(parts.source))


def _names(parts: Parts) -> list[SourceName]:
    return [parts.source, *(join.right for join in parts.joins)]


def _decoder(unit: Unit) -> SinkDecoder:
    sink = unit.sink
    return SinkDecoder(
        sink.key_columns,
        sink.value_columns,
        (sink.key_format, sink.value_format),
        windowed=sink.window is not None,
        sessions=sink.window is WindowKind.SESSION,
    )


def _together(parts: Sequence[Progress]) -> Progress:
    """The joint progress of several queries; a shared input counts as read by the slowest one."""
    ends = {place: end for each in parts for place, end in each.ends.items()}
    taken: dict[str, int] = {}
    group: dict[str, int] = {}
    for each in parts:
        for place in each.ends:
            taken[place] = min(taken.get(place, each.ends[place]), each.taken_in.get(place, 0))
            group[place] = min(group.get(place, each.ends[place]), each.group.get(place, 0))
    unlevel = [text for each in parts for text in each.unlevel]
    contradictions = [text for each in parts for text in each.contradictions]
    return Progress(ends, taken, group, unlevel, contradictions)
