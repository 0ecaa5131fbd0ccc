"""Lineage of columns: from which columns of which topics each column of a result comes.

The steps of one statement are seen as one: what they pass on in internal topics is followed to the
topics that somebody declared.  What comes from no column (COUNT(*), a constant, the time of a
record without TIMESTAMP) has no origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.types.statements.expressions import Expression, NamedExpression
from holdfast.types.statements.topology import (
    TIMESTAMP,
    AggregateStep,
    ChangesStep,
    DeduplicateStep,
    JoinKind,
    JoinStep,
    ProjectStep,
    Query,
    Sink,
    Source,
    Topology,
)

__all__ = ["Column", "Kind", "Lineage", "Origin", "Relation", "lineage"]


class Kind(StrEnum):
    """How a column takes part, by OpenLineage's names: in values, or in which rows there are."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    FILTER = "FILTER"
    GROUP_BY = "GROUP_BY"
    JOIN = "JOIN"
    WINDOW = "WINDOW"


_STRONGER = (Kind.IDENTITY, Kind.TRANSFORMATION, Kind.AGGREGATION)
_ROWTIME = "ROWTIME"


@dataclass(frozen=True, order=True)
class Origin:
    """A column of a topic, and how it takes part."""

    topic: str
    column: str
    kind: Kind


@dataclass(frozen=True)
class Column:
    """A column with its type; `origins`: what its values are made of."""

    name: str
    type: str
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True)
class Relation:
    """A stream or table over a topic; `kind` is STREAM or TABLE."""

    name: str
    kind: str
    topic: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Lineage:
    """The lineage of one statement: what it reads and writes, and from which columns.

    Attributes:
        rows: the columns that decide which rows there are, whatever column one looks at.
    """

    query: str
    statement: str
    inputs: tuple[Relation, ...]
    output: Relation
    rows: tuple[Origin, ...]


_Origins = tuple[Origin, ...]
_Fields = Mapping[str, _Origins]


@dataclass(frozen=True)
class _Written:
    """The origins of the columns and rows that a query has written, and its declared sources."""

    fields: _Fields
    rows: _Origins
    sources: tuple[Source, ...]


def lineage(topology: Topology) -> tuple[Lineage, ...]:
    """The lineage of each statement that makes a stream or a table, in their order."""
    internal: dict[str, _Written] = {}
    found = []
    for query in topology.queries:
        written = _written(query, internal)
        if query.sink.internal:
            internal[query.sink.topic] = written
        else:
            found.append(_lineage(query, written))
    return tuple(found)


def _lineage(query: Query, written: _Written) -> Lineage:
    sink = query.sink
    columns = tuple(
        Column(column.name, str(column.type), written.fields.get(column.name, ()))
        for column in sink.columns
    )
    return Lineage(
        query.id,
        query.statement,
        tuple(map(_relation, written.sources)),
        Relation(sink.name, sink.kind, sink.topic, columns),
        written.rows,
    )


def _relation(of: Source | Sink) -> Relation:
    columns = tuple(Column(column.name, str(column.type)) for column in of.columns)
    return Relation(of.name, of.kind, of.topic, columns)


def _written(query: Query, internal: Mapping[str, _Written]) -> _Written:
    before = [internal.get(source.topic) for source in query.sources]
    sources: list[Source] = []
    for source, written in zip(query.sources, before, strict=True):
        sources += [source] if written is None else written.sources
    rows = [origin for written in before if written is not None for origin in written.rows]
    fields: dict[str, _Origins] = {}
    for name, origins in _columns(query, internal):
        fields[name] = _merged((*fields.get(name, ()), *origins))
    rows += _rows(query, internal)
    return _Written(fields, _merged(rows), tuple(dict.fromkeys(sources)))


def _read(source: Source, internal: Mapping[str, _Written]) -> dict[str, _Origins]:
    """The columns that expressions over a source can name."""
    if (written := internal.get(source.topic)) is not None:
        return dict(written.fields)
    named = [*source.columns, *(header.column for header in source.headers)]
    own: dict[str, _Origins] = {
        c.name: (Origin(source.topic, c.name, Kind.IDENTITY),) for c in named
    }
    if source.timestamp is not None and source.timestamp.column in own:
        own[TIMESTAMP] = own[source.timestamp.column]
    return own


