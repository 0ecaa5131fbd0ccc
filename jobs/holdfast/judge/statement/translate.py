"""A whole statement as one DuckDB query over its whole input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from holdfast.judge.statement.expressions import REAL, Scope, Translator
from holdfast.judge.statement.statement import Parts, WindowClause, resolved, split
from holdfast.judge.values import Match, Untranslatable
from holdfast.types.columns.schema import BIGINT
from holdfast.types.statements.topology import (
    AggregateStep,
    Emit,
    Query,
    Sink,
    Source,
    WindowKind,
)

__all__ = ["FIRST_RECORDS", "INPUT", "BatchQuery", "Outline", "needed_columns", "translate"]

INPUT = "input"  # the DuckDB table that holds the decoded topic
FIRST_RECORDS = "first_records"
"""The DuckDB table with the number of first records from which windows are recomputed: columns
`w` (window start), `h` (home of the group), `c` (number of the choice; a group may have several),
`p` (topic partition) and `n` (how many of its first records)."""

# A number unique to each group of a window: the first record's topic partition and offset.
_HOME = "__partition::BIGINT * 1099511627776 + __offset"
_WINDOW = ("__window", "__window_end")


@dataclass(frozen=True)
class BatchQuery:
    """SQL whose columns are the key columns, the window start when windowed, the value columns.

    Tables have further columns: the group's number of records by topic partition, its home, its
    newest event time, and whether it passes HAVING.

    Attributes:
        first_sql: the same for windows' first records only, see `FIRST_RECORDS`, with the number of
            the choice as last column; empty without windows.
        needed: source columns that have to be decoded.
        matches: how each value column is compared.
        growing: value columns that every update increases; `never_shrinking`: none decreases.
        having: whether groups may be filtered out.
        bounds: how many bounds of the window are in the key.
        dead_keys: the key columns that a record without a value has: those of its own key.
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
    bounds: int = 0
    dead_keys: tuple[bool, ...] = ()


