"""Holdfast as a user runs it: `holdfast run` with two executor processes of one core each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.types.ids import changelog_topic, consumer_group
from holdfast.types.status import JobState, JobStatus, status_path
from tests.bench.systems.peers import Case, Command, Restored
from tests.bench.workloads import PARTITIONS, Query

__all__ = ["Holdfast", "statements"]

_HOLDFAST = str(Path(sys.executable).parent / "holdfast")
_WINDOWS = {
    Query.WINDOW: "WINDOW TUMBLING (SIZE 5 MINUTES) ",
    Query.SESSION: "WINDOW SESSION (5 MINUTES, GRACE PERIOD 24 HOURS) ",
}
_KEYS = {
    Query.TITLE: "title",
    Query.COMPUTED: "title",
    Query.DISTINCT: "title",
    Query.EXPRESSION: "UCASE(SUBSTRING(title, 1, 10))",
}
# The price with 19 % of tax, points by price, the characters to print on labels.
_SUMS = (
    "SUM(amount * 119 / 100) AS total, "
    "SUM(CASE WHEN amount >= 50 THEN 10 WHEN amount >= 20 THEN 2 ELSE 0 END) AS points, "
    "SUM(LEN(REPLACE(customer, '0', ''))) AS letters"
)
_VALUES = {Query.COMPUTED: _SUMS, Query.DISTINCT: "COUNT_DISTINCT(customer) AS total"}
# The dearer sales to nine customers in ten.
_WHERE = "WHERE amount * 119 / 100 >= 20 AND UCASE(customer) < 'C00900000' "


def statements(case: Case) -> str:
    """The SQL of a case."""
    return _joined(case) if case.query is Query.JOIN else _totals(case)


def _totals(case: Case) -> str:
    key = _KEYS.get(case.query, "customer")
    named = f"{key} AS shelf" if case.query is Query.EXPRESSION else key
    sums = _VALUES.get(case.query, "SUM(amount) AS total")
    where = _WHERE if case.query is Query.COMPUTED else ""
    window = _WINDOWS.get(case.query, "")
    return (
        "CREATE STREAM sales (customer VARCHAR, amount BIGINT, title VARCHAR, ts BIGINT) "
        f"WITH (KAFKA_TOPIC='{case.input_topic}', VALUE_FORMAT='{case.form}');\n"
        f"CREATE TABLE totals {_sink(case)} AS "
        f"SELECT {named}, COUNT(*) AS n, {sums} FROM sales {window}{where}"
        f"GROUP BY {key} EMIT CHANGES;\n"
    )


def _joined(case: Case) -> str:
    orders, payments = case.topics
    return (
        "CREATE STREAM orders (id VARCHAR KEY, customer VARCHAR, amount BIGINT) "
        f"WITH (KAFKA_TOPIC='{orders}', VALUE_FORMAT='JSON');\n"
        "CREATE STREAM payments (id VARCHAR KEY, paid BIGINT, method VARCHAR) "
        f"WITH (KAFKA_TOPIC='{payments}', VALUE_FORMAT='JSON');\n"
        f"CREATE STREAM settled {_sink(case)} AS "
        "SELECT o.id AS id, customer, amount, paid FROM orders o "
        "JOIN payments p WITHIN 10 MINUTES GRACE PERIOD 24 HOURS ON o.id = p.id EMIT CHANGES;\n"
    )


def _sink(case: Case) -> str:
    form = "" if case.form == "JSON" else ", VALUE_FORMAT='JSON'"  # all peers write the same
    return f"WITH (KAFKA_TOPIC='{case.sink_topic}', PARTITIONS={PARTITIONS}{form})"


def _registry(case: Case) -> list[str]:
    return [f"schema.registry.url={case.registry}"] if case.registry else []


class Holdfast:
    """The engine of this checkout; `settings` beyond the defaults are shown in the report."""

    name = "holdfast"
    title = "Holdfast"
    can_restore = True
    reads_registered = True
    queries = frozenset(Query)

    def __init__(self, settings: Sequence[str] = ()) -> None:
        self._settings = list(settings)
        chosen = ", ".join(settings) or "defaults"
        self.notes = f"exactly once; local-cluster, 2 executors; settings: {chosen}"

    def prepare(self, report: Callable[[str], None]) -> None:
        """Nothing: it is the checkout's own."""

    def commands(self, case: Case) -> list[Command]:
        return [self._command(case, "run", "--sql", statements(case))]

    def rescaling(self, case: Case) -> Command:
        return self._command(case, "rescale", self._query_id(case), "--state-partitions", "64")

    def _command(self, case: Case, *words: str) -> Command:
        given = [
            f"bootstrap.servers={case.bootstrap}",
            f"application.id={case.application}",
            *_registry(case),
            *self._settings,
        ]
        options = (part for value in given for part in ("--set", value))
        return Command([_HOLDFAST, *words, "--home", str(case.folder), *options])

    def group(self, case: Case) -> str:
        return consumer_group(case.application, self._query_id(case))

    def changelog(self, case: Case) -> str:
        """The topic that query servers follow."""
        return changelog_topic(case.application, self._query_id(case))

    def state_folders(self, case: Case) -> list[Path]:
        return [case.folder / "state", case.folder / "run"]

    def restored(self, case: Case) -> Restored | None:
        """An executor restores its stores one after the other, executors beside each other."""
        status = self._status(case)
        if status is None or status.state is not JobState.RUNNING:
            return None
        partitions = [p for q in status.queries.values() for p in q.state_partitions]
        busy: dict[str, float] = {}
        for p in partitions:
            busy[p.owner] = busy.get(p.owner, 0.0) + p.restore_seconds
        records = sum(p.restore_records for p in partitions)
        return Restored(records, max(busy.values())) if records else None

    def volume_of(self, case: Case, pid: int) -> Path:
        status = self._status(case)
        assert status is not None, "`victim` has read it"
        executor = next(e for e in status.executors if e.jvm_pid == pid)
        return case.folder / "state" / executor.volume

    def victim(self, case: Case, pids: Sequence[int]) -> tuple[int, bool]:
        status = self._status(case)
        if status is None or not status.executors:
            raise RuntimeError(f"no executor of {case.application} is known")
        return status.executors[0].jvm_pid, False

    def status(self, case: Case) -> JobStatus | None:
        """The driver's last status file."""
        return self._status(case)

    def _status(self, case: Case) -> JobStatus | None:
        return JobStatus.read(status_path(case.folder, case.application))

    def _query_id(self, case: Case) -> str:
        from holdfast.cli.statements.options import Sql, load_job

        job = load_job(
            Sql(given=statements(case)), None, _registry(case), None, name=case.application
        )
        return job.topology.queries[0].id
