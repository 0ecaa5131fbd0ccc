"""The Topology: what a file of statements means, as one immutable value.

`holdfast.sql` makes it (pure), `holdfast.runtime` runs it, `explain` prints it.  Runtime and
planner meet in it alone.  What both ends need to know of functions and aggregates (names, types,
user-defined ones) is in `holdfast.tasks`, which `sql` imports as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.types.columns.schema import SqlType
from holdfast.types.statements.expressions import Expression, NamedExpression, canonical
from holdfast.types.statements.inputs import Input, JoinKind
from holdfast.types.statements.sources import (
    HEADERS,
    HEADERS_TYPE,
    META_COLUMNS,
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    WINDOW_END,
    WINDOW_START,
    Format,
    HeaderColumn,
    Sink,
    Source,
    TimestampSpec,
    WindowKind,
)
from holdfast.types.statements.table_steps import (
    GONE,
    INSTRUCTION,
    LEFT_KEY,
    VERSION,
    ChangesStep,
    DeduplicateStep,
    ResolveStep,
    SubscribeStep,
    TableStep,
)

__all__ = [
    "GONE",
    "HEADERS",
    "HEADERS_TYPE",
    "INSTRUCTION",
    "LEFT_KEY",
    "META_COLUMNS",
    "OFFSET",
    "PARTITION",
    "SEQUENCE",
    "TIMESTAMP",
    "TOMBSTONE",
    "VERSION",
    "WINDOW_END",
    "WINDOW_START",
    "AggregateCall",
    "AggregateStep",
    "ChangesStep",
    "DeduplicateStep",
    "Emit",
    "Expectation",
    "Expression",
    "Format",
    "HeaderColumn",
    "Input",
    "Insertion",
    "JoinForm",
    "JoinKind",
    "JoinStep",
    "JoinWindow",
    "NamedExpression",
    "ProjectStep",
    "Query",
    "ResolveStep",
    "Sink",
    "Source",
    "Step",
    "SubscribeStep",
    "TableStep",
    "TimestampSpec",
    "Topology",
    "Window",
    "WindowKind",
    "statements",
]


class Emit(StrEnum):
    """When a query's changes are written."""

    BATCH = "batch"  # the last change of each key in a batch
    RECORD = "record"  # every input record's change, as ksqlDB does with its cache off
    FINAL = "final"  # EMIT FINAL: a window's result once, when it has closed


class JoinForm(StrEnum):
    """The forms of joins, by the kinds of their inputs."""

    STREAM_STREAM = "STREAM_STREAM"
    STREAM_TABLE = "STREAM_TABLE"
    TABLE_TABLE = "TABLE_TABLE"
    FOREIGN_KEY = "FOREIGN_KEY"


@dataclass(frozen=True)
class Window:
    """A time window; all lengths in ms.

    TUMBLING has `advance_ms == size_ms`; of a SESSION `size_ms` is the inactivity gap.
    `final_within_retention`: EMIT FINAL leaves out windows that start more than the retention
    before the window of the record that closes them, as Kafka Streams does.
    """

    kind: WindowKind
    size_ms: int
    advance_ms: int
    grace_ms: int
    retention_ms: int
    final_within_retention: bool = False


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of a SELECT or HAVING.

    `name` is the internal column (`__a0`, `__a1` …) that the step's outputs refer to; `args` are
    over the source's columns; `literals` are constant arguments (TOPK's k).
    """

    name: str
    function: str
    args: tuple[Expression, ...]
    literals: tuple[str | int | float | bool | None, ...]
    type: SqlType

    @property
    def arg_types(self) -> tuple[SqlType, ...]:
        return tuple(a.type for a in self.args)


@dataclass(frozen=True)
class AggregateStep:
    """GROUP BY: one row of state per key (and window).

    `outputs` and `having` are DuckDB's, over the key columns, the aggregates (`__a0` …) and the
    bounds WINDOWSTART and WINDOWEND.
    """

    keys: tuple[NamedExpression, ...]
    window: Window | None
    aggregates: tuple[AggregateCall, ...]
    outputs: tuple[NamedExpression, ...]
    having: Expression | None = None
    emit: Emit = Emit.BATCH
    # The source is what a `ChangesStep` wrote: `aggregates` are over the new row's columns, and
    # these, parallel to them, over the old row's, which is taken back first.  Empty: a stream.
    undo: tuple[AggregateCall, ...] = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Those that are evaluated over records."""
        args = (a for call in (*self.aggregates, *self.undo) for a in call.args)
        return (*(k.expression for k in self.keys), *args)

    def fingerprint_parts(self) -> dict[str, object]:
        """The parts on which stored rows depend; outputs and HAVING may change freely."""
        window = self.window
        return {
            "keys": [[k.expression.canonical, str(k.column.type)] for k in self.keys],
            "window": [window.kind, window.size_ms, window.advance_ms] if window else None,
            "aggregates": [
                [a.function, [each.canonical for each in a.args], list(a.literals), str(a.type)]
                for a in self.aggregates
            ],
        }