def _refuse_steps(query: Query) -> None:
    """Refuses anything but queries that read one stream and keep every key."""
    step = query.step
    if query.sink.internal:
        raise Untranslatable("it is one of several steps of a statement")
    if query.inputs:
        raise Untranslatable("joins and changes of tables are not one query")
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
        Untranslatable: the judge does not support the statement.
    """
    _refuse_steps(query)
    source = query.source
    if source.kind != "STREAM":
        raise Untranslatable(f"{source.name} is a table; only streams are recomputed")
    parts = split(query.statement)
    if parts.joins:
        raise Untranslatable("joins in a SELECT")
    if parts.window is not None and parts.window.session:
        raise Untranslatable("SESSION windows are not recomputed")
    columns = {c.name: c.type for c in source.columns}
    outline = Outline(
        sink=query.sink,
        parts=parts,
        translator=Translator(Scope(columns, partitions)),
        needed=needed_columns(parts, source),
        stars=tuple(("", c.name, c.name) for c in source.columns),
        carried=tuple(c.name for c in source.key_columns),
        own_key=tuple(c.name for c in source.key_columns),
    )
    return outline.stream("__dead") if parts.select.args.get("group") is None else outline.table()


@dataclass(frozen=True)
class Outline:
    """A SELECT over rows in `INPUT`.

    Attributes:
        needed: columns that have to be decoded.
        stars: the columns of a star: owner, name in the result, name as a statement may write it.
        carried: columns that are in a stream's result without being named, as written.
        prepared: whether WHERE has been applied and every row has its window.
        own_key: the columns of a record's own key, as written.
    """

    sink: Sink
    parts: Parts
    translator: Translator
    needed: tuple[str, ...] = ()
    stars: tuple[tuple[str, str, str], ...] = ()
    carried: tuple[str, ...] = ()
    prepared: bool = False
    own_key: tuple[str, ...] = ()

    def table(self) -> BatchQuery:
        """One row per group, see `BatchQuery`."""
        parts, translator = self.parts, self.translator
        keys = [translator.sql(g) for g in self.groups]
        outputs = self._values(keys)
        having = parts.select.args.get("having")
        if having:
            translator.refuse_approximate(having)
        passes = f"coalesce({translator.sql(having.this)}, FALSE)" if having else "TRUE"
        bounds = 0 if parts.window is None else 2 if parts.window.session else 1
        select = [*keys, *(f'"{name}"' for name in _WINDOW[:bounds])]
        grouped = ", ".join(str(i + 1) for i in range(len(select)))
        grouped += ", __window_end" if bounds == 1 else ""
        # DuckDB groups -0.0 with 0.0; their bytes and texts differ.
        texts = [f"CAST({k} AS VARCHAR)" for k, g in zip(keys, self.groups, strict=True)
                 if translator.kind(g) == REAL]  # fmt: skip
        grouped = ", ".join([grouped, *texts])
        select += [translator.sql(node) for node in outputs.values()]
        select += ["histogram(__partition)", f"min({_HOME})", "max(__timestamp)", passes]
        present = " AND ".join(f"({k}) IS NOT NULL" for k in keys)
        aliased = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(select))
        rows = f"SELECT * FROM ({self._rows()}) WHERE {present}"
        first = f"SELECT {aliased}, __choice FROM ({_first_records(rows, keys)})"
        first += f" GROUP BY {grouped}, __choice"
        counts = {name: translator.counts(node) for name, node in outputs.items()}
        return BatchQuery(
            sql=f"SELECT {aliased} FROM ({rows}) GROUP BY {grouped}",
            needed=self.needed,
            values=tuple(outputs),
            window=parts.window,
            matches={name: translator.match(node) for name, node in outputs.items()},
            growing=tuple(n for n, c in counts.items() if c == "*"),
            never_shrinking=tuple(n for n, c in counts.items() if c == "x"),
            having=having is not None,
            first_sql=first if parts.window else "",
            bounds=bounds,
        )

    @property
    def groups(self) -> list[exp.Expr]:
        """The GROUP BY expressions."""
        return list(self.parts.select.args["group"].expressions)

    def stream(self, *extra: str) -> BatchQuery:
        """One row per record: the sink's key columns, its value columns, `extra` columns."""
        sink = self.sink
        named = self._named()
        wanted = [c.name for c in (*sink.key_columns, *sink.value_columns)]
        by = dict(zip((c.name for c in sink.key_columns), self.parts.partition_by, strict=False))
        missing = [n for n in wanted if n not in named and n not in by]
        if missing:
            raise Untranslatable(f"the sink's column {missing[0]} is not in the SELECT")
        nodes = [by.get(n) if n in by else named[n] for n in wanted]
        columns = [self.translator.sql(node) for node in nodes if node is not None]
        select = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate([*columns, *extra]))
        return BatchQuery(
            sql=self._timed(f"SELECT {select} FROM ({self._rows()})", wanted, extra),
            needed=self.needed,
            values=tuple(c.name for c in sink.value_columns),
            dead_keys=self._dead_keys(),
        )

    def _timed(self, sql: str, columns: Sequence[str], extra: Sequence[str]) -> str:
        """Drops records without a time in the TIMESTAMP column: they are not written."""
        stamp = self.sink.timestamp
        column = next((c for c in self.sink.columns if stamp and c.name == stamp.column), None)
        if column is None or column.type != BIGINT or "__dead" not in extra:
            return sql
        dead = len(columns) + extra.index("__dead")
        return f"SELECT * FROM ({sql}) WHERE c{dead} OR c{columns.index(column.name)} >= 0"

    def _dead_keys(self) -> tuple[bool, ...]:
        if not self.parts.partition_by:
            return (True,) * len(self.sink.key_columns)
        own = {written.rpartition(".")[2] for written in self.own_key}
        return tuple(
            {resolved(column.this) for column in node.find_all(exp.Column)} <= own
            for node in self.parts.partition_by
        )

    def empty(self, batch: BatchQuery) -> str:
        """SQL for the values of a group that all rows have left, and whether it passes HAVING."""
        having = self.parts.select.args.get("having")
        found = self._values([self.translator.sql(g) for g in self.groups])
        select = [self.translator.sql(found[name]) for name in batch.values]
        select.append(f"coalesce({self.translator.sql(having.this)}, FALSE)" if having else "TRUE")
        aliased = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(select))
        return f"SELECT {aliased} FROM {INPUT} WHERE FALSE"

    def _named(self) -> dict[str, exp.Expr]:
        """Every expression of the SELECT by the names that its column may have."""
        named: dict[str, exp.Expr] = {}
        for i, (name, node) in enumerate(self._expanded()):
            inner = _unaliased(node)
            named.setdefault(name or _output_name(node, i), inner)
            owner = inner.args.get("table") if isinstance(inner, exp.Column) else None
            if owner is not None and not isinstance(node, exp.Alias):
                named.setdefault(f"{resolved(owner)}_{resolved(inner.this)}", inner)
        for name in self.carried:  # the key is in the result unless it is renamed
            named.setdefault(name, _column(name))
        return named

    def _values(self, keys: Sequence[str]) -> dict[str, exp.Expr]:
        """The SELECT's expressions by sink value column, in the sink's order."""
        found: dict[str, exp.Expr] = {}
        for i, (name, node) in enumerate(self._expanded()):
            inner = _unaliased(node)
            if self.translator.sql(inner) not in keys:
                found[name or _output_name(node, i)] = inner
        wanted = [c.name for c in self.sink.value_columns]
        if set(wanted) == set(found):
            return {name: found[name] for name in wanted}
        if len(wanted) == len(found):  # generated names: the position decides
            return dict(zip(wanted, found.values(), strict=True))
        raise Untranslatable(f"the sink has the columns {wanted}, the SELECT {list(found)}")

    def _expanded(self) -> list[tuple[str, exp.Expr]]:
        """The SELECT's expressions; a star's columns with their names."""
        nodes: list[tuple[str, exp.Expr]] = []
        for node in self.parts.select.expressions:
            if not node.is_star or not isinstance(node, exp.Star | exp.Column):
                nodes.append(("", node))
                continue
            table = node.args.get("table")
            owner = resolved(table) if table is not None and len(self.parts.joins) else ""
            nodes += [
                (name, _column(written)) for of, name, written in self.stars if owner in ("", of)
            ]
        return nodes

    def _rows(self) -> str:
        """The filtered input, one row per record and window."""
        if self.prepared:
            return f"SELECT * FROM {INPUT}"
        where = self.parts.select.args.get("where")
        condition = f"({self.translator.sql(where.this)}) AND NOT __dead" if where else "TRUE"
        if self.parts.select.args.get("group") is not None:
            condition += " AND NOT __dead"
        window = self.parts.window
        if window is None:
            return f"SELECT * FROM {INPUT} WHERE {condition}"
        size, advance = window.size_ms, window.advance_ms
        first = f"greatest(0, __timestamp - {size} + {advance}) // {advance} * {advance}"
        starts = f"unnest(generate_series({first}, __timestamp, {advance}))"
        rows = f"SELECT *, {starts} AS __window FROM {INPUT}"
        rows += f" WHERE ({condition}) AND __timestamp >= 0"
        return f"SELECT *, __window + {size} AS __window_end FROM ({rows})"


