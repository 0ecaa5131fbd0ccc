"""A state partition goes to another executor and comes back to one that still has it open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from holdfast.errors import NotOwner
from holdfast.tasks import worker
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, StreamPlan, TaskReport
from holdfast.types.ids import OffsetRange, changelog_topic, progress_topic
from tests.simulation.fakes.executors import Bench
from tests.simulation.histories.judge import opened_wrong
from tests.simulation.jobs.payloads import payloads, reader
from tests.simulation.jobs.statements import topology

Apply = Callable[[int], worker.Answer]


@pytest.fixture
def bench() -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        found = Bench(patch)
        log = found.kafka.make_topic("s", 1, {}).logs[0]
        for _ in range(3):
            log.append(b"k", b'{"v": 1, "ts": 1000}', 1000)
        yield found


@pytest.fixture
def stateful(bench: Bench) -> tuple[QueryPlan, Apply]:
    return _stateful(bench)


def _stateful(bench: Bench) -> tuple[QueryPlan, Apply]:
    query = topology("totals").queries[0]
    changelog = changelog_topic(bench.settings.application_id, query.id)
    topic = bench.kafka.make_topic(changelog, 1, {})
    bench.kafka.make_topic(query.sink.topic, 1, {})
    plan = QueryPlan(bench.settings, query, changelog, topic.topic_id, 1, "state")

    def apply(batch: int) -> worker.Answer:
        source = OffsetRange.of("s", {0: batch}, {0: batch + 1})
        (payload,) = payloads(bench.settings, query, source, 1)
        return worker.process_partition(
            plan, 0, Assigned(bench.ordinal), Batch(batch, source), payload
        )

    return plan, apply


def test_it_is_opened_anew_when_a_batch_comes_back(
    bench: Bench, stateful: tuple[QueryPlan, Apply]
) -> None:
    _, apply = stateful
    bench.on(0)
    assert isinstance(apply(0), TaskReport)
    bench.on(1)
    assert isinstance(apply(1), TaskReport)
    bench.on(0)
    back = apply(2)
    assert isinstance(back, TaskReport), back
    assert back.opened
    assert back.marker is not None
    assert back.marker.records == 3


def test_asked_where_it_stands_it_does_not_answer_from_memory(
    bench: Bench, stateful: tuple[QueryPlan, Apply]
) -> None:
    plan, apply = stateful
    for executor, batch in ((0, 0), (1, 1)):
        bench.on(executor)
        assert isinstance(apply(batch), TaskReport)
    bench.on(0)
    answer = worker.open_partition(plan, 0, Assigned(0))
    assert isinstance(answer, TaskReport), answer
    assert answer.marker is not None
    assert answer.marker.records == 2


def test_its_rows_are_held_against_what_the_cleaner_has_left(
    bench: Bench, stateful: tuple[QueryPlan, Apply]
) -> None:
    """Another owner has written a key again, and the cleaner has taken what it was before."""
    plan, apply = stateful
    bench.on(0)
    assert isinstance(apply(0), TaskReport)
    (task,) = worker._state_tasks.values()
    assert opened_wrong(bench.kafka, plan.query, task, 0) == ""
    bench.on(1)
    for batch in (1, 2):
        assert isinstance(apply(batch), TaskReport)
    bench.kafka.settle()
    log = bench.kafka.log(plan.changelog, 0)
    log.compact(log.end, 0.0, 60.0)
    assert opened_wrong(bench.kafka, plan.query, task, 0) == ""
    store = task._opened()[1]
    position = store.position
    assert position is not None
    store.replay([b"other"], [b"row"], position=position, marker=None)
    assert opened_wrong(bench.kafka, plan.query, task, 0) == (
        "store 0: 1 rows, its changelog 0, or they differ"
    )


def test_a_topic_partition_of_a_stateless_query_is_opened_anew_too(bench: Bench) -> None:
    query = topology("filter").queries[0]
    progress = progress_topic(bench.settings.application_id, query.id)
    for name in (query.sink.topic, progress):
        bench.kafka.make_topic(name, 1, {})
    plan = StreamPlan(bench.settings, query, 1, progress, 1)
    for executor, batch in ((0, 0), (1, 1), (0, 2)):
        bench.on(executor)
        read = reader(bench.settings, query, 0, batch, batch + 1)
        answer = worker.process_stream(plan, 0, batch, batch + 1, read)
        assert isinstance(answer, TaskReport), answer
    bench.kafka.settle()
    log = bench.kafka.log(query.sink.topic, 0)
    assert len(log.visible(0, log.stable_end, 10)) == 3


def test_a_volume_that_was_lost_is_told_before_its_store_is_restored(bench: Bench) -> None:
    """A replaced executor may be asked again before the driver has looked for a warm standby."""
    bench.settings = replace(
        bench.settings, state=replace(bench.settings.state, acceptable_recovery_lag=0)
    )
    plan, apply = _stateful(bench)
    bench.on(0)
    done = apply(0)
    assert isinstance(done, TaskReport)
    bench.lose_volume()
    asked = worker.open_partition(plan, 0, Assigned(0, done.position))
    assert isinstance(asked, NotOwner), asked
    assert "is at changelog offset 0, and was at" in asked.fact
    again = worker.open_partition(plan, 0, Assigned(0, 0))
    assert isinstance(again, TaskReport), "the driver knows, and there is no better place"
    assert again.marker is not None