def _columns(query: Query, internal: Mapping[str, _Written]) -> Iterator[tuple[str, _Origins]]:
    """The columns that a query writes, by name."""
    step = query.step
    if isinstance(step, AggregateStep):
        keys, outputs, known = step.keys, step.outputs, _grouped(query, step, internal)
        # What a key is called is known after the grouping, by its own name.
        yield from ((key.name, known[key.name]) for key in keys)
        yield from _evaluated(outputs, known)
    elif isinstance(step, ProjectStep):
        known = _read(query.source, internal)
        known |= dict(_evaluated(step.explode, known))
        keys = step.keys
        yield from _evaluated((*keys, *step.outputs), known)
    elif isinstance(step, JoinStep):
        known, keys = _joined(step, internal), step.keys
        yield from _evaluated((*keys, *step.outputs), known)
    else:
        (side,) = step.inputs
        keys, over = side.keys, _read(side.source, internal)
        known = dict(_evaluated((*keys, *side.columns), over))
        yield from known.items()
        if isinstance(step, ChangesStep):
            yield from ((f"{age}_{n}", o) for n, o in known.items() for age in ("OLD", "NEW"))
    # A sink may have other names for its keys.
    for column, key in zip(query.sink.key_columns, keys, strict=False):
        if column.name != key.name:
            yield column.name, _origins(key.expression, known)


def _rows(query: Query, internal: Mapping[str, _Written]) -> Iterator[Origin]:
    """The origins that decide which rows a query has."""
    step = query.step
    if isinstance(step, AggregateStep | ProjectStep):
        known = _read(query.source, internal)
        yield from _all(Kind.FILTER, (query.filter,), known)
        if isinstance(step, AggregateStep):
            yield from _all(Kind.GROUP_BY, (key.expression for key in step.keys), known)
            yield from _all(Kind.FILTER, (step.having,), _grouped(query, step, internal))
            if step.window is not None:
                yield from _as(Kind.WINDOW, known.get(TIMESTAMP, ()))
        return
    for side in step.inputs:
        known = _read(side.source, internal)
        yield from _all(Kind.FILTER, (side.filter,), known)
        if isinstance(step, JoinStep | DeduplicateStep):
            kind = Kind.JOIN if isinstance(step, JoinStep) else Kind.FILTER
            yield from _all(kind, (key.expression for key in side.keys), known)
    if isinstance(step, JoinStep):
        yield from _all(Kind.FILTER, (step.filter,), _joined(step, internal))


def _grouped(
    query: Query, step: AggregateStep, internal: Mapping[str, _Written]
) -> dict[str, _Origins]:
    """The names that outputs and HAVING are over."""
    over = _read(query.source, internal)
    known = dict(_evaluated(step.keys, over))
    for call in step.aggregates:
        of = (origin for argument in call.args for origin in _origins(argument, over))
        known[call.name] = _composed(Kind.AGGREGATION, of)
    return known


def _joined(step: JoinStep, internal: Mapping[str, _Written]) -> dict[str, _Origins]:
    """The names that the outputs of a join are over.

    Its key is the left side's; that of either side where a right row may be alone.
    """
    known: dict[str, _Origins] = {}
    alone = step.kind in {JoinKind.RIGHT, JoinKind.FULL}
    for side in step.inputs:
        over = _read(side.source, internal)
        carried = side.keys if alone or side is step.left else ()
        for name, origins in _evaluated((*carried, *side.columns), over):
            known[name] = _merged((*known.get(name, ()), *origins))
        known[_ROWTIME] = _merged((*known.get(_ROWTIME, ()), *over.get(TIMESTAMP, ())))
    return known


def _evaluated(named: Iterable[NamedExpression], known: _Fields) -> Iterator[tuple[str, _Origins]]:
    return ((each.name, _origins(each.expression, known)) for each in named)


def _origins(expression: Expression, known: _Fields) -> _Origins:
    if expression.ref is not None:
        return known.get(expression.ref, ())
    of = (origin for column in expression.columns for origin in known.get(column, ()))
    return _composed(Kind.TRANSFORMATION, of)


def _composed(kind: Kind, origins: Iterable[Origin]) -> _Origins:
    """The origins after one more step, whose kind counts if it is the stronger one."""
    strength = _STRONGER.index(kind)
    return _merged(
        Origin(each.topic, each.column, _STRONGER[max(strength, _STRONGER.index(each.kind))])
        for each in origins
    )


def _all(kind: Kind, over: Iterable[Expression | None], known: _Fields) -> Iterator[Origin]:
    for expression in over:
        if expression is not None:
            yield from _as(kind, _origins(expression, known))


def _as(kind: Kind, origins: Iterable[Origin]) -> Iterator[Origin]:
    return (Origin(each.topic, each.column, kind) for each in origins)


def _merged(origins: Iterable[Origin]) -> _Origins:
    return tuple(dict.fromkeys(origins))
