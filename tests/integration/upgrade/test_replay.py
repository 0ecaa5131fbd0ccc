"""This version computes the keys and rows that earlier releases wrote, byte by byte."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from holdfast.errors import IncompatibleStatement
from holdfast.state.changelog import MARKER_KEY, CommitMarker
from holdfast.state.topics.source_progress import SourceProgress
from holdfast.tasks.compatibility import check_marker, check_progress
from holdfast.tasks.processors.aggregates.elements import ElementCodec
from holdfast.tasks.processors.aggregates.state import StateColumns
from holdfast.types.ids import changelog_topic, progress_topic
from holdfast.types.statements.topology import AggregateStep, Emit, Query
from tests.integration.upgrade.replay import differences, transactions
from tests.integration.upgrade.written import (
    APPLICATION,
    FOLDER,
    RELEASES,
    STATE_PARTITIONS,
    Record,
    Written,
    compiled,
    topology_of,
)


@cache
def _written(release: str) -> Written:
    return Written.of(release)


@cache
def _queries(release: str) -> dict[str, Query]:
    return {query.id: query for query in topology_of(release).queries}


_ALL = [(release, query_id) for release in RELEASES for query_id in _queries(release)]
_KEPT = [(release, q) for release, q in _ALL if _queries(release)[q].stateful]


def _changelog(release: str, query_id: str) -> list[list[Record]]:
    return list(map(list, _written(release).topics[changelog_topic(APPLICATION, query_id)]))


@pytest.mark.parametrize(("release", "query_id"), _ALL)
def test_what_was_written_is_computed_again(release: str, query_id: str) -> None:
    found = differences(_written(release), _queries(release)[query_id])
    assert found == []


def test_every_statement_wrote_something() -> None:
    for release, query_id in _ALL:
        query, written = _queries(release)[query_id], _written(release)
        assert any(written.topics[query.sink.topic]), query_id
        if query.stateful:
            for records in _changelog(release, query_id):
                assert len(list(transactions(records))) > 1, query_id


@pytest.mark.parametrize(("release", "query_id"), _KEPT)
def test_markers_are_of_the_statement(release: str, query_id: str) -> None:
    query = _queries(release)[query_id]
    for partition, records in enumerate(_changelog(release, query_id)):
        for each in transactions(records):
            owner = f"{APPLICATION}/{query_id}/{partition}"
            check_marker(each.marker, query, STATE_PARTITIONS, owner=owner)
        for record in records:
            if record.key == MARKER_KEY:
                assert record.value is not None
                assert CommitMarker.from_bytes(record.value).to_bytes() == record.value


@pytest.mark.parametrize(("release", "query_id"), _KEPT)
def test_rows_are_encoded_as_they_were(release: str, query_id: str) -> None:
    step = _queries(release)[query_id].step
    if not isinstance(step, AggregateStep) or step.emit is Emit.FINAL:
        return  # the rows of other steps are encoded where they are computed again
    codec = StateColumns(step).codec
    if isinstance(codec, ElementCodec):  # it writes other rows now, and reads these
        codec = codec._former
    for records in _changelog(release, query_id):
        rows = [row for each in transactions(records) for row in each.rows.values() if row]
        times, _, columns = codec.decode(rows)
        assert list(codec.encode(times, columns)) == rows


@pytest.mark.parametrize(("release", "query_id"), [each for each in _ALL if each not in _KEPT])
def test_progress_is_of_the_statement(release: str, query_id: str) -> None:
    topic = progress_topic(APPLICATION, query_id)
    records = [record for part in _written(release).topics[topic] for record in part]
    assert records
    for record in records:
        assert record.value is not None
        marker = SourceProgress.from_bytes(record.value)
        assert marker.to_bytes() == record.value
        check_progress(marker, _queries(release)[query_id])


# -- a test of these tests ---------------------------------------------------------------------


def _first_row(records: list[Record]) -> int:
    """The place of the first row whose key is not empty."""
    rows = (i for i, r in enumerate(records) if r.key != MARKER_KEY and len(r.key or b"") > 1)
    return next(rows)


def _flipped(record: Record, what: str) -> Record:
    """The record with another last bit of its key, or of its value."""
    assert record.key
    assert record.value
    if what == "key":
        return record._replace(key=record.key[:-1] + bytes([record.key[-1] ^ 1]))
    return record._replace(value=record.value[:-1] + bytes([record.value[-1] ^ 1]))


@pytest.mark.parametrize("what", ["key", "value"])
def test_one_byte_of_a_record_makes_a_difference(what: str) -> None:
    release, query_id = RELEASES[0], "ctas_by_string"
    query, written = _queries(release)[query_id], _written(release)
    changelog = _changelog(release, query_id)
    at = _first_row(changelog[0])
    changelog[0][at] = _flipped(changelog[0][at], what)
    topics = {**written.topics, changelog_topic(APPLICATION, query_id): changelog}
    assert differences(replace(written, topics=topics), query) != []


def test_another_expression_makes_a_difference() -> None:
    release, query_id = RELEASES[0], "ctas_by_upper"
    other = (FOLDER / release / "job.sql").read_text().replace("UCASE(name)", "LCASE(name)")
    query = next(q for q in compiled(other).queries if q.id == query_id)
    found = differences(_written(release), query)
    assert any("canonical was" in each for each in found)
    assert any("the key b'ANN' is missing" in each for each in found)


def test_another_canonical_text_is_another_statement() -> None:
    release, query_id = RELEASES[0], "ctas_by_upper"
    query = _queries(release)[query_id]
    marker = next(transactions(_changelog(release, query_id)[0])).marker
    told = marker.canonical.replace("upper", "UPPER")
    assert told != marker.canonical
    with pytest.raises(IncompatibleStatement):
        check_marker(replace(marker, canonical=told), query, STATE_PARTITIONS,
                     owner=f"{APPLICATION}/{query_id}/0")  # fmt: skip