@dataclass(frozen=True)
class ProjectStep:
    """A statement without state: key and value columns over the source's columns.

    `keys` is one expression per sink key column; `outputs` one per sink value column.
    A windowed sink has two more keys: the columns WINDOW_START and WINDOW_END.
    Over a TABLE a row that the filter does not pass is written as a tombstone.
    """

    keys: tuple[NamedExpression, ...]
    outputs: tuple[NamedExpression, ...]
    # Table functions, evaluated side by side (the shorter ones end in nulls): each makes the
    # column of its name out of an array's elements, and `keys` and `outputs` may refer to it.
    explode: tuple[NamedExpression, ...] = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All of them."""
        return tuple(e.expression for e in (*self.keys, *self.outputs, *self.explode))


@dataclass(frozen=True)
class JoinWindow:
    """WITHIN: a right record may be `before_ms` older or `after_ms` newer than the left one.

    `grace_ms` None: no GRACE PERIOD was written; results of outer joins are then eager and
    records may be a day late, as in ksqlDB.
    """

    before_ms: int
    after_ms: int
    grace_ms: int | None = None


@dataclass(frozen=True)
class JoinStep:
    """Two sources, row by row.

    `keys` and `outputs` are evaluated over the columns of both inputs (null where a side has no
    row), over the join key's columns by the names they have in `left.keys`, and over `ROWTIME`.
    The `keys` of a TABLE_TABLE join are columns of `left.keys`: a tombstone has no others.
    A FOREIGN_KEY join is the second of three queries, see `SubscribeStep`.
    `history_ms`: of a versioned right table, how far back a stream's record may look.
    `broadcast`: every state partition has all of the right table, and the stream's records go by
    their topic partition instead of by key.
    `copartitioned`: the topics of both inputs must have the same number of partitions, as ksqlDB
    wants it; no result depends on it.
    A windowed sink has two more `keys`: the columns WINDOW_START and WINDOW_END.
    """

    form: JoinForm
    kind: JoinKind
    left: Input
    right: Input
    keys: tuple[NamedExpression, ...]
    outputs: tuple[NamedExpression, ...]
    window: JoinWindow | None = None
    filter: Expression | None = None  # WHERE, by DuckDB after the join
    history_ms: int | None = None
    emit: Emit = Emit.BATCH
    broadcast: bool = False
    copartitioned: bool = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.left, self.right

    def fingerprint_parts(self) -> dict[str, object]:
        placed = {"broadcast": True} if self.broadcast else {}
        return {
            **placed,
            "join": [self.form, self.kind],
            "left": self.left.fingerprint_parts(),
            "right": self.right.fingerprint_parts(),
            "window": str(self.window),
            "history_ms": self.history_ms,
        }


RowStep = JoinStep | ChangesStep | TableStep | SubscribeStep | ResolveStep | DeduplicateStep
Step = AggregateStep | ProjectStep | RowStep


@dataclass(frozen=True)
class Query:
    """One `CREATE … AS SELECT`: one stateful (or no stateful) step, restartable by itself.

    `id` is stable under reordering of a file: `ctas_<name>` or `csas_<name>`, lower-case.
    `filter` is the WHERE clause over the source's columns.
    """

    id: str
    statement: str
    source: Source
    filter: Expression | None
    step: Step
    sink: Sink
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that the query reads, `source` first; a join's left source is the first."""
        return tuple(each.source for each in self.inputs) or (self.source,)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of a step that sees rows, by side; none of an aggregate or a projection."""
        return () if isinstance(self.step, AggregateStep | ProjectStep) else self.step.inputs

    @property
    def is_broadcast(self) -> bool:
        """Whether every state partition has all of a table: see `JoinStep.broadcast`."""
        return isinstance(self.step, JoinStep) and self.step.broadcast

    @property
    def read_once(self) -> bool:
        """Whether all inputs read the same records: a self-join reads its topic once."""
        return len(self.inputs) > 1 and len(set(self.sources)) == 1

    def over_records(self, side: int = 0) -> tuple[Expression, ...]:
        """The expressions over the records of a source."""
        if not isinstance(self.step, AggregateStep | ProjectStep):
            return self.step.inputs[side].expressions
        return (*(() if self.filter is None else (self.filter,)), *self.step.expressions)

    @property
    def stateful(self) -> bool:
        """Whether it keeps state in a store and a changelog."""
        return not isinstance(self.step, ProjectStep)

    @property
    def replaces(self) -> bool:
        """Whether the statement is CREATE OR REPLACE."""
        return self.statement.upper().split()[:3] == ["CREATE", "OR", "REPLACE"]

    def canonical(self) -> str:
        """The text whose change makes stored state unusable (kept in the commit marker)."""
        parts: dict[str, object] = {"source": self.source.name, "topic": self.source.topic}
        parts["filter"] = canonical(self.filter)
        if not isinstance(self.step, ProjectStep):
            parts.update(self.step.fingerprint_parts())
        return json.dumps(parts, sort_keys=True, default=str)

    def fingerprint(self) -> str:
        """16 hex digits of SHA-256 over `canonical()`."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Insertion:
    """INSERT INTO … VALUES: one record of a topic.

    `values` are constants, one per column of the source, key columns first;
    `timestamp` is the ROWTIME that was given (BIGINT, ms), None: the time it is written.
    """

    source: Source
    values: tuple[NamedExpression, ...]
    timestamp: Expression | None = None


