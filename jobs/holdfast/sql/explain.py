"""A Topology as text for people: what runs where, and what each query keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.types.ids import changelog_topic
from holdfast.types.schema import Column
from holdfast.types.topology import (
    AggregateCall,
    AggregateStep,
    Format,
    KeyExpression,
    OutputColumn,
    ProjectStep,
    Query,
    Sink,
    Source,
    Topology,
    Window,
)

__all__ = ["explain"]

_LABEL = 13
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))


def explain(topology: Topology) -> str:
    """Readable text: the sources, each query from source topic to sink topic, the properties."""
    lines = [_summary(topology)]
    properties = dict(topology.properties)
    for source in topology.sources:
        lines += ["", *_declared(source)]
    for query in topology.queries:
        lines += ["", *_query(query, properties)]
    if properties:
        lines += ["", "Properties"]
        lines += [f"  {key} = {value}" for key, value in topology.properties]
    return "\n".join(lines) + "\n"


def _summary(topology: Topology) -> str:
    declared = _count(len(topology.sources), "declared source")
    queries = len(topology.queries)
    return f"Topology: {declared}, {queries} {'query' if queries == 1 else 'queries'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _line(label: str, text: str) -> str:
    return f"    {label:<{_LABEL}}{text}"


def _declared(source: Source) -> Iterator[str]:
    yield f"Source {source.kind} {source.name}"
    yield _line("topic", _topic(source))
    if source.key_columns:
        yield _line("key", _columns(source.key_columns))
    yield _line("value", _columns(source.value_columns))
    if source.timestamp:
        yield _line("event time", _event_time(source))


def _topic(of: Source | Sink) -> str:
    parts = [of.topic]
    if of.partitions is not None:
        parts.append(_count(of.partitions, "partition"))
    if of.replicas is not None:
        parts.append(_count(of.replicas, "replica"))
    key = of.key_format if of.key_columns else Format.NONE
    return ", ".join([*parts, f"key {key}", f"value {of.value_format}"])


def _columns(columns: Iterable[Column]) -> str:
    return ", ".join(str(c) for c in columns)


def _event_time(source: Source) -> str:
    spec = source.timestamp
    if spec is None:
        return "the record's timestamp"
    return spec.column if spec.format is None else f"{spec.column} as {spec.format}"


def _query(query: Query, properties: dict[str, str]) -> Iterator[str]:
    yield f"Query {query.id}"
    yield from (f"    {line}" for line in query.statement.splitlines())
    if isinstance(query.step, ProjectStep):
        yield "  Sub-topology 0: ingest, Spark SQL, one transaction per source topic partition"
        yield from _reading(query)
        yield from _projection(query.step)
        yield from _sink(query)
        return
    if not isinstance(query.step, AggregateStep):
        raise TypeError(f"{query.id}: no explanation of a {type(query.step).__name__}")
    yield "  Sub-topology 0: ingest, Spark SQL, partial aggregation on the map side"
    yield from _reading(query)
    yield from _grouping(query.step)
    yield "  Shuffle by key: pmod(hash(key), P), P = " + properties.get(
        "state.partitions", "state.partitions"
    )
    yield "  Sub-topology 1: state task, one transaction per state partition"
    yield from _state(query, query.step, properties)
    yield from _outputs(query.step)
    yield from _sink(query)


def _reading(query: Query) -> Iterator[str]:
    source = query.source
    yield _line("source", f"{source.kind} {source.name}, topic {_topic(source)}")
    yield _line("event time", _event_time(source))
    yield _line("filter", query.filter or "none")


def _expression(item: KeyExpression) -> str:
    return f"{item.column} = {item.spark}"


def _projection(step: ProjectStep) -> Iterator[str]:
    yield _line("key", "; ".join(map(_expression, step.keys)) or "none")
    for output in step.outputs:
        yield _line("value", _expression(output))


def _grouping(step: AggregateStep) -> Iterator[str]:
    for key in step.keys:
        yield _line("key", _expression(key))
    if step.window:
        yield _line("window", _window(step.window))
    for call in step.aggregates:
        yield _line("partial", _call(call))


def _window(window: Window) -> str:
    parts = [f"{window.kind} size {_duration(window.size_ms)}"]
    if window.advance_ms != window.size_ms:
        parts.append(f"advance {_duration(window.advance_ms)}")
    parts.append(f"grace {_duration(window.grace_ms)}")
    parts.append(f"retention {_duration(window.retention_ms)}")
    return ", ".join(parts)


def _duration(length_ms: int) -> str:
    for unit_ms, noun in _UNITS:
        if length_ms and length_ms % unit_ms == 0:
            return _count(length_ms // unit_ms, noun)
    return f"{length_ms} ms"


def _call(call: AggregateCall) -> str:
    arguments = [*call.args, *(repr(value) for value in call.literals)]
    return f"{call.name} {call.type} = {call.function}({', '.join(arguments) or '*'})"


def _state(query: Query, step: AggregateStep, properties: dict[str, str]) -> Iterator[str]:
    codec = query.sink.key_format
    shape = "the bare value" if len(step.keys) == 1 else "an object of the key columns"
    shape = f" ({shape})" if codec is Format.JSON else ""
    suffix = " + window start" if step.window else ""
    yield _line("state", f"{'window' if step.window else 'key-value'} store, P state partitions")
    yield _line("key codec", f"{codec}{shape} of {_columns(k.column for k in step.keys)}{suffix}")
    yield _line("merge", ", ".join(a.name for a in step.aggregates))
    application = properties.get("application.id", "<application.id>")
    topic = changelog_topic(application, query.id)
    yield _line("changelog", f"{topic}, P partitions, cleanup.policy=compact")
    yield _line("fingerprint", query.fingerprint())


def _outputs(step: AggregateStep) -> Iterator[str]:
    if step.having:
        yield _line("having", step.having)
    for output in step.outputs:
        yield _line("value", _output(output))


def _output(output: OutputColumn) -> str:
    return f"{output.column} = {output.ref or output.duckdb}"


def _sink(query: Query) -> Iterator[str]:
    sink = query.sink
    yield _line("sink", f"{sink.kind} {sink.name}, topic {_topic(sink)}")
    yield _line("key", _columns(sink.key_columns) or "none")
    for key, value in query.properties:
        yield _line(key.lower(), value)
