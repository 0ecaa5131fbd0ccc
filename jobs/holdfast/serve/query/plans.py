"""Plans statements, and caches plans by text, and for look-ups by template."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from holdfast.config.settings import ServeSettings
from holdfast.errors import NotAllowed
from holdfast.serve.contract import EVERY_WINDOW, WINDOWEND, WINDOWSTART, Catalog, ServedTable
from holdfast.serve.query.access import (
    EVERYTHING,
    Access,
    Lookup,
    Within,
    access_of,
    stored_within,
)
from holdfast.serve.query.evaluate import Evaluation
from holdfast.serve.query.options import Options
from holdfast.serve.query.streams import Streams
from holdfast.serve.query.templates import Literals, Template, literal_starts, split
from holdfast.serve.workers.calls import planned, source_of
from holdfast.serve.workers.pool import Interrupt, Workers
from holdfast.sql.parse.script import Script, did_you_mean
from holdfast.sql.parse.statements import Name
from holdfast.sql.read.asked import Read
from holdfast.types.columns.schema import Base
from holdfast.types.statements.sources import Source

__all__ = ["TEXT_MAX", "NotOpenError", "Plan", "Plans"]

K = TypeVar("K")
V = TypeVar("V")
_KEPT_MAX = 1_000
_PUTTING = threading.Lock()
TEXT_MAX = 4_096  # total characters of statements whose plans are cached
_WHOLE = (Base.INTEGER, Base.BIGINT)


class NotOpenError(Exception):
    """A stream has not been opened yet: open it, and plan again."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.name)
        self.source = source


@dataclass(frozen=True)
class Plan:
    """One statement, ready to run.

    `access` is None for a push query, which reads everything; `stream`: it reads a stream, not a
    table. `within`: the ranges of a push query's rows; None: anywhere.
    """

    read: Read
    table: ServedTable
    evaluation: Evaluation
    access: Access | None = None
    stream: bool = False
    within: Within | None = None


@dataclass(frozen=True)
class _Slots:
    """A look-up whose keys are literals: for each key column, their places in the statement."""

    plan: Plan
    columns: tuple[tuple[int, ...], ...]

    def filled(self, literals: Literals) -> Lookup:
        """The look-up of another statement with the same template."""
        values = [[literals[i] for i in places] for places in self.columns]
        key_of = self.plan.table.key_of
        keys = dict.fromkeys(key_of(each) for each in product(*values))
        return Lookup(((EVERY_WINDOW, tuple(keys)),), exact=True)


