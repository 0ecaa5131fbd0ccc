"""The oracle: quiesce, read committed, recompute from the input, compare.

    wait until the job has read its input   group offsets reach the input's end
    wait until no transaction is open       last stable offset reaches the end of its topics
    read sink, changelog, stores            then check that the input has not grown
    recompute from the input topics         the original statement over all of its input
    checkers                                one finding per anomaly; the worst wins

No engine code takes part: names of topics and columns come from the Topology, all meaning from the
statement's text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.judge.checkers.checking import Checker, judge
from holdfast.judge.checkers.places import stores_agree
from holdfast.judge.checkers.results import (
    FINAL_CHECKERS,
    RESULT_CHECKERS,
    RESULT_STREAM_CHECKERS,
)
from holdfast.judge.checkers.streams import STREAM_CHECKERS
from holdfast.judge.checkers.tables import TABLE_CHECKERS
from holdfast.judge.evidence import StreamEvidence, TableEvidence
from holdfast.judge.gather.snapshot import Snapshot, Stores, stores_of, take_snapshot
from holdfast.judge.gather.tables import PlainGatherer
from holdfast.judge.gather.units import UnitGatherer
from holdfast.judge.read.left_out import left_out
from holdfast.judge.read.observe import Lag, Observer
from holdfast.judge.statement.units import Unit, units
from holdfast.judge.statement.user_functions import declare
from holdfast.judge.values import Untranslatable
from holdfast.judge.verdict import Finding, JobVerdict, TableVerdict, Verdict
from holdfast.types.columns.schemas import Schemas
from holdfast.types.left_out import WarnShares
from holdfast.types.statements.topology import AggregateStep, Emit, Query, Topology
from holdfast.types.stores import JobStores

__all__ = ["Oracle", "OracleOptions"]

_ROUNDS = 3  # repeats of the reading when the input grew meanwhile


@dataclass(frozen=True)
class OracleOptions:
    """How long to wait, in seconds: for the job to catch up, then for open transactions.

    Kafka aborts transactions of killed producers after the job's transaction.timeout.ms.
    `shares`: the share of a query's input that may be left out without a warning.
    `functions`: the files of the users' aggregates.
    `schemas`: the registry of formats that have one.
    """

    catch_up_s: float = 120.0
    quiet_s: float = 90.0
    shares: WarnShares = field(default_factory=WarnShares)
    functions: tuple[str, ...] = ()
    schemas: Schemas | None = None


class Oracle:
    """Judges one job.

    Args:
        application_id: names the job's groups and changelogs.
        observer: reads its topics.
        stores: reads its stores, by (query id, state partition); None: they cannot be read here.
        tell: receives a line now and then.
    """

    def __init__(
        self,
        application_id: str,
        observer: Observer,
        *,
        options: OracleOptions | None = None,
        stores: Callable[[], JobStores] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._application_id = application_id
        self._observer = observer
        self._options = options or OracleOptions()
        self._stores = stores
        self._tell = tell

    def judge(self, topology: Topology) -> JobVerdict:
        """The verdict on every table and stream of the job, in the file's order."""
        start = time.monotonic()
        sinks = [query.sink for query in topology.queries]
        self._observer.read_as((*topology.sources, *sinks), self._options.schemas)
        tables = tuple(self._judge_unit(unit) for unit in units(topology))
        return JobVerdict(self._application_id, tables, time.monotonic() - start)

    def _judge_unit(self, unit: Unit) -> TableVerdict:
        try:
            declare(self._options.functions)
            return self._with_left_out(unit, self._judged(unit))
        except Untranslatable as reason:
            return _unknown(unit, "recompute", f"the judge cannot recompute it: {reason}")
        except HoldfastError as error:
            return _unknown(unit, "observe", str(error))
        except Exception as error:  # noqa: BLE001 - one table that cannot be judged is unknown
            return _unknown(unit, "oracle", f"judging crashed: {type(error).__name__}: {error}")

    def _with_left_out(self, unit: Unit, verdict: TableVerdict) -> TableVerdict:
        """The verdict with the left-out records that the queries' own markers report."""
        found = {q.id: left_out(self._observer, self._application_id, q) for q in unit.queries}
        shares = self._options.shares
        of_several = len(unit.queries) > 1
        warnings = tuple(
            f"{query_id}: {text}" if of_several else text
            for query_id, left in found.items()
            for text in left.warnings(shares)
        )
        return replace(verdict, left_out=found, warnings=warnings)

    def _judged(self, unit: Unit) -> TableVerdict:
        unit.refuse_strange()
        deadline = time.monotonic() + self._options.catch_up_s
        for query in unit.queries:
            lag = self._await(query, deadline)
            if not lag.caught_up:
                fact = f"it has committed {lag.committed} of {lag.end} input offsets"
                return _unknown(unit, "catch_up", f"{fact}; is it running?")
        judgement = self._judgement(unit)
        for _ in range(_ROUNDS):
            verdict = self._round(unit, judgement)
            if verdict is not None:
                return verdict
        return _unknown(unit, "catch_up", f"the input of {unit.sink.name} is still being written")

    def _await(self, query: Query, deadline: float) -> Lag:
        return self._observer.await_caught_up(query, deadline, lambda lag: self._told(query, lag))

    def _told(self, query: Query, lag: Lag) -> None:
        if not lag.caught_up:
            self._tell(f"{query.sink.name}: {lag.committed} of {lag.end} input offsets committed")

    def _judgement(self, unit: Unit) -> Judgement:
        if unit.plain is not None:
            gather = PlainGatherer(self._application_id, self._observer)
            return _PlainJudgement(gather, unit, unit.plain)
        return _UnitJudgement(UnitGatherer(self._application_id, self._observer), unit)

    def _round(self, unit: Unit, judgement: Judgement) -> TableVerdict | None:
        """One reading; None when the input grew, which makes it worthless."""
        deadline = time.monotonic() + self._options.quiet_s
        observer, topics = self._observer, judgement.topics()
        snapshot = take_snapshot(observer, unit, topics, deadline)
        self._tell(f"{unit.sink.name}: recomputing from {', '.join(topics)}")
        verdict = judgement.verdict(snapshot, self._stores_of(unit))
        moved = any(observer.bounds(t) != bounds for t, bounds in snapshot.inputs.items())
        level = all(observer.lag(query).caught_up for query in unit.queries)
        return verdict if level and not moved else None

    def _stores_of(self, unit: Unit) -> Stores:
        """The stores; None if they cannot be read, or if the unit has no state."""
        stateful = any(query.stateful for query in unit.queries)
        return self._stores() if stateful and self._stores is not None else None


