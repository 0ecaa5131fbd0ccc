"""The oracle: quiesce, read committed, recompute from the input, compare.

    wait until the job has read its input   group offsets reach the input's end
    wait until no transaction is open       last stable offset reaches the end of its topics
    read sink, changelog, stores            then make sure that the input has not moved on
    recompute from the input topics         the original statement, all of its input at once
    checkers                                one finding per anomaly; the worst wins

None of this runs code of the engine: names of topics and columns come from the Topology, all
meaning from the statement's text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.errors import HoldfastError
from holdfast.judge.checkers.checking import judge
from holdfast.judge.checkers.places import stores_agree
from holdfast.judge.checkers.results import (
    FINAL_CHECKERS,
    RESULT_CHECKERS,
    RESULT_STREAM_CHECKERS,
)
from holdfast.judge.checkers.streams import STREAM_CHECKERS
from holdfast.judge.checkers.tables import TABLE_CHECKERS
from holdfast.judge.gather.tables import Gatherer, Snapshot
from holdfast.judge.gather.units import UnitGatherer
from holdfast.judge.read.left_out import left_out
from holdfast.judge.read.observe import Lag, Observer
from holdfast.judge.statement.units import Unit, units
from holdfast.judge.values import Untranslatable
from holdfast.judge.verdict import Finding, JobVerdict, TableVerdict, Verdict
from holdfast.types.left_out import WarnShares
from holdfast.types.stores import StoreDigest
from holdfast.types.topology import AggregateStep, Emit, Query, Source, Topology

__all__ = ["Oracle", "OracleOptions"]

_ROUNDS = 3  # of reading again when the input moved on meanwhile


@dataclass(frozen=True)
class OracleOptions:
    """How long to wait, in seconds: for the job to catch up, then for open transactions.

    Transactions of killed producers end by themselves after the job's transaction.timeout.ms.
    `shares` of a query's input may be left out without a warning.
    """

    catch_up_s: float = 120.0
    quiet_s: float = 90.0
    shares: WarnShares = field(default_factory=WarnShares)


class Oracle:
    """Judges one job.

    Args:
        application_id: names the job's groups and changelogs.
        observer: reads its topics.
        stores: reads its stores, by (query id, state partition); None: nobody can here.
        tell: gets a line now and then.
    """

    def __init__(
        self,
        application_id: str,
        observer: Observer,
        *,
        options: OracleOptions | None = None,
        stores: Callable[[], Mapping[tuple[str, int], StoreDigest]] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._application_id = application_id
        self._observer = observer
        self._gather = Gatherer(application_id, observer)
        self._gather_units = UnitGatherer(application_id, observer)
        self._options = options or OracleOptions()
        self._stores = stores
        self._tell = tell

    def judge(self, topology: Topology) -> JobVerdict:
        """The verdict on every table and stream of the job, in the file's order."""
        start = time.monotonic()
        tables = tuple(self._judge_unit(unit) for unit in units(topology))
        return JobVerdict(self._application_id, tables, time.monotonic() - start)

    def _judge_unit(self, unit: Unit) -> TableVerdict:
        try:
            return self._with_left_out(unit, self._judged(unit))
        except Untranslatable as reason:
            return _unknown(unit, "recompute", f"the judge cannot recompute it: {reason}")
        except HoldfastError as error:
            return _unknown(unit, "observe", str(error))
        except Exception as error:  # noqa: BLE001 - one table that cannot be judged is unknown
            return _unknown(unit, "oracle", f"judging crashed: {type(error).__name__}: {error}")

    def _with_left_out(self, unit: Unit, verdict: TableVerdict) -> TableVerdict:
        """The verdict with what the queries' own markers say of records that are in no result."""
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
        plain = unit.plain
        for _ in range(_ROUNDS):
            verdict = self._unit_round(unit) if plain is None else self._round(unit, plain)
            if verdict is not None:
                return verdict
        return _unknown(unit, "catch_up", f"the input of {unit.sink.name} is still being written")

    def _await(self, query: Query, deadline: float) -> Lag:
        return self._observer.await_caught_up(query, deadline, lambda lag: self._told(query, lag))

    def _told(self, query: Query, lag: Lag) -> None:
        if not lag.caught_up:
            self._tell(f"{query.sink.name}: {lag.committed} of {lag.end} input offsets committed")

    def _round(self, unit: Unit, query: Query) -> TableVerdict | None:
        """One reading; None when the input moved on, which makes it worthless."""
        snapshot = self._gather.snapshot(query, time.monotonic() + self._options.quiet_s)
        self._tell(f"{query.sink.name}: recomputing from {query.source.topic}")
        if isinstance(query.step, AggregateStep):
            verdict = self._table(query, snapshot, unit.origin(query.source))
        else:
            verdict = self._stream(query, snapshot)
        moved = self._observer.bounds(query.source.topic) != snapshot.input_bounds
        caught_up = self._observer.lag(query).caught_up
        return verdict if caught_up and not moved else None

    def _unit_round(self, unit: Unit) -> TableVerdict | None:
        """The same of a statement that one query over one stream is not."""
        gather = self._gather_units
        snapshot = gather.snapshot(unit, time.monotonic() + self._options.quiet_s)
        self._tell(f"{unit.sink.name}: recomputing from {', '.join(snapshot.inputs)}")
        stores = self._stores() if self._stores is not None else None
        if unit.sink.kind == "TABLE":
            table = gather.table(unit, snapshot, stores)
            findings = judge(table, FINAL_CHECKERS if _final(unit) else RESULT_CHECKERS)
            verdict = TableVerdict(
                table.name, findings, table.input_records, len(table.history.rows)
            )
        else:
            stream = gather.stream(unit, snapshot, stores)
            findings = judge(stream, RESULT_STREAM_CHECKERS)
            verdict = TableVerdict(
                stream.name, findings, stream.input_records, stream.actual.total()
            )
        moved = any(self._observer.bounds(t) != bounds for t, bounds in snapshot.inputs.items())
        level = all(self._observer.lag(query).caught_up for query in unit.queries)
        return verdict if level and not moved else None

    def _table(self, query: Query, snapshot: Snapshot, origin: Source | None) -> TableVerdict:
        stores = None
        if self._stores is not None:
            found = self._stores()
            stores = {p: store for (query_id, p), store in found.items() if query_id == query.id}
        evidence = self._gather.table(query, snapshot, stores, origin)
        checkers = TABLE_CHECKERS if stores is None else (*TABLE_CHECKERS, stores_agree)
        findings = judge(evidence, checkers)
        rows = len(evidence.history.rows)
        return TableVerdict(evidence.name, findings, evidence.input_records, rows)

    def _stream(self, query: Query, snapshot: Snapshot) -> TableVerdict:
        evidence = self._gather.stream(query, snapshot)
        findings = judge(evidence, STREAM_CHECKERS)
        records = evidence.actual.total()
        return TableVerdict(evidence.name, findings, evidence.input_records, records)


def _final(unit: Unit) -> bool:
    step = unit.queries[-1].step
    return isinstance(step, AggregateStep) and step.emit is Emit.FINAL


def _unknown(unit: Unit, checker: str, fact: str) -> TableVerdict:
    return TableVerdict(unit.sink.name, (Finding(checker, Verdict.UNKNOWN, fact),))