@dataclass(frozen=True)
class Expectation:
    """ASSERT VALUES, or ASSERT NULL VALUES (`tombstone`): what a topic's next record looks like.

    `values` are constants, one per column that the statement names; the other columns
    may be anything.  `line` is where the statement stands.
    """

    source: Source
    values: tuple[NamedExpression, ...]
    timestamp: Expression | None
    tombstone: bool
    line: int


@dataclass(frozen=True)
class Topology:
    """All queries of one job, with every stream and table its statements declared.

    `insertions` and `expectations` are in the file's order; `text` is the file's, if it was one.
    """

    queries: tuple[Query, ...]
    sources: tuple[Source, ...] = ()
    properties: tuple[tuple[str, str], ...] = field(default=())
    insertions: tuple[Insertion, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    text: str = field(default="", compare=False, repr=False)

    def query(self, name: str) -> Query | None:
        """The query that writes the table or stream `name` (resolved name), if any."""
        return next((q for q in self.queries if q.sink.name == name), None)


def statements(queries: Iterable[Query]) -> dict[str, tuple[Query, ...]]:
    """All queries of each statement by the id of its last one, which writes what it names.

    A statement's steps before the last write internal topics and come right before it.
    """
    found: dict[str, tuple[Query, ...]] = {}
    steps: list[Query] = []
    for query in queries:
        steps.append(query)
        if not query.sink.internal:
            found[query.id], steps = tuple(steps), []
    return found
