"""A job's statements fit a savepoint, and its queries go on from the right offsets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.config.settings import Settings, SnapshotSettings
from holdfast.errors import DataLoss, IncompatibleStatement, Refused
from holdfast.runtime.insertions import insertion_names
from holdfast.runtime.savepoints.first_start import FirstStart
from holdfast.runtime.savepoints.fitting import check_fits
from holdfast.runtime.savepoints.offsets import Offsets, check_offsets
from holdfast.sql import compile_text
from holdfast.state.changelog import CommitMarker
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.snapshots.savepoints import (
    SavedQuery,
    SavedSource,
    SavedStore,
    Savepoint,
    SavepointPlace,
)
from holdfast.state.table_store import StorePosition
from holdfast.state.topics.orders import Beginning
from holdfast.tasks.heirs import shares
from holdfast.transport.cluster.admin import TopicBounds
from holdfast.types.ids import OffsetRange
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.internal_topics import for_application
from holdfast.types.statements.topology import Query, Topology

TABLES = """
CREATE STREAM s (k STRING KEY, v BIGINT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');
CREATE TABLE totals WITH (KAFKA_TOPIC='{totals}') AS SELECT k, {what} AS n FROM s GROUP BY k;
CREATE TABLE levels WITH (KAFKA_TOPIC='{levels}') AS
  SELECT n, COUNT(*) AS keys FROM totals GROUP BY n;
"""
FINAL = """
CREATE STREAM s (k STRING KEY, v BIGINT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE)
  GROUP BY k EMIT FINAL;
"""


def _job(application: str, side: str, what: str = "COUNT(*)") -> Topology:
    text = TABLES.format(totals=f"totals-{side}", levels=f"levels-{side}", what=what)
    return for_application(compile_text(text), application)


def _savepoint(topology: Topology, times: tuple[int, ...] = (5, 5)) -> Savepoint:
    queries = []
    for query in topology.queries:
        position = StorePosition("id", 1, 1, "f")
        stores = tuple(
            SavedStore(p, 1, _marker(query, time), Manifest("m", position, 1, ()))
            for p, time in enumerate(times)
        )
        topic = query.source.topic
        queries.append(
            SavedQuery(
                query.id, query.statement, query.sink.name, query.sink.topic, query.sink.internal,
                query.stateful, 2, statement_facts(query),
                (SavedSource(topic, f"id of {topic}", {0: 7, 1: 9}),), stores,
            )
        )  # fmt: skip
    return Savepoint("s", "old", "a1", 1, topology.text, tuple(queries))


def _marker(query: Query, time: int) -> str:
    source = OffsetRange.of("in", {0: 1}, {0: 1})
    marker = CommitMarker(1, "old", query.id, 0, 2, "p", "f", query.canonical(), source, time, 1)
    return marker.to_bytes().decode()


class _Admin:
    """Every topic has the same bounds; `waited` are those whose transactions have ended."""

    def __init__(self, ids: str = "now {}") -> None:
        self.ids = ids
        self.waited: list[str] = []
        self.topics: set[str] = set()

    def look(self, topic: str) -> TopicBounds:
        return TopicBounds(self.ids.format(topic), self.bounds(topic))

    def bounds(self, _: str) -> dict[int, tuple[int, int]]:
        return {0: (3, 30), 1: (4, 40), 2: (0, 0)}

    def await_ended(self, topic: str, partition: int, timeout_s: float) -> None:
        assert timeout_s > 60, "longer than a transaction may be open"
        self.waited.append(f"{topic} {partition}")

    def describe(self, topic: str) -> None:
        assert topic not in self.topics

    def committed(self, group: str, _: str) -> dict[int, int]:
        return {0: 1} if group in self.topics else {}


def test_the_same_statements_under_another_application_and_with_other_sinks_fit() -> None:
    check_fits(_savepoint(_job("old", "blue")), _job("new", "green").queries, 5)


def test_another_aggregate_does_not_fit() -> None:
    with pytest.raises(IncompatibleStatement, match=r"state of TOTALS was written by another"):
        check_fits(_savepoint(_job("old", "blue")), _job("new", "green", "SUM(v)").queries, 2)


def test_a_query_that_the_job_lacks_is_named() -> None:
    with pytest.raises(IncompatibleStatement, match="has ctas_levels_changes, ctas_levels, the"):
        check_fits(_savepoint(_job("old", "blue")), _job("new", "green").queries[:1], 2)


def test_one_that_had_committed_nothing_may_be_left_out_or_differ() -> None:
    found = _savepoint(_job("old", "blue"))
    empty = [
        replace(q, sources=(), stores=(), facts="") if q.id == "ctas_totals" else q
        for q in found.queries
    ]
    check_fits(replace(found, queries=tuple(empty)), _job("new", "green").queries, 2)


@pytest.mark.parametrize(("times", "partitions", "fits"), [
    ((5, 5), 1, True), ((5, 6), 2, True), ((5, 6), 4, True), ((5, 6), 1, False), ((5, 6), 3, False),
])  # fmt: skip
def test_final_results_are_not_made_of_two_event_times(
    times: tuple[int, ...], partitions: int, fits: bool
) -> None:
    topology = compile_text(FINAL)
    if fits:
        check_fits(_savepoint(topology, times), topology.queries, partitions)
        return
    with pytest.raises(IncompatibleStatement, match="EMIT FINAL"):
        check_fits(_savepoint(topology, times), topology.queries, partitions)


def test_a_column_may_have_the_name_of_a_topic() -> None:
    text = TABLES.format(totals="N", levels="levels", what="COUNT(*)")
    old = for_application(compile_text(text), "old")
    check_fits(_savepoint(old), _job("new", "green").queries, 2)


def test_a_stream_that_insert_into_writes_needs_another_topic() -> None:
    text = """
    CREATE STREAM a (k STRING KEY, v BIGINT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
    CREATE STREAM every (k STRING KEY, v BIGINT)
      WITH (KAFKA_TOPIC='{}', VALUE_FORMAT='JSON', PARTITIONS=1);
    INSERT INTO every SELECT * FROM a;
    CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM every GROUP BY k;
    """
    old = compile_text(text.format("every"))
    check_fits(_savepoint(old), compile_text(text.format("other")).queries, 2)
    with pytest.raises(IncompatibleStatement, match="ctas_t reads every, which INSERT INTO"):
        check_fits(_savepoint(old), old.queries, 2)


def test_offsets_of_others_stay_and_those_of_the_job_are_the_new_topics() -> None:
    old, new = _job("old", "blue"), _job("new", "green")
    savepoint, admin = _savepoint(old), _Admin()
    offsets = Offsets(cast("Any", admin), Settings("new"), savepoint, new.queries)
    totals, changes, levels = (
        offsets.origin(saved, query)
        for saved, query in zip(savepoint.queries, new.queries, strict=True)
    )
    assert totals.source == OffsetRange.of("in", {0: 7, 1: 9}, {0: 7, 1: 9}, "id of in")
    assert totals.kept == {"in"}
    # A sink from its end: everything before was read, or belongs to another job.
    ends = {0: 30, 1: 40, 2: 0}
    assert changes.source == OffsetRange.of("totals-green", ends, ends, "now totals-green")
    assert admin.waited == [f"totals-green {p}" for p in range(3)], "for those of that job"
    internal = new.queries[1].sink.topic
    starts = {0: 3, 1: 4, 2: 0}
    assert levels.source == OffsetRange.of(internal, starts, starts, f"now {internal}")
    assert changes.kept == levels.kept == frozenset()
    assert levels.folder == "old/savepoints/s/a1/ctas_levels"


@pytest.mark.parametrize(("offsets", "ids", "wrong"), [
    ({0: 3, 1: 40}, "id of {}", ""),
    ({0: 2}, "id of {}", "stands at offset 2 of in partition 0 in the savepoint; the topic has 3"),
    ({1: 41}, "id of {}", "the topic has 4..40"),
    ({7: 0}, "id of {}", "the topic has 0..-1"),
    ({0: 3}, "another {}", "belong to one with the id id of in"),
])  # fmt: skip
def test_lost_records_are_told_before_anything_is_brought_in(
    offsets: dict[int, int], ids: str, wrong: str
) -> None:
    new = _job("new", "green")
    found = _savepoint(_job("old", "blue"))
    first = replace(found.queries[0], sources=(SavedSource("in", "id of in", offsets),))
    savepoint = replace(found, queries=(first,))
    admin, settings = cast("Any", _Admin(ids)), Settings("new")
    if not wrong:
        check_offsets(admin, settings, savepoint, new.queries)
        return
    with pytest.raises(DataLoss, match=wrong):
        check_offsets(admin, settings, savepoint, new.queries)
    if "belong to" in wrong:
        copied = replace(settings, snapshots=SnapshotSettings("/s", topics="copied"))
        check_offsets(admin, copied, savepoint, new.queries)
        origin = Offsets(admin, copied, savepoint, new.queries).origin(first, new.queries[0])
        assert origin.source.ids == {"in": "another in"}
    careless = replace(settings, ingest=replace(settings.ingest, fail_on_data_loss=False))
    check_offsets(admin, careless, savepoint, new.queries)


def test_a_sink_that_was_not_read_and_has_results_by_now_is_not_taken_over() -> None:
    job = _job("old", "blue")
    found = _savepoint(job)
    unread = replace(found.queries[1], sources=(), stores=())
    savepoint = replace(found, queries=(unread, *found.queries[2:]))
    admin = cast("Any", _Admin("id of {}"))
    check_offsets(admin, Settings("new"), savepoint, _job("new", "green").queries)
    known = replace(savepoint, queries=(found.queries[0], *savepoint.queries))
    with pytest.raises(Refused, match="had read nothing of totals-blue"):
        check_offsets(admin, Settings("new"), known, _job("new", "blue").queries)


class _Book:
    """The control topic."""

    def __init__(self, beginning: Beginning | None = None) -> None:
        self.beginning = beginning

    def refresh(self) -> bool:
        return True

    def begin_with(self, beginning: Beginning) -> None:
        self.beginning = beginning


def _first_start(
    tmp_path: Path, book: _Book, start_from: str = "old/s", admin: _Admin | None = None
) -> FirstStart:
    settings = Settings("new", snapshots=SnapshotSettings(str(tmp_path), start_from=start_from))
    topology = _job("new", "green")
    any_admin, any_book = cast("Any", admin or _Admin("id of {}")), cast("Any", book)
    return FirstStart(any_admin, settings, topology, any_book)


@pytest.fixture
def place(tmp_path: Path) -> SavepointPlace:
    found = SavepointPlace(str(tmp_path), "old")
    found.write(_savepoint(_job("old", "blue")))
    return found


def test_a_job_begins_with_a_savepoint_once(tmp_path: Path, place: SavepointPlace) -> None:
    savepoint = _first_start(tmp_path, _Book()).look()
    assert savepoint == place.read("s")
    half = Beginning(savepoint.reference)
    assert _first_start(tmp_path, _Book(half)).look() == savepoint
    place.delete("s")
    done = _Book(replace(half, done=True))
    assert _first_start(tmp_path, done).look() is None
    assert _first_start(tmp_path, done, "").look() is None
    assert _first_start(tmp_path, _Book(), "").look() is None


def test_nor_with_another_one(tmp_path: Path, place: SavepointPlace) -> None:
    other = _Book(Beginning("old/s2@a1", done=True))
    with pytest.raises(Refused, match="began with the savepoint old/s2"):
        _first_start(tmp_path, other).look()
    again = _Book(Beginning("old/s@a0"))  # made again under its name
    for start_from in ("old/s", ""):
        with pytest.raises(Refused, match="begun with savepoint old/s@a0, and not all of it"):
            _first_start(tmp_path, again, start_from).look()
    with pytest.raises(Refused, match="savepoint of this job itself"):
        _first_start(tmp_path, _Book(), "new/s").look()


def test_nor_if_it_has_committed_anything(tmp_path: Path, place: SavepointPlace) -> None:
    admin = _Admin("id of {}")
    admin.topics.add("new-ctas_levels")
    with pytest.raises(Refused, match="of its own: ctas_levels has committed"):
        _first_start(tmp_path, _Book(), admin=admin).look()


class _Run:
    """A query that is brought in, until a driver dies."""

    def __init__(self, query: Query, brought: list[str], dies: str) -> None:
        self.query = query
        self._brought = brought
        self._dies = dies

    def claim_sink(self) -> None:
        """Nobody else has it."""

    def bring_in(self, _: object) -> None:
        if self.query.id == self._dies:
            raise KeyboardInterrupt
        self._brought.append(self.query.id)


@pytest.mark.usefixtures("place")
def test_a_start_that_was_ended_is_made_up_for(tmp_path: Path) -> None:
    queries, book = _job("new", "green").queries, _Book()
    brought: list[str] = []
    runs = cast("Any", [_Run(query, brought, "ctas_levels") for query in queries])
    with pytest.raises(KeyboardInterrupt):
        _first_start(tmp_path, book).bring_in(runs)
    assert book.beginning == Beginning("old/s@a1")
    again = cast("Any", [_Run(query, brought, "") for query in queries])
    _first_start(tmp_path, book).bring_in(again)
    assert brought[-3:] == [query.id for query in queries], "those that are there do nothing"
    assert book.beginning == Beginning("old/s@a1", done=True)
    _first_start(tmp_path, book).bring_in(again)
    assert len(brought) == 5


def test_insertions_into_own_topics_are_known_by_their_new_names(tmp_path: Path) -> None:
    text = (
        "CREATE STREAM s (k STRING KEY, v BIGINT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');"
        "CREATE STREAM a WITH (KAFKA_TOPIC='{}') AS SELECT * FROM s;"
        "INSERT INTO a VALUES ('x', 1); INSERT INTO s VALUES ('y', 2);"
        "INSERT INTO a VALUES ('x', 1);"
    )
    old, new = compile_text(text.format("a1")), compile_text(text.format("a2"))
    names = tuple(name.decode() for name in insertion_names(old.insertions))
    savepoint = replace(_savepoint(old, ()), insertions=names)
    start = _first_start(tmp_path, _Book())
    start._topology = new
    assert start._insertions(savepoint) == list(insertion_names(new.insertions))
    assert [*insertion_names(new.insertions)][1] == names[1].encode(), "another program's topic"


@pytest.mark.parametrize("old", range(1, 13))
@pytest.mark.parametrize("new", range(1, 13))
def test_shares_are_closed_and_cover_everything(old: int, new: int) -> None:
    found = shares(old, new)
    assert sorted(p for share in found for p in share.old) == list(range(old))
    assert sorted(p for share in found for p in share.new) == list(range(new))
    for key in range(old * new * 3):
        (share,) = (s for s in found if key % old in s.old)
        assert key % new in share.new
