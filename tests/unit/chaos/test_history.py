"""The history file: outcomes find their invocations, and a torn line costs only itself."""

from __future__ import annotations

from pathlib import Path

from holdfast.chaos.history.events import HistoryWriter, Kind, read_history


def test_outcomes_carry_the_number_of_their_invocation(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, "nemesis") as history:
        first = history.invoke("inject", number=0)
        second = history.invoke("inject", number=1)
        history.outcome(Kind.FAIL, "inject", second, why="gone")
        history.state("sample", lag=3)
    events = read_history(tmp_path)
    assert [(e.kind, e.op) for e in events] == [
        (Kind.INVOKE, first), (Kind.INVOKE, second), (Kind.FAIL, second), (Kind.STATE, -1),
    ]  # fmt: skip
    assert first != second
    assert events[2].data == {"why": "gone"}


def test_a_writer_killed_in_a_write_loses_that_line_only(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, "nemesis") as history:
        history.invoke("inject", number=0)
    path = tmp_path / "nemesis.jsonl"
    path.write_bytes(path.read_bytes() + b'{"source":"nemesis","ki')
    with HistoryWriter(tmp_path, "nemesis") as history:
        again = history.invoke("inject", number=1)
    events = read_history(tmp_path)
    assert [e.data["number"] for e in events] == [0, 1]
    assert again != events[0].op


def test_sources_are_merged_by_wall_time(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, "b") as late, HistoryWriter(tmp_path, "a") as early:
        early.state("sample")
        late.state("sample")
    assert [e.source for e in read_history(tmp_path)] == ["a", "b"]
