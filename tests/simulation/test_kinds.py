"""Every kind of processor, killed after every step of a commit: as if nothing had happened.

The engine's state task runs on the fakes of the simulation, over what its ingest reads there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa
import pytest

from holdfast.state.changelog import DATA_PREFIX
from holdfast.tasks import worker
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, TaskReport
from holdfast.tasks.steps import AnyStep, Step, observe
from holdfast.types.ids import changelog_topic
from holdfast.types.statements.topology import Query
from tests.simulation.fakes.executors import Bench
from tests.simulation.fakes.spark import Crash
from tests.simulation.jobs.kinds import BATCHES, KINDS, Sent, range_of, sent, topology
from tests.simulation.jobs.payloads import payloads

STEPS = [step for step in Step if step is not Step.RESTORING]
Batches = Mapping[str, Sequence[Sequence[Sent]]]
"""Records by topic, and in it by batch."""


@dataclass(frozen=True)
class Prepared:
    """A query of a statement: its input, and the expected results."""

    query: Query
    batches: Batches
    results: list[list[Sent]]  # by batch


class Run:
    """One state partition of a query on the fakes, whose whole input is there from the start."""

    def __init__(self, patch: pytest.MonkeyPatch, query: Query, batches: Batches) -> None:
        self.bench = Bench(patch)
        self._query = query
        self._lengths = {topic: [len(b) for b in of] for topic, of in batches.items()}
        for name, of in batches.items():
            log = self.bench.kafka.make_topic(name, 1, {}).logs[0]
            for record in (r for batch in of for r in batch):
                log.append(record.key, record.value, record.timestamp_ms)
        changelog = changelog_topic(self.bench.settings.application_id, query.id)
        topic = self.bench.kafka.make_topic(changelog, 1, {"cleanup.policy": "compact"})
        self.bench.kafka.make_topic(query.sink.topic, 1, {})
        self._plan = QueryPlan(self.bench.settings, query, changelog, topic.topic_id, 1, "state")
        self.bench.on(0)

    def becomes(self, query: Query) -> None:
        """The job has been started again with another statement, over the same store."""
        self._query, self._plan = query, replace(self._plan, query=query)
        self.bench.renew()

    def payload(self, number: int) -> list[pa.Buffer]:
        """The payload of a batch, read anew."""
        source = range_of(self._query, number, self._lengths)
        (payload,) = payloads(self.bench.settings, self._query, source, 1)
        return payload

    def apply(self, number: int) -> TaskReport:
        """Reads a batch and applies it."""
        batch = Batch(number, range_of(self._query, number, self._lengths))
        payload = self.payload(number)
        answer = worker.process_partition(
            self._plan, 0, Assigned(self.bench.ordinal), batch, payload
        )
        assert isinstance(answer, TaskReport), answer
        return answer

    def results(self) -> list[Sent]:
        self.bench.kafka.settle()
        log = self.bench.kafka.log(self._query.sink.topic, 0)
        entries = log.visible(0, log.stable_end, 1 << 30)
        return [Sent(e.key, e.value, e.timestamp_ms) for e in entries]

    def changelog(self) -> dict[bytes, bytes]:
        self.bench.kafka.settle()
        log = self.bench.kafka.log(self._plan.changelog, 0)
        last = {e.key: e.value for e in log.visible(0, log.stable_end, 1 << 30)}
        return {k: v for k, v in last.items() if k and k[:1] == DATA_PREFIX and v is not None}

    def rows(self) -> dict[bytes, bytes]:
        return {DATA_PREFIX + key: row for key, row in self.bench.rows()}


@cache
def _prepared(kind: str) -> list[Prepared]:
    """The queries of a kind, each with the results of the queries before it as input."""
    topics = {t: [sent(b)[t] for b in range(BATCHES)] for t in sent(0)}
    found = []
    for query in topology(kind).queries:
        batches = {s.topic: topics[s.topic] for s in query.sources}
        results = _results(query, batches)
        topics[query.sink.topic] = results
        found.append(Prepared(query, batches, results))
    return found


def _results(query: Query, batches: Batches) -> list[list[Sent]]:
    """The results of a run without faults."""
    results = []
    with pytest.MonkeyPatch.context() as patch:
        run = Run(patch, query, batches)
        for number in range(BATCHES):
            before = len(run.results())
            run.apply(number)
            results.append(run.results()[before:])
        assert run.rows() == run.changelog()
    return results


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as found:
        yield found


def _crash_after(run: Run, step: Step) -> None:
    """The executor dies right after `step`, once."""

    def die(reached: AnyStep, _query: str, _partition: int) -> None:
        if reached is step:
            observe(None)
            run.bench.kill()
            raise Crash

    observe(die)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same-volume", "other-volume"])
@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.name.lower())
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_after_this_step_changes_nothing(
    patch: pytest.MonkeyPatch, kind: str, step: Step, *, elsewhere: bool
) -> None:
    stateful = [p for p in _prepared(kind) if p.query.stateful]
    assert stateful
    for prepared in stateful:
        run = Run(patch, prepared.query, prepared.batches)
        for number in range(BATCHES):
            if number == BATCHES - 2:
                run.bench.renew()  # so that its store is opened in this batch
                _crash_after(run, step)
                with pytest.raises(Crash):
                    run.apply(number)
                run.bench.on(1 if elsewhere else 0)
            report = run.apply(number)
            if number == BATCHES - 2:
                assert report.skipped == (step >= Step.COMMITTED)
        assert run.results() == [r for batch in prepared.results for r in batch]
        assert run.rows() == run.changelog()


def test_the_batches_make_every_kind_do_something() -> None:
    made = Counter({kind: sum(len(b) for b in _prepared(kind)[-1].results) for kind in KINDS})
    assert min(made.values()) >= 8, made
    ended = {kind: [r for b in _prepared(kind)[-1].results for r in b] for kind in KINDS}
    for kind in ("table-table", "foreign-key", "table-where", "sessions"):
        assert any(r.value is None for r in ended[kind]), f"{kind} has no tombstone"
