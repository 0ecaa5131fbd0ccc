"""A job's statements fit a savepoint, and its queries go on from the right offsets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from holdfast.config.settings import Settings, SnapshotSettings, StateSettings
from holdfast.errors import IncompatibleStatement, Refused
from holdfast.runtime.savepoints.bringing_in import _begun, _check_fits, _Offsets
from holdfast.sql import compile_text
from holdfast.state.changelog import CommitMarker
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.snapshots.savepoints import SavedQuery, SavedSource, SavedStore, Savepoint
from holdfast.state.table_store import StorePosition
from holdfast.tasks.bringing_in import shares
from holdfast.transport.cluster.admin import TopicBounds
from holdfast.types.ids import OffsetRange
from holdfast.types.internal_topics import for_application
from holdfast.types.statement_facts import statement_facts
from holdfast.types.topology import Topology

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
            SavedStore(p, 1, time, Manifest("m", position, 1, ())) for p, time in enumerate(times)
        )
        topic = query.source.topic
        queries.append(
            SavedQuery(
                query.id, query.statement, query.sink.name, query.sink.topic, query.sink.internal,
                query.stateful, 2, query.canonical(), statement_facts(query),
                (SavedSource(topic, f"id of {topic}", {0: 7, 1: 9}),), stores,
            )
        )  # fmt: skip
    return Savepoint("s", "old", 1, topology.text, tuple(queries))


class _Admin:
    """Every topic has the same bounds."""

    def look(self, topic: str) -> TopicBounds:
        return TopicBounds(f"now {topic}", {0: (3, 30), 1: (4, 40), 2: (0, 0)})


def test_the_same_statements_under_another_application_and_with_other_sinks_fit() -> None:
    _check_fits(_savepoint(_job("old", "blue")), _job("new", "green").queries, 5)


def test_another_aggregate_does_not_fit() -> None:
    with pytest.raises(IncompatibleStatement, match=r"state of TOTALS was written by another"):
        _check_fits(_savepoint(_job("old", "blue")), _job("new", "green", "SUM(v)").queries, 2)


def test_a_query_that_the_job_lacks_is_named() -> None:
    with pytest.raises(IncompatibleStatement, match="has ctas_levels_changes, ctas_levels, the"):
        _check_fits(_savepoint(_job("old", "blue")), _job("new", "green").queries[:1], 2)


def test_one_that_had_committed_nothing_may_be_left_out_or_differ() -> None:
    found = _savepoint(_job("old", "blue"))
    empty = [
        replace(q, sources=(), stores=(), canonical="", facts="") if q.id == "ctas_totals" else q
        for q in found.queries
    ]
    _check_fits(replace(found, queries=tuple(empty)), _job("new", "green").queries, 2)


@pytest.mark.parametrize(("times", "partitions", "fits"), [
    ((5, 5), 1, True), ((5, 6), 2, True), ((5, 6), 4, True), ((5, 6), 1, False), ((5, 6), 3, False),
])  # fmt: skip
def test_final_results_are_not_made_of_two_event_times(
    times: tuple[int, ...], partitions: int, fits: bool
) -> None:
    topology = compile_text(FINAL)
    if fits:
        _check_fits(_savepoint(topology, times), topology.queries, partitions)
        return
    with pytest.raises(IncompatibleStatement, match="EMIT FINAL"):
        _check_fits(_savepoint(topology, times), topology.queries, partitions)


def test_offsets_of_others_stay_and_those_of_the_job_are_the_new_topics() -> None:
    old, new = _job("old", "blue"), _job("new", "green")
    savepoint = _savepoint(old)
    offsets = _Offsets(cast("Any", _Admin()), savepoint, new.queries)
    totals, changes, levels = (
        offsets.origin(saved, query)
        for saved, query in zip(savepoint.queries, new.queries, strict=True)
    )
    assert totals.source == OffsetRange.of("in", {0: 7, 1: 9}, {0: 7, 1: 9}, "id of in")
    assert totals.kept == {"in"}
    # A sink from its end: everything before was read, or belongs to another job.
    ends = {0: 30, 1: 40, 2: 0}
    assert changes.source == OffsetRange.of("totals-green", ends, ends, "now totals-green")
    internal = new.queries[1].sink.topic
    starts = {0: 3, 1: 4, 2: 0}
    assert levels.source == OffsetRange.of(internal, starts, starts, f"now {internal}")
    assert changes.kept == levels.kept == frozenset()
    assert levels.folder == "old/savepoints/s/ctas_levels"


def _marker(savepoint: str) -> CommitMarker:
    source = OffsetRange.of("in", {0: 1}, {0: 1})
    return CommitMarker(1, "new", "q", 0, 1, "p", "f", "{}", source, 0, 1, savepoint=savepoint)


def test_a_job_has_begun_when_all_of_it_is_there() -> None:
    settings = Settings(
        "new", state=StateSettings(), snapshots=SnapshotSettings("/s", start_from="old/s")
    )
    ours, none = _marker("old/s@1"), _marker("")
    assert not _begun(settings, [None, None])
    assert not _begun(settings, [ours, None])
    assert _begun(settings, [ours, ours])
    assert _begun(settings, [ours, none]), "the savepoint did not have the second query"
    assert not _begun(settings, []), "without state nothing tells"
    for other in (none, _marker("old/s2@1"), _marker("other/s@1")):
        with pytest.raises(Refused, match="has state that began with"):
            _begun(settings, [other, None])


@pytest.mark.parametrize("old", range(1, 13))
@pytest.mark.parametrize("new", range(1, 13))
def test_shares_are_closed_and_cover_everything(old: int, new: int) -> None:
    found = shares(old, new)
    assert sorted(p for share in found for p in share.old) == list(range(old))
    assert sorted(p for share in found for p in share.new) == list(range(new))
    for key in range(old * new * 3):
        (share,) = (s for s in found if key % old in s.old)
        assert key % new in share.new
