"""The oracle: quiesce, read committed, recompute from the input, compare.

    wait until the job has read its input   group offsets reach the input's end
    wait until no transaction is open       last stable offset reaches the end of its topics
    read sink, changelog, stores            then make sure that the input has not moved on
    recompute from the input topic          the original statement, as one DuckDB query
    checkers                                one finding per anomaly; the worst wins

None of this runs code of the engine: names of topics and columns come from the Topology, all
meaning from the statement's text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.chaos.checkers import TABLE_CHECKERS
from holdfast.chaos.checkers_places import stores_agree
from holdfast.chaos.checkers_stream import STREAM_CHECKERS
from holdfast.chaos.checking import judge
from holdfast.chaos.gather import Gatherer, Snapshot
from holdfast.chaos.observe import Lag, Observer
from holdfast.chaos.statement import Untranslatable
from holdfast.chaos.verdict import Finding, JobVerdict, TableVerdict, Verdict
from holdfast.errors import HoldfastError
from holdfast.types.stores import StoreDigest
from holdfast.types.topology import AggregateStep, Query, Topology

__all__ = ["Oracle", "OracleOptions"]

_ROUNDS = 3  # of reading again when the input moved on meanwhile


@dataclass(frozen=True)
class OracleOptions:
    """How long to wait, in seconds: for the job to catch up, then for open transactions.

    Transactions of killed producers end by themselves after the job's transaction.timeout.ms.
    """

    catch_up_s: float = 120.0
    quiet_s: float = 90.0


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
        self._options = options or OracleOptions()
        self._stores = stores
        self._tell = tell

    def judge(self, topology: Topology) -> JobVerdict:
        """The verdict on every table and stream of the job, in the file's order."""
        start = time.monotonic()
        tables = tuple(self._judge_query(query) for query in topology.queries)
        return JobVerdict(self._application_id, tables, time.monotonic() - start)

    def _judge_query(self, query: Query) -> TableVerdict:
        try:
            return self._judged(query)
        except Untranslatable as reason:
            return _unknown(query, "recompute", f"the judge cannot recompute it: {reason}")
        except HoldfastError as error:
            return _unknown(query, "observe", str(error))
        except Exception as error:  # noqa: BLE001 - one table that cannot be judged is unknown
            return _unknown(query, "oracle", f"judging crashed: {type(error).__name__}: {error}")

    def _judged(self, query: Query) -> TableVerdict:
        deadline = time.monotonic() + self._options.catch_up_s
        lag = self._observer.await_caught_up(query, deadline, lambda lag: self._told(query, lag))
        if not lag.caught_up:
            fact = f"it has committed {lag.committed} of {lag.end} input offsets; is it running?"
            return _unknown(query, "catch_up", fact)
        for _ in range(_ROUNDS):
            verdict = self._round(query)
            if verdict is not None:
                return verdict
        return _unknown(query, "catch_up", f"{query.source.topic} is still being written")

    def _told(self, query: Query, lag: Lag) -> None:
        if not lag.caught_up:
            self._tell(f"{query.sink.name}: {lag.committed} of {lag.end} input offsets committed")

    def _round(self, query: Query) -> TableVerdict | None:
        """One reading; None when the input moved on, which makes it worthless."""
        snapshot = self._gather.snapshot(query, time.monotonic() + self._options.quiet_s)
        self._tell(f"{query.sink.name}: recomputing from {query.source.topic}")
        table = isinstance(query.step, AggregateStep)
        verdict = (self._table if table else self._stream)(query, snapshot)
        moved = self._observer.bounds(query.source.topic) != snapshot.input_bounds
        caught_up = self._observer.lag(query).caught_up
        return verdict if caught_up and not moved else None

    def _table(self, query: Query, snapshot: Snapshot) -> TableVerdict:
        stores = None
        if self._stores is not None:
            found = self._stores()
            stores = {p: store for (query_id, p), store in found.items() if query_id == query.id}
        evidence = self._gather.table(query, snapshot, stores)
        checkers = TABLE_CHECKERS if stores is None else (*TABLE_CHECKERS, stores_agree)
        findings = judge(evidence, checkers)
        rows = len(evidence.history.rows)
        return TableVerdict(evidence.name, findings, evidence.input_records, rows)

    def _stream(self, query: Query, snapshot: Snapshot) -> TableVerdict:
        evidence = self._gather.stream(query, snapshot)
        findings = judge(evidence, STREAM_CHECKERS)
        records = evidence.actual.total()
        return TableVerdict(evidence.name, findings, evidence.input_records, records)


def _unknown(query: Query, checker: str, fact: str) -> TableVerdict:
    return TableVerdict(query.sink.name, (Finding(checker, Verdict.UNKNOWN, fact),))