def needed_columns(parts: Parts, source: Source, *others: exp.Expr) -> tuple[str, ...]:
    """The columns of a source that a statement may name, in its SELECT or in `others`."""
    if any(node.is_star for node in parts.select.expressions):
        return tuple(c.name for c in source.columns)
    nodes = [parts.select, *parts.partition_by, *others]
    used = {resolved(column.this) for node in nodes for column in node.find_all(exp.Column)}
    if source.timestamp is not None:
        used.add(source.timestamp.column)
    keys = {c.name for c in source.key_columns}
    return tuple(c.name for c in source.columns if c.name in used | keys)


def _first_records(rows: str, keys: Sequence[str]) -> str:
    """The first records of the groups in `FIRST_RECORDS`, in offset order."""
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


def _column(written: str) -> exp.Expr:
    """`NAME` or `OWNER.NAME`."""
    owner, _, name = written.rpartition(".")
    found = exp.column(exp.to_identifier(name, quoted=True))
    if owner:
        found.set("table", exp.to_identifier(owner, quoted=True))
    return found


def _unaliased(node: exp.Expr) -> exp.Expr:
    inner: exp.Expr = node.this if isinstance(node, exp.Alias) else node
    return inner


def _output_name(node: exp.Expr, index: int) -> str:
    if isinstance(node, exp.Alias):
        return resolved(node.args["alias"])
    if isinstance(node, exp.Column):
        return resolved(node.this)
    return f"KSQL_COL_{index}"
