"""Steps that see rows, for `explain`: joins, tables, and what a statement inserts or expects."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.sql.explain.words import duration, line, text_of, topic
from holdfast.types.topology import (
    ChangesStep,
    DeduplicateStep,
    Expectation,
    Input,
    Insertion,
    JoinForm,
    JoinStep,
    JoinWindow,
    Query,
    ResolveStep,
    SubscribeStep,
    TableStep,
)

__all__ = ["inputs", "records", "row_step"]

_SIDES = ("left", "right")


def inputs(query: Query) -> Iterator[str]:
    """The lines of each input: its source, and the columns it carries through the shuffle."""
    several = len(query.inputs) > 1
    for place, side in enumerate(query.inputs):
        yield from _input(side, _SIDES[place] if several else "source")


def _input(side: Input, label: str) -> Iterator[str]:
    source = side.source
    yield line(label, f"{source.kind} {source.name}, topic {topic(source)}")
    yield line("filter", text_of(side.filter))
    for key in side.keys:
        yield line("key", f"{key.column} = {key.sql}")
    for column in side.columns:
        yield line("carries", f"{column.column} = {column.sql}")


def row_step(query: Query) -> Iterator[str]:
    """The lines of what the state task does with the rows."""
    step = query.step
    if isinstance(step, JoinStep):
        yield from _join(step)
    elif isinstance(step, ChangesStep):
        yield line("state", "the table's rows by primary key")
        yield line("changes", f"old and new row by {step.groups} grouping expressions")
    elif isinstance(step, TableStep):
        yield line("state", "which keys passed the filter; only those leave a tombstone")
    elif isinstance(step, SubscribeStep):
        yield line("state", "the left table's rows by primary key")
        yield line("sends", f"each row by its foreign key, for a {step.kind} join")
    elif isinstance(step, ResolveStep):
        yield line("state", "the newest version of each left row; older results are dropped")
    elif isinstance(step, DeduplicateStep):
        yield line("state", "each key's times that passed")
        yield line("passes", f"one record of a key within any {duration(step.within_ms)}")
    else:
        raise TypeError(f"{query.id}: no explanation of a {type(step).__name__}")


def _join(step: JoinStep) -> Iterator[str]:
    yield line("join", f"{step.kind} {step.form.replace('_', '-')}")
    if step.window is not None:
        yield line("within", _within(step.window))
    kept = {
        JoinForm.STREAM_STREAM: "both sides' records in the window, by key and time",
        JoinForm.STREAM_TABLE: "all of the table's rows by key, in every state partition"
        if step.broadcast
        else "the table's rows by key",
        JoinForm.TABLE_TABLE: "both tables' rows by key",
        JoinForm.FOREIGN_KEY: "the left rows and the right table, by foreign key",
    }
    yield line("state", kept[step.form])
    yield line("emit", step.emit)
    yield line("where", text_of(step.filter))
    for output in step.outputs:
        yield line("value", f"{output.column} = {output.ref or output.sql}")


def _within(window: JoinWindow) -> str:
    grace = "" if window.grace_ms is None else f", grace {duration(window.grace_ms)}"
    return f"{duration(window.before_ms)} before, {duration(window.after_ms)} after{grace}"


def records(items: tuple[Insertion | Expectation, ...]) -> Iterator[str]:
    """INSERT INTO ... VALUES and ASSERT VALUES."""
    for item in items:
        verb = "Insert into" if isinstance(item, Insertion) else "Expect from"
        yield f"{verb} {item.source.name}, topic {item.source.topic}"
        for value in item.values:
            yield line("value", f"{value.column} = {value.sql}")
