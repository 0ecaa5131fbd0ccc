from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import IncompatibleStatement
from holdfast.state.changelog import MARKER_KEY, CommitMarker, StateKeys, data_key, data_keys
from holdfast.types.ids import OffsetRange
from tests.unit.state.changelog_model import marker

OFFSETS = st.dictionaries(st.integers(0, 99), st.integers(0, 2**62), max_size=4)


@given(
    topic=st.text(max_size=20),
    start=OFFSETS,
    end=OFFSETS,
    canonical=st.text(max_size=50),
    stream_time_ms=st.integers(-(2**62), 2**62),
)
def test_a_marker_survives_its_bytes(
    topic: str, start: dict[int, int], end: dict[int, int], canonical: str, stream_time_ms: int
) -> None:
    source = OffsetRange.of(topic, start, end)
    assert source.starts() == {(topic, p): at for p, at in start.items() if p in end}
    told = replace(
        marker(7),
        source=source,
        canonical=canonical,
        stream_time_ms=stream_time_ms,
    )
    assert CommitMarker.from_bytes(told.to_bytes()) == told


def test_a_marker_of_several_topics_survives_its_bytes() -> None:
    ends = {("a", 0): 5, ("b", 0): 7, ("b", 1): 9}
    source = OffsetRange.over(["b", "a"], dict.fromkeys(ends, 1), ends)
    told = replace(marker(7), source=source)
    read = CommitMarker.from_bytes(told.to_bytes())
    assert read == told
    assert (read.source.topics, read.source.ends()) == (("b", "a"), ends)


B, A0, A1 = ("b", 0), ("a", 0), ("a", 1)


_OF_BOTH = (
    '{"topic":"b","start":[[0,1]],"end":[[0,2]],"others":[{"topic":"a","start":[[0,0],[1,2]],'
    '"end":[[0,3],[1,4]],"others":[],"topic_id":"id-a"}]}'
)
_OF_AN_EMPTY_ONE = (
    '{"topic":"b","start":[[0,1]],"end":[[0,2]],"others":[{"topic":"a","start":[],"end":[],'
    '"others":[]}],"topic_id":"id-b"}'
)


@pytest.mark.parametrize(
    ("source", "written"),
    [
        (
            OffsetRange.of("t", {1: 4, 0: 3}, {1: 9, 0: 5}),
            '{"topic":"t","start":[[0,3],[1,4]],"end":[[0,5],[1,9]]}',
        ),
        (
            OffsetRange.of("t", {0: 3}, {0: 5, 1: 0}, "id-t"),
            '{"topic":"t","start":[[0,3]],"end":[[0,5],[1,0]],"topic_id":"id-t"}',
        ),
        (
            OffsetRange.over(["b", "a"], {B: 1, A1: 2, A0: 0}, {B: 2, A1: 4, A0: 3}, {"a": "id-a"}),
            _OF_BOTH,
        ),
        (OffsetRange.over(["b", "a"], {B: 1}, {B: 2}, {"b": "id-b"}), _OF_AN_EMPTY_ONE),
    ],
)
def test_a_marker_s_offsets_are_written_as_they_always_were(
    source: OffsetRange, written: str
) -> None:
    """Older versions read them, after a rollback; these bytes were written by one."""
    told = replace(marker(7), source=source)
    assert f',"source":{written},"stream_time_ms":'.encode() in told.to_bytes()
    assert CommitMarker.from_bytes(told.to_bytes()) == told


def test_a_marker_of_a_newer_version_is_refused_with_both_versions() -> None:
    newer = json.dumps({"format_version": 2, "anything": "else"}).encode()
    with pytest.raises(IncompatibleStatement, match="version 2; this Holdfast knows 1"):
        CommitMarker.from_bytes(newer)


def test_data_keys_are_made_once_of_keys_that_are_asked_again() -> None:
    keys = [b"", b"a", MARKER_KEY]
    asked = StateKeys(pa.array(keys, pa.binary()))
    assert list(data_keys(asked)) == data_keys(keys) == [data_key(key) for key in keys]
    assert data_keys(asked) is data_keys(asked)
    assert list(asked) == keys


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"{}", b'{"format_version": 1}'])
def test_what_is_no_marker_is_refused(data: bytes) -> None:
    with pytest.raises(IncompatibleStatement, match=f"of {len(data)} bytes cannot be read"):
        CommitMarker.from_bytes(data)


@given(st.binary(max_size=20))
def test_no_state_key_can_be_the_marker_s(state_key: bytes) -> None:
    assert data_key(state_key) != MARKER_KEY
