"""CREATE OR REPLACE: what may change under a stream, a table and its query, by ksqlDB's rules.

Columns may be added at the end.  The query may get another SELECT list, WHERE or HAVING; what it
reads, how it groups and what it aggregates stays.  Other queries may not change.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import InvalidStatement
from holdfast.sql.parse.script import Script
from holdfast.types.columns.schema import Column
from holdfast.types.statements.topology import (
    TIMESTAMP,
    AggregateStep,
    DeduplicateStep,
    Emit,
    JoinForm,
    JoinStep,
    ProjectStep,
    Query,
    Source,
)

__all__ = ["check_query", "check_source"]

_JOINS = {
    JoinForm.STREAM_STREAM: "StreamStreamJoin",
    JoinForm.STREAM_TABLE: "StreamTableJoin",
    JoinForm.TABLE_TABLE: "TableTableJoin",
    JoinForm.FOREIGN_KEY: "ForeignKeyTableTableJoin",
}
Property = tuple[str, object, object]  # what it is called, before, after


def check_source(script: Script, at: int, old: Source, new: Source) -> None:
    """A stream or table takes the place of another one of its name.

    Raises:
        InvalidStatement: a user of the old one could not use the new one.
    """
    properties: list[Property] = [
        ("type", _type(old), _type(new)),
        ("topic", _topic(old), _topic(new)),
        ("timestampColumn", _time(old), _time(new)),
    ]
    wrong = [_not_upgradeable(old, *each) for each in properties if each[1] != each[2]]
    schema = _schema_problem(old, new)
    if schema:
        told = _not_upgradeable(old, "schema", _columns(old), _columns(new))
        wrong.append(f"{told}. ({schema})")
    if wrong:
        raise script.invalid(
            at,
            "Cannot upgrade data source: " + "\n\tAND ".join(wrong),
            action="drop it first, or give the new one another name",
        )


def check_query(script: Script, at: int, old: Sequence[Query], new: Sequence[Query]) -> None:
    """A statement's queries take the place of those of another one.

    Raises:
        InvalidStatement: the old ones' state does not fit, or ksqlDB does not try.
    """
    for before, after in zip(reversed(old), reversed(new), strict=False):
        name = _step_name(before)
        if _unsupported(before):
            raise _refused(script, at, f"Upgrades not yet supported for {name}")
        for what, one, other in _must_match(before, after):
            if one != other:
                told = (
                    f"Query is not upgradeable. Plan step of type {name} must have matching "
                    f"{what}. Values differ: {one} vs. {other}"
                )
                raise _refused(script, at, told)
        _check_source_step(script, at, before, after)


def _refused(script: Script, at: int, told: str) -> InvalidStatement:
    return script.invalid(at, told, action="drop it first, or give the new one another name")


# -- sources ---------------------------------------------------------------------------------


def _type(source: Source) -> str:
    return f"K{source.kind}"


def _topic(source: Source) -> str:
    parts = [source.topic, f"key {source.key_format}", f"value {source.value_format}"]
    if source.window is not None:
        parts.append(f"{source.window} {source.window_size_ms} ms")
    return ", ".join(parts)


def _time(source: Source) -> str:
    spec = source.timestamp
    return "none" if spec is None else f"{spec.column} {spec.format or ''}".strip()


def _not_upgradeable(old: Source, what: str, before: object, after: object) -> str:
    return f"DataSource '`{old.name}`' has {what} = {before} which is not upgradeable to {after}"


def _columns(source: Source) -> str:
    keys = [f"{c} KEY" for c in _named(source.key_columns)]
    return ", ".join([*keys, *_named(source.value_columns)])


def _named(columns: Sequence[Column]) -> list[str]:
    return [f"`{c.name}` {c.type}" for c in columns]


def _schema_problem(old: Source, new: Source) -> str:
    """Every column has to stay where it is; of values more may follow."""
    keys = [f"{c} KEY" for c in _moved(old.key_columns, new.key_columns)]
    if keys:
        return (
            "Key columns must be identical. The following key columns are changed, missing or "
            f"reordered: [{', '.join(keys)}]"
        )
    values = _moved(old.value_columns, new.value_columns)
    if values:
        return f"The following columns are changed, missing or reordered: [{', '.join(values)}]"
    return ""


def _moved(old: Sequence[Column], new: Sequence[Column]) -> list[str]:
    there = set(enumerate(_named(new)))
    return [name for place, name in enumerate(_named(old)) if (place, name) not in there]


# -- queries ---------------------------------------------------------------------------------


def _step_name(query: Query) -> str:
    """ksqlDB's name for the main step of its plan."""
    step, kind = query.step, query.source.kind.capitalize()
    if isinstance(step, JoinStep):
        return _JOINS[step.form]
    if isinstance(step, AggregateStep):
        return _aggregate_name(step)
    if isinstance(step, ProjectStep) and step.explode:
        return "StreamFlatMap"
    if query.source.window is not None:
        return f"Windowed{kind}Source"
    return f"{kind}SelectKey" if query.sink.always_keyed else f"{kind}Source"