class Plans:
    """Owns the cached plans; a plan is valid as long as its table is the served one."""

    def __init__(
        self,
        catalog: Catalog,
        limits: ServeSettings,
        workers: Workers,
        streams: Streams | None = None,
    ) -> None:
        self._catalog = catalog
        self._limits = limits
        self._workers = workers
        self._streams = streams
        self._by_text: dict[tuple[str, Options], Plan] = {}
        self._by_template: dict[tuple[Template, Options], _Slots] = {}

    def kept(
        self, sql: str, options: Options, may_read: Callable[[str], bool]
    ) -> tuple[Plan, Access | None] | None:
        """The cached plan of a statement and its access, or None if it has not been planned before.

        Raises:
            NotAllowed: `may_read` says no.
        """
        if len(sql) > TEXT_MAX:
            return None
        parts = split(sql)
        if parts is not None:
            slots = self._by_template.get((parts[0], options))
            if slots is not None and self._fresh(slots.plan):
                self._check(slots.plan.table.name, may_read)
                return slots.plan, slots.filled(parts[1])
        plan = self._by_text.get((sql, options))
        if plan is None or not self._fresh(plan):
            return None
        self._check(plan.table.name, may_read)
        return plan, plan.access

    def made(
        self, sql: str, options: Options, may_read: Callable[[str], bool], interrupt: Interrupt
    ) -> tuple[Plan, Access | None]:
        """Plan a statement and cache the plan.  Call it in a thread: a worker parses and plans.

        Raises:
            NotOpenError: the statement reads a stream that has to be opened first.
            InvalidStatement: it is wrong, or names a relation that is not served.
            NotAllowed: `may_read` says no.
            Refused: it exceeds a limit.
            QueryTimedOut: it takes too long.
        """
        kept = self.kept(sql, options, may_read)  # another caller may have planned it meanwhile
        if kept is not None:
            return kept
        plan = self._made(sql, options, may_read, interrupt)
        self._keep(sql, options, plan)
        return plan, plan.access

    def _made(
        self, sql: str, options: Options, may_read: Callable[[str], bool], interrupt: Interrupt
    ) -> Plan:
        seconds = self._limits.planning_ms / 1_000
        name = self._workers.call(source_of, sql, interrupt=interrupt, timeout_s=seconds)
        self._check(name.text, may_read)
        script = Script(sql)
        table, stream = self._table(script, name, may_read)
        source = _source(table)
        read = self._workers.call(planned, sql, source, interrupt=interrupt, timeout_s=seconds)
        return self._plan(script, read, table, options, stream=stream)

    def _keep(self, sql: str, options: Options, plan: Plan) -> None:
        """Cache a plan by its text, and by its template if it is a look-up."""
        if len(sql) > TEXT_MAX:
            return
        _put(self._by_text, (sql, options), plan)
        parts = split(sql)
        slots = None if parts is None else _slots(sql, plan)
        if slots is not None and parts is not None:
            _put(self._by_template, (parts[0], options), slots)

    def _fresh(self, plan: Plan) -> bool:
        if plan.stream:
            source = self._stream(plan.table.name)
            opened = self._streams.known(source) if self._streams and source else None
            return opened is plan.table
        return self._catalog.tables().get(plan.table.name) is plan.table

    def _check(self, name: str, may_read: Callable[[str], bool]) -> None:
        if not may_read(name):
            raise NotAllowed(
                f"You are not allowed to read {name}.",
                action="use a token that may.",
            )

    def _plan(
        self, script: Script, read: Read, table: ServedTable, options: Options, *, stream: bool
    ) -> Plan:
        _refuse_same_folded(script, read, table)
        _refuse_limit(script, read, options)
        if read.push:
            within = None if stream else stored_within(read, table, self._limits)
            filtered = within is not None and within.exact
            return Plan(
                read, table, self._evaluation(read, filtered=filtered), None, stream, within
            )
        access: Access = EVERYTHING
        if not stream:
            access = access_of(script, read, table, options, self._limits)
        exact = isinstance(access, Lookup) and access.exact
        return Plan(read, table, self._evaluation(read, filtered=exact), access, stream)

    def _evaluation(self, read: Read, *, filtered: bool) -> Evaluation:
        return Evaluation(read, self._workers, self._limits.bytes_max, filtered=filtered)

    def _table(
        self, script: Script, name: Name, may_read: Callable[[str], bool]
    ) -> tuple[ServedTable, bool]:
        """The table or stream of a name, and whether it is a stream."""
        tables = self._catalog.tables()
        found = tables.get(name.text)
        if found is not None:
            return found, False
        source = self._stream(name.text)
        if source is not None and self._streams is not None:
            stream = self._streams.known(source)
            if stream is None:
                raise NotOpenError(source)
            return stream, True
        unserved = self._catalog.unserved().get(name.text)
        if unserved is not None:
            raise script.unsupported(name.at, f"{name.text} cannot be read: {unserved.reason}")
        known = sorted(filter(may_read, tables))
        raise script.invalid(
            name.at,
            f"{name.text} does not exist.",
            action=did_you_mean(name.text, known) or f"known are: {', '.join(known)}",
        )

    def _stream(self, name: str) -> Source | None:
        topology = self._catalog.topology()
        sinks = (q.sink.as_source() for q in topology.queries if not q.sink.internal)
        named = (s for s in (*topology.sources, *sinks) if s.name == name)
        return next((s for s in named if s.kind == "STREAM"), None)


def _put(kept: dict[K, V], key: K, value: V) -> None:
    with _PUTTING:
        kept[key] = value
        if len(kept) > _KEPT_MAX:
            del kept[next(iter(kept))]


def _source(table: ServedTable) -> Source:
    return Source(
        name=table.name,
        kind="TABLE",
        topic=table.topic,
        key_columns=table.key_columns,
        value_columns=table.value_columns,
        window=table.window,
        window_size_ms=table.window_size_ms,
    )


def _refuse_same_folded(script: Script, read: Read, table: ServedTable) -> None:
    """DuckDB ignores the case of names, even quoted ones; look-ups of plain columns do not use
    it.
    """
    folded = [c.name.upper() for c in table.columns]
    if len(set(folded)) < len(folded) and not read.plain:
        raise script.unsupported(
            0,
            f"{table.name} has columns whose names differ only in case",
            action="look its rows up by key, without expressions, or give them other names.",
        )


def _refuse_limit(script: Script, read: Read, options: Options) -> None:
    if read.limit is not None and not read.push and not options.limit:
        raise script.invalid(
            0,
            "LIMIT clause in pull queries is currently disabled.",
            action="You can enable them by setting ksql.query.pull.limit.clause.enabled=true.\n"
            "Add EMIT CHANGES if you intended to issue a push query.",
        )


def _slots(sql: str, plan: Plan) -> _Slots | None:
    """The places of the keys among the literals, or None unless every literal is a key."""
    access, boxes = plan.access, plan.read.bounds.boxes
    starts = literal_starts(sql)
    if not isinstance(access, Lookup) or not access.exact or len(boxes) != 1 or starts is None:
        return None
    domains = boxes[0].domains
    if WINDOWSTART in domains or WINDOWEND in domains:
        return None
    places: list[tuple[int, ...]] = []
    for column in plan.table.key_columns:
        points = (domains[column.name].points or {}).values()
        if column.type.base not in (*_WHOLE, Base.STRING) or any(p.at is None for p in points):
            return None
        places.append(tuple(starts.index(p.at) for p in points if p.at in starts))
    covered = sorted(i for column in places for i in column)
    return _Slots(plan, tuple(places)) if covered == list(range(len(starts))) else None
