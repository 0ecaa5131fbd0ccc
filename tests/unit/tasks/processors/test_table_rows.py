"""A table's changes for aggregates, and its WHERE."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.types.columns.schema import BOOLEAN, STRING, Column
from holdfast.types.statements.topology import (
    ChangesStep,
    Format,
    Input,
    Query,
    Sink,
    TableStep,
)
from tests.support.jobs.row_runner import Record, Row, RowRunner, Sent, source_input
from tests.support.values.expressions import source_column

GROUP, VALUE = Column("G", STRING), Column("V", STRING)
_NAMES = ("OLD_G", "NEW_G", "OLD_V", "NEW_V")


def _changes() -> RowRunner:
    source = source_input("T", "TABLE").source
    columns = tuple(source_column(c) for c in (GROUP, VALUE))
    step = ChangesStep(Input(source, source_input("T").keys, columns), 1)
    values = (
        *(Column(name, STRING) for name in _NAMES),
        Column("HAS_OLD", BOOLEAN),
        Column("HAS_NEW", BOOLEAN),
    )
    sink = Sink("C", "STREAM", "c", (GROUP,), values, Format.KAFKA)
    return RowRunner(Query("c", "", source, None, step, sink))


def _record(cause: int, key: str, values: tuple[str | None, str] | None) -> Record:
    named = None if values is None else {"G": values[0], "V": values[1]}
    return Record(0, key.encode(), named, cause, cause)


def _sent(sent: list[Sent]) -> list[tuple[str | None, Any, Any]]:
    """(group, old value, new value), () where there is none."""
    return [
        (
            s.key,
            (s.value["OLD_G"], s.value["OLD_V"]) if s.value["HAS_OLD"] else (),
            (s.value["NEW_G"], s.value["NEW_V"]) if s.value["HAS_NEW"] else (),
        )
        for s in sent
    ]


def test_a_change_within_a_group_is_one_record_and_a_move_two() -> None:
    changes = [("g", "1"), ("g", "2"), ("h", "3"), None, None, ("h", "4")]
    sent = _changes().process([_record(n, "a", c) for n, c in enumerate(changes)])
    assert _sent(sent) == [
        ("g", (), ("g", "1")),
        ("g", ("g", "1"), ("g", "2")),
        ("g", ("g", "2"), ()),
        ("h", (), ("h", "3")),
        ("h", ("h", "3"), ()),
        ("h", (), ("h", "4")),
    ]
    assert [s.cause for s in sent] == [0, 1, 2, 2, 3, 5]


def test_a_row_without_group_is_in_none() -> None:
    changes = [("g", "1"), (None, "2"), ("g", "3")]
    sent = _changes().process([_record(n, "a", c) for n, c in enumerate(changes)])
    assert _sent(sent) == [
        ("g", (), ("g", "1")),
        ("g", ("g", "1"), ()),
        ("g", (), ("g", "3")),
    ]


def test_a_record_without_key_is_dropped() -> None:
    runner = _changes()
    assert runner.process([Record(0, None, {"G": "g", "V": "1"}, 0, 0)]) == []
    assert runner.dropped_null_key == 1


rows = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.one_of(st.none(), st.tuples(st.sampled_from(["g", "h", None]), st.sampled_from("12"))),
    ),
    max_size=25,
)


@given(changes=rows, cut=st.integers(0, 25))
def test_the_changes_add_up_to_the_table_however_batches_are_cut(
    changes: list[tuple[str, tuple[str | None, str] | None]], cut: int
) -> None:
    records = [_record(n, key, values) for n, (key, values) in enumerate(changes)]
    runner = _changes()
    sent = runner.process(records[:cut]) + runner.process(records[cut:])
    groups: dict[str | None, list[Any]] = {}
    for group, old, new in _sent(sent):
        members = groups.setdefault(group, [])
        if old:
            members.remove(old)
        if new:
            members.append(new)
    table = dict(changes)
    expected = sorted(v for v in table.values() if v is not None and v[0] is not None)
    assert sorted(m for members in groups.values() for m in members) == expected


def _where() -> RowRunner:
    each = source_input("T", "TABLE")
    sink = Sink("O", "TABLE", "o", (Column("ID", STRING),), (Column("T", STRING),), Format.KAFKA)
    return RowRunner(Query("o", "", each.source, None, TableStep(each), sink))


def test_only_a_row_that_passed_leaves_a_tombstone() -> None:
    runner = _where()
    sent = runner.send(Row(0, "a", None), Row(0, "a", "x", 1), Row(0, "b", "y", 2))
    sent += runner.send(Row(0, "a", None, 3), Row(0, "a", None, 4), Row(0, None, "z"))
    assert [(s.key, s.value and s.value["T"], s.time) for s in sent] == [
        ("a", "x", 1),
        ("b", "y", 2),
        ("a", None, 3),
    ]
    assert runner.store.rows == 1
    assert runner.dropped_null_key == 1