def _aggregate_name(step: AggregateStep) -> str:
    if step.emit is Emit.FINAL:
        return "TableSuppress"
    if step.undo:
        return "TableAggregate"
    return "StreamAggregate" if step.window is None else "StreamWindowedAggregate"


def _unsupported(query: Query) -> bool:
    step = query.step
    if query.source.window is not None or isinstance(step, JoinStep | DeduplicateStep):
        return True
    if isinstance(step, AggregateStep):
        return step.window is not None or bool(step.undo) or step.emit is Emit.FINAL
    return isinstance(step, ProjectStep) and bool(step.explode)


def _must_match(old: Query, new: Query) -> list[Property]:
    found: list[Property] = [("class", _step_name(old), _step_name(new))]
    before, after = old.step, new.step
    if isinstance(before, AggregateStep) and isinstance(after, AggregateStep):
        found += [
            ("columns not part of aggregate", *_if_other(_needed(old), _needed(new))),
            ("aggregate functions", _calls(before), _calls(after)),
            ("group by clause", _keys(before), _keys(after)),
        ]
    elif isinstance(before, ProjectStep) and isinstance(after, ProjectStep):
        found.append(("keyExpressions", _keys(before), _keys(after)))
    return found


def _check_source_step(script: Script, at: int, old: Query, new: Query) -> None:
    for before, after in zip(old.sources, new.sources, strict=False):
        pairs: list[Property] = [
            ("topicName", before.topic, after.topic),
            ("formats", _topic(before), _topic(after)),
            ("timestampColumn", _time(before), _time(after)),
        ]
        for what, one, other in pairs:
            if one != other:
                told = (
                    f"Query is not upgradeable. Plan step of type {before.kind.capitalize()}Source "
                    f"must have matching {what}. Values differ: {one} vs. {other}"
                )
                raise _refused(script, at, told)


def _if_other(one: list[str], other: list[str]) -> tuple[str, str]:
    """As they are told; in another order they are the same."""
    if sorted(one) == sorted(other):
        return "", ""
    return f"[{', '.join(one)}]", f"[{', '.join(other)}]"


def _needed(query: Query) -> list[str]:
    """The columns that reach an aggregate, as ksqlDB has them: COUNT(*) counts ROWTIME."""
    step = query.step
    assert isinstance(step, AggregateStep)
    names = [name for key in step.keys for name in key.expression.columns]
    for call in step.aggregates:
        names += [n for a in call.args for n in a.columns] if call.args else [TIMESTAMP]
    names += query.filter.columns if query.filter is not None else ()
    return list(dict.fromkeys(f"`{'ROWTIME' if n == TIMESTAMP else n}`" for n in names))


def _calls(step: AggregateStep) -> str:
    calls = (
        f"{a.function}({', '.join(map(str, [*a.args, *a.literals]))})" for a in step.aggregates
    )
    return f"[{', '.join(calls)}]"


def _keys(step: AggregateStep | ProjectStep) -> str:
    return f"[{', '.join(key.sql for key in step.keys)}]"
