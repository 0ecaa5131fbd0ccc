"""A whole statement as one DuckDB query over all of its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from holdfast.chaos.evidence import Match
from holdfast.chaos.expressions import Scope, Translator
from holdfast.chaos.statement import Parts, Untranslatable, WindowClause, split
from holdfast.types.topology import AggregateStep, Emit, ProjectStep, Query, WindowKind

__all__ = ["FIRST_RECORDS", "INPUT", "BatchQuery", "translate"]

INPUT = "input"  # the DuckDB table that holds the decoded topic
FIRST_RECORDS = "first_records"
"""The DuckDB table that says of which first records some windows are recomputed: columns
`w` (window start), `h` (home of the group), `c` (number of the choice, there may be several
of one group), `p` (topic partition) and `n` (how many of its first records)."""

# One number that no two groups of a window share: the first record's topic partition and offset.
_HOME = "__partition::BIGINT * 1099511627776 + __offset"


@dataclass(frozen=True)
class BatchQuery:
    """SQL whose columns are the key columns, the window start when windowed, the value columns.

    For tables these follow: the group's number of records by topic partition, its home, its newest
    event time, and TRUE where it passes HAVING.

    Attributes:
        first_sql: the same of windows' first records only, see `FIRST_RECORDS`, with the number
            of the choice as last column; empty without windows.
        needed: source columns that have to be decoded.
        matches: how each value column is compared.
        growing: value columns every update increases; `never_shrinking`: none decreases.
        having: whether groups may be kept out.
    """

    sql: str
    needed: tuple[str, ...]
    values: tuple[str, ...]
    window: WindowClause | None = None
    matches: Mapping[str, Match] = field(default_factory=dict)
    growing: tuple[str, ...] = ()
    never_shrinking: tuple[str, ...] = ()
    having: bool = False
    first_sql: str = ""


def _refuse_steps(query: Query) -> None:
    """The judge recomputes what reads one stream and forgets nothing."""
    step = query.step
    if query.sink.internal:
        raise Untranslatable("it is one of several steps of a statement")
    if query.inputs:
        raise Untranslatable("joins and changes of tables are not recomputed")
    if isinstance(step, ProjectStep) and step.explode:
        raise Untranslatable("table functions are not recomputed")
    if isinstance(step, AggregateStep):
        if step.undo:
            raise Untranslatable("aggregates over tables are not recomputed")
        if step.emit is Emit.FINAL:
            raise Untranslatable("EMIT FINAL is not recomputed")
        if step.window is not None and step.window.kind is WindowKind.SESSION:
            raise Untranslatable("SESSION windows are not recomputed")


def translate(query: Query, partitions: Sequence[int]) -> BatchQuery:
    """The batch form of a query's statement.

    Args:
        query: only its statement, and the names and types of its source and sink, are used.
        partitions: the topic partitions of its source.

    Raises:
        Untranslatable: the judge does not know the statement well enough.
    """
    _refuse_steps(query)
    source = query.source
    if source.kind != "STREAM":
        raise Untranslatable(f"{source.name} is a table; only streams are recomputed")
    columns = {c.name: c.type for c in source.columns}
    parts = split(query.statement)
    translator = Translator(Scope(columns, partitions))
    group = parts.select.args.get("group")
    make = _stream if group is None else _table
    return make(query, parts, translator)


def _table(query: Query, parts: Parts, translator: Translator) -> BatchQuery:
    groups: list[exp.Expr] = list(parts.select.args["group"].expressions)
    keys = [translator.sql(g) for g in groups]
    outputs = _values(query, parts, keys, translator)
    having = parts.select.args.get("having")
    passes = f"coalesce({translator.sql(having.this)}, FALSE)" if having else "TRUE"
    select = [*keys, *(['"__window"'] if parts.window else [])]
    grouped = ", ".join(str(i + 1) for i in range(len(select)))
    grouped += ", __window_end" if parts.window else ""
    select += [translator.sql(node) for node in outputs.values()]
    select += ["histogram(__partition)", f"min({_HOME})", "max(__timestamp)", passes]
    present = " AND ".join(f"({k}) IS NOT NULL" for k in keys)
    aliased = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(select))
    rows = f"SELECT * FROM ({_rows(parts, translator)}) WHERE {present}"
    sql = f"SELECT {aliased} FROM ({rows}) GROUP BY {grouped}"
    first = f"SELECT {aliased}, __choice FROM ({_first_records(rows, keys)})"
    first += f" GROUP BY {grouped}, __choice"
    counts = {name: translator.counts(node) for name, node in outputs.items()}
    return BatchQuery(
        sql=sql,
        needed=_needed(query, parts),
        values=tuple(outputs),
        window=parts.window,
        matches={name: translator.match(node) for name, node in outputs.items()},
        growing=tuple(n for n, c in counts.items() if c == "*"),
        never_shrinking=tuple(n for n, c in counts.items() if c == "x"),
        having=having is not None,
        first_sql=first if parts.window else "",
    )


def _first_records(rows: str, keys: Sequence[str]) -> str:
    """Of the groups in `FIRST_RECORDS` as many records as it says, in the order of offsets."""
    group = f'PARTITION BY {", ".join(keys)}, "__window"'
    ranked = (
        f"SELECT *, min({_HOME}) OVER ({group}) AS __home, "
        f"row_number() OVER ({group}, __partition ORDER BY __offset) AS __rank FROM ({rows})"
    )
    return (
        f"SELECT ranked.*, wanted.c AS __choice FROM ({ranked}) AS ranked "
        f'JOIN {FIRST_RECORDS} AS wanted ON ranked."__window" = wanted.w '
        "AND ranked.__home = wanted.h AND ranked.__partition = wanted.p "
        "AND ranked.__rank <= wanted.n"
    )


def _stream(query: Query, parts: Parts, translator: Translator) -> BatchQuery:
    if parts.partition_by:
        raise Untranslatable("PARTITION BY")
    names = [c.name for c in (*query.sink.key_columns, *query.sink.value_columns)]
    nodes = _expanded(query, parts)
    found = {_output_name(n, i): _unaliased(n) for i, n in enumerate(nodes)}
    for column in query.source.key_columns:  # the key is carried along unless it is renamed
        found.setdefault(column.name, exp.column(exp.to_identifier(column.name, quoted=True)))
    missing = [n for n in names if n not in found]
    if missing:
        raise Untranslatable(f"the sink's column {missing[0]} is not in the SELECT")
    select = ", ".join(f"{translator.sql(found[n])} AS c{i}" for i, n in enumerate(names))
    values = tuple(c.name for c in query.sink.value_columns)
    sql = f"SELECT {select} FROM ({_rows(parts, translator)})"
    return BatchQuery(sql=sql, needed=_needed(query, parts), values=values)


def _rows(parts: Parts, translator: Translator) -> str:
    """The filtered input, one row per record and window."""
    where = parts.select.args.get("where")
    condition = translator.sql(where.this) if where else "TRUE"
    if parts.window is None:
        return f"SELECT * FROM {INPUT} WHERE {condition}"
    size, advance = parts.window.size_ms, parts.window.advance_ms
    first = f"greatest(0, __timestamp - {size} + {advance}) // {advance} * {advance}"
    starts = f"unnest(generate_series({first}, __timestamp, {advance}))"
    rows = f"SELECT *, {starts} AS __window FROM {INPUT} WHERE ({condition}) AND __timestamp >= 0"
    return f"SELECT *, __window + {size} AS __window_end FROM ({rows})"


def _values(
    query: Query, parts: Parts, keys: Sequence[str], translator: Translator
) -> dict[str, exp.Expr]:
    """The SELECT's expressions by sink value column, in the sink's order."""
    found: dict[str, exp.Expr] = {}
    for i, node in enumerate(_expanded(query, parts)):
        inner = _unaliased(node)
        if translator.sql(inner) not in keys:
            found[_output_name(node, i)] = inner
    wanted = [c.name for c in query.sink.value_columns]
    if set(wanted) == set(found):
        return {name: found[name] for name in wanted}
    if len(wanted) == len(found):  # generated names: the order says which is which
        return dict(zip(wanted, found.values(), strict=True))
    raise Untranslatable(f"the sink has the columns {wanted}, the SELECT {list(found)}")


def _expanded(query: Query, parts: Parts) -> list[exp.Expr]:
    nodes: list[exp.Expr] = []
    for node in parts.select.expressions:
        if isinstance(node, exp.Star):
            names = [c.name for c in query.source.columns]
            nodes += [exp.column(exp.to_identifier(n, quoted=True)) for n in names]
        else:
            nodes.append(node)
    return nodes


def _unaliased(node: exp.Expr) -> exp.Expr:
    inner: exp.Expr = node.this if isinstance(node, exp.Alias) else node
    return inner


def _output_name(node: exp.Expr, index: int) -> str:
    if isinstance(node, exp.Alias):
        return _resolved(node.args["alias"])
    if isinstance(node, exp.Column):
        return _resolved(node.this)
    return f"KSQL_COL_{index}"


def _resolved(identifier: exp.Expr) -> str:
    text = str(identifier.this)
    return text if identifier.args.get("quoted") else text.upper()


def _needed(query: Query, parts: Parts) -> tuple[str, ...]:
    if any(isinstance(n, exp.Star) for n in parts.select.expressions):
        return tuple(c.name for c in query.source.columns)
    used = {_resolved(column.this) for column in parts.select.find_all(exp.Column)}
    if query.source.timestamp is not None:
        used.add(query.source.timestamp.column)
    keys = {c.name for c in query.source.key_columns}
    return tuple(c.name for c in query.source.columns if c.name in used | keys)