class Judgement(Protocol):
    """One way to judge a unit: its input topics, and the checks of its results."""

    def topics(self) -> Sequence[str]:
        """The topics that the unit is recomputed from."""
        ...

    def verdict(self, snapshot: Snapshot, stores: Stores) -> TableVerdict:
        """The findings of the checkers.

        Args:
            stores: by (query id, state partition); None if they cannot be read.

        Raises:
            Untranslatable: the judge cannot recompute a statement of the unit.
        """
        ...


@dataclass(frozen=True)
class _PlainJudgement:
    """Judges one query over one stream that forgets nothing.

    Its rows do not depend on the order of the input, so DuckDB computes all of them at once, and
    more can be checked: each change of a row, times, the changelog's rows, dead letters, and which
    records must have been late.
    """

    gather: PlainGatherer
    unit: Unit
    query: Query

    def topics(self) -> Sequence[str]:
        return [self.query.source.topic]

    def verdict(self, snapshot: Snapshot, stores: Stores) -> TableVerdict:
        if not self.query.stateful:
            stream = self.gather.stream(self.query, snapshot)
            return _of_stream(stream, STREAM_CHECKERS)
        mine = stores_of(self.gather.observer, self.query, stores)
        origin = self.unit.origin(self.query.source)
        table = self.gather.table(self.query, snapshot, mine, origin)
        return _of_table(table, TABLE_CHECKERS if mine is None else (*TABLE_CHECKERS, stores_agree))


@dataclass(frozen=True)
class _UnitJudgement:
    """Judges all others: joins, tables of tables, sessions, final results, several statements."""

    gather: UnitGatherer
    unit: Unit

    def topics(self) -> Sequence[str]:
        return self.gather.topics(self.unit)

    def verdict(self, snapshot: Snapshot, stores: Stores) -> TableVerdict:
        if self.unit.sink.kind == "STREAM":
            stream = self.gather.stream(self.unit, snapshot, stores)
            return _of_stream(stream, RESULT_STREAM_CHECKERS)
        table = self.gather.table(self.unit, snapshot, stores)
        return _of_table(table, FINAL_CHECKERS if _final(self.unit) else RESULT_CHECKERS)


def _of_table(table: TableEvidence, checkers: Sequence[Checker[TableEvidence]]) -> TableVerdict:
    findings, rows = judge(table, checkers), len(table.history.rows)
    return TableVerdict(table.name, findings, table.input_records, rows)


def _of_stream(stream: StreamEvidence, checkers: Sequence[Checker[StreamEvidence]]) -> TableVerdict:
    findings, records = judge(stream, checkers), stream.actual.total()
    return TableVerdict(stream.name, findings, stream.input_records, records)


def _final(unit: Unit) -> bool:
    step = unit.queries[-1].step
    return isinstance(step, AggregateStep) and step.emit is Emit.FINAL


def _unknown(unit: Unit, checker: str, fact: str) -> TableVerdict:
    return TableVerdict(unit.sink.name, (Finding(checker, Verdict.UNKNOWN, fact),))
