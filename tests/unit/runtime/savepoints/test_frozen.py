"""All queries of a job are frozen where nothing is between two of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.errors import Refused
from holdfast.runtime.queries.batches.lock import Turn
from holdfast.runtime.queries.query_run import Frozen
from holdfast.runtime.savepoints.frozen import Freezer
from holdfast.types.ids import OffsetRange, Place


@dataclass
class _Run:
    """A query that reads a topic and writes another one."""

    id: str
    reads: tuple[str, ...]
    writes: str
    held: bool = False
    waits_for: str = ""
    done: dict[Place, int] = field(default_factory=dict)

    @property
    def query(self) -> Any:
        return SimpleNamespace(id=self.id, sink=SimpleNamespace(topic=self.writes))

    @property
    def source_topics(self) -> tuple[str, ...]:
        return self.reads

    def level_with(self, ends: dict[Place, int]) -> bool:
        return all(self.done.get(place, 0) >= end for place, end in ends.items())


class _Admin:
    """Topics of one partition, and their ends."""

    def __init__(self, **ends: int) -> None:
        self.ends = ends

    def high_watermarks(self, topic: str) -> dict[int, int]:
        return {0: self.ends[topic]}

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        return {0: (0, self.ends[topic])}


def _freezer(runs: list[_Run], admin: _Admin, turn: Turn | None = None) -> Freezer:
    return Freezer(cast("Any", runs), turn or Turn(), cast("Any", admin), 0.3)


def _at(topic: str, offset: int) -> Frozen:
    return Frozen(OffsetRange.of(topic, {0: offset}, {0: offset}))


def test_writers_come_first_whatever_the_order_of_the_statements() -> None:
    last = _Run("last", ("b",), "c", done={("b", 0): 5})
    middle = _Run("middle", ("a",), "b", done={("a", 0): 3})
    first = _Run("first", ("in",), "a")
    freezer = _freezer([last, first, middle], _Admin(a=3, b=5))
    assert [run_.query.id for run_ in freezer._writers_first()] == ["first", "middle", "last"]


def test_no_batch_of_any_query_begins_meanwhile_and_all_go_on_afterwards() -> None:
    runs, turn = [_Run("x", ("in",), "a"), _Run("y", ("in",), "b")], Turn()
    began = threading.Event()

    def batch() -> None:
        with turn.take(lambda: None, query_id="x"):
            began.set()

    thread = threading.Thread(target=batch)
    with _freezer(runs, _Admin(), turn).hold():
        thread.start()
        assert not began.wait(0.2)
    assert began.wait(5)
    thread.join()


def test_a_reader_reads_on_while_its_writer_waits() -> None:
    writer, turn = _Run("writer", ("in",), "a"), Turn()
    reader = _Run("reader", ("a",), "b", done={("a", 0): 1})

    def batch() -> None:
        with turn.take(lambda: None, query_id="reader"):
            reader.done["a", 0] = 4

    thread = threading.Thread(target=batch)
    thread.start()
    freezer = _freezer([reader, writer], _Admin(a=4), turn)
    with freezer.hold():
        assert reader.done == {("a", 0): 4}
        freezer.check({"writer": _at("in", 9), "reader": _at("a", 4)})
    thread.join()


def test_a_batch_that_does_not_end_is_named_with_its_reason() -> None:
    turn = Turn()
    run_ = _Run("slow", ("in",), "a", waits_for="an executor is away")
    with (
        turn.take(lambda: None, query_id="slow"),
        pytest.raises(
            Refused, match=r"(?s)A batch of the job did not end .* slow: an executor is away"
        ),
        _freezer([run_], _Admin(), turn).hold(),
    ):
        pytest.fail("it began")


@pytest.mark.parametrize("held", [False, True])
def test_a_reader_that_is_behind_is_named_with_what_it_has_to_read(held: bool) -> None:
    writer = _Run("writer", ("in",), "a")
    reader = _Run("reader", ("a",), "b", held=held, done={("a", 0): 1})
    freezer = _freezer([writer, reader], _Admin(a=4))
    what = "resume" if held else "wait until it has caught up"
    with (
        pytest.raises(Refused, match=f"(?s)reader has 3 offsets of a to read.*{what}"),
        freezer.hold(),
    ):
        freezer.check({"writer": _at("in", 9), "reader": _at("a", 1)})


def test_records_that_come_later_do_not_count() -> None:
    """Another program may write into a topic that the job writes, all the time."""
    writer = _Run("writer", ("in",), "a")
    reader, admin = _Run("reader", ("a",), "b", done={("a", 0): 4}), _Admin(a=4)
    freezer = _freezer([writer, reader], admin)
    with freezer.hold():
        admin.ends["a"] = 9
        freezer.check({"writer": _at("in", 9), "reader": _at("a", 4)})


def test_a_reader_that_has_committed_nothing_must_have_nothing_to_read() -> None:
    writer, reader = _Run("writer", ("in",), "a"), _Run("reader", ("a",), "b", held=True)
    empty, full = _freezer([writer, reader], _Admin(a=0)), _freezer([writer, reader], _Admin(a=2))
    with empty.hold():
        empty.check({"writer": _at("in", 0), "reader": Frozen()})
    with full.hold(), pytest.raises(Refused, match="reader has 2 offsets of a"):
        full.check({"writer": _at("in", 0), "reader": Frozen()})


def test_a_ring_of_queries_is_refused() -> None:
    runs = [_Run("x", ("b",), "a"), _Run("y", ("a",), "b")]
    with pytest.raises(Refused, match="in a ring"), _freezer(runs, _Admin(a=0, b=0)).hold():
        pytest.fail("it began")
