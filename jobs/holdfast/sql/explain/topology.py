"""A Topology as text for people: what runs where, and what each query keeps."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.sql.explain.words import columns, duration, line, messages, text_of, topic
from holdfast.types.ids import changelog_topic
from holdfast.types.statements.topology import (
    AggregateCall,
    AggregateStep,
    ChangesStep,
    DeduplicateStep,
    Emit,
    Expectation,
    Format,
    Input,
    Insertion,
    JoinForm,
    JoinStep,
    JoinWindow,
    NamedExpression,
    ProjectStep,
    Query,
    ResolveStep,
    Source,
    SubscribeStep,
    TableStep,
    Topology,
    Window,
    WindowKind,
)
from holdfast.types.words import counted

__all__ = ["explain"]


def explain(topology: Topology) -> str:
    """Readable text: the sources, each query from source topic to sink topic, the properties."""
    lines = [_summary(topology)]
    properties = dict(topology.properties)
    for source in topology.sources:
        lines += ["", *_declared(source)]
    for query in topology.queries:
        lines += ["", *_query(query, properties)]
    if topology.insertions or topology.expectations:
        lines += ["", *records((*topology.insertions, *topology.expectations))]
    if properties:
        lines += ["", "Properties"]
        lines += [f"  {key} = {value}" for key, value in topology.properties]
    return "\n".join(lines) + "\n"


def _summary(topology: Topology) -> str:
    declared = counted(len(topology.sources), "declared source")
    queries = len(topology.queries)
    return f"Topology: {declared}, {queries} {'query' if queries == 1 else 'queries'}"


def _declared(source: Source) -> Iterator[str]:
    yield f"Source {source.kind} {source.name}"
    yield line("topic", topic(source))
    if source.key_columns:
        yield line("key", columns(source.key_columns))
    yield line("value", columns(source.value_columns))
    yield from messages(source)
    for header in source.headers:
        yield line("header", f"{header.column} = {header.key or 'all headers'}")
    if source.timestamp:
        yield line("event time", _event_time(source))


def _event_time(source: Source) -> str:
    spec = source.timestamp
    if spec is None:
        return "the record's timestamp"
    return spec.column if spec.format is None else f"{spec.column} as {spec.format}"


def _shuffle(query: Query) -> str:
    if query.is_broadcast:
        return "Broadcast of the right rows; the left ones by pmod(topic partition, P)"
    return "Shuffle by key: pmod(hash(key), P)"


def _query(query: Query, properties: dict[str, str]) -> Iterator[str]:
    yield f"Query {query.id}"
    yield from (f"    {line}" for line in query.statement.splitlines())
    if isinstance(query.step, ProjectStep):
        yield "  Sub-topology 0: read, evaluate, write; one transaction per source topic partition"
        yield from _reading(query)
        yield from _projection(query.step)
        yield from _sink(query)
        return
    if isinstance(query.step, AggregateStep):
        yield "  Sub-topology 0: read, evaluate and pack, one task per source topic partition"
        yield from _reading(query)
        yield from _grouping(query.step)
    else:
        yield "  Sub-topology 0: read, evaluate and pack, one task per source topic partition"
        yield from inputs(query)
    yield f"  {_shuffle(query)}, P = " + properties.get("state.partitions", "state.partitions")
    yield "  Sub-topology 1: state task, one transaction per state partition"
    if isinstance(query.step, AggregateStep):
        yield from _state(query, query.step)
        yield from _changelog(query)
        yield from _outputs(query.step)
    else:
        yield from _changelog(query)
        yield from row_step(query)
    yield from _sink(query)


def _reading(query: Query) -> Iterator[str]:
    source = query.source
    yield line("source", f"{source.kind} {source.name}, topic {topic(source)}")
    yield line("event time", _event_time(source))
    yield line("filter", text_of(query.filter))


def _expression(item: NamedExpression) -> str:
    return f"{item.column} = {item.ref or item.sql}"


def _projection(step: ProjectStep) -> Iterator[str]:
    yield line("key", "; ".join(map(_expression, step.keys)) or "none")
    for array in step.explode:
        yield line(
            "rows of", f"{array.name} {array.expression.type.element} = {array.ref or array.sql}"
        )
    for output in step.outputs:
        yield line("value", _expression(output))


def _grouping(step: AggregateStep) -> Iterator[str]:
    for key in step.keys:
        yield line("key", _expression(key))
    if step.window:
        yield line("window", _window(step.window))
    for call in step.aggregates:
        yield line("partial", _call(call))


def _window(window: Window) -> str:
    what = "gap" if window.kind is WindowKind.SESSION else "size"
    parts = [f"{window.kind} {what} {duration(window.size_ms)}"]
    if window.advance_ms != window.size_ms:
        parts.append(f"advance {duration(window.advance_ms)}")
    parts.append(f"grace {duration(window.grace_ms)}")
    parts.append(f"retention {duration(window.retention_ms)}")
    return ", ".join(parts)


def _call(call: AggregateCall) -> str:
    arguments = [*map(str, call.args), *(repr(value) for value in call.literals)]
    return f"{call.name} {call.type} = {call.function}({', '.join(arguments) or '*'})"


def _state(query: Query, step: AggregateStep) -> Iterator[str]:
    codec = query.sink.key_format
    shape = "the bare value" if len(step.keys) == 1 else "an object of the key columns"
    shape = f" ({shape})" if codec is Format.JSON else ""
    suffix = " + window start" if step.window else ""
    yield line("state", f"{'window' if step.window else 'key-value'} store, P state partitions")
    yield line("key codec", f"{codec}{shape} of {columns(k.column for k in step.keys)}{suffix}")
    yield line("merge", ", ".join(a.name for a in step.aggregates))
    if step.undo:
        yield line("takes back", ", ".join(map(_call, step.undo)))
    if step.emit is not Emit.BATCH:
        yield line("emit", step.emit)


def _changelog(query: Query) -> Iterator[str]:
    topic = changelog_topic("<application.id>", query.id)
    yield line("changelog", f"{topic}, P partitions, cleanup.policy=compact")
    yield line("fingerprint", query.fingerprint())


def _outputs(step: AggregateStep) -> Iterator[str]:
    if step.having:
        yield line("having", step.having.sql)
    for output in step.outputs:
        yield line("value", _output(output))


def _output(output: NamedExpression) -> str:
    return f"{output.column} = {output.ref or output.sql}"


def _sink(query: Query) -> Iterator[str]:
    sink = query.sink
    yield line("sink", f"{sink.kind} {sink.name}, topic {topic(sink)}")
    yield line("key", columns(sink.key_columns) or "none")
    yield from messages(sink)
    for key, value in query.properties:
        yield line(key.lower(), value)


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
        yield line("key", f"{key.column} = {key.ref or key.sql}")
    for column in side.columns:
        yield line("carries", f"{column.column} = {column.ref or column.sql}")


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
            yield line("value", f"{value.column} = {value.ref or value.sql}")
