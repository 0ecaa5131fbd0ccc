"""Each batch is a job in Spark's UI, with a description; its stages have names."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark import SparkContext

from holdfast.runtime.jvm.descriptions import batch_job, stage
from holdfast.runtime.jvm.spark_internals import located, on_owners, shuffled

PLACES = ["executor_a_0"] * 2


def _blobs(_index: int, elements: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    for element in elements:
        yield element, b"blob"


def _counted(_partition: int, parts: list[bytes]) -> Iterator[int]:
    yield len(parts)


def _batch(context: SparkContext, query_id: str, batch_id: int) -> None:
    with batch_job(context, query_id, batch_id, 1_234_567):
        stage(context, f"read {query_id}")
        blobs = shuffled(located(context, PLACES), _blobs, 2)
        stage(context, f"keep {query_id}")
        assert on_owners(blobs, PLACES, _counted, [0, 1]) == [1, 1]


def _jobs(context: SparkContext) -> list[tuple[str, set[str]]]:
    """The description of every job in Spark's store, and the names of its stages."""
    java_context: Any = context._jsc
    java_context.sc().listenerBus().waitUntilEmpty()
    store = java_context.sc().statusStore()
    jobs = store.jobsList(None)
    found = []
    for job in (jobs.apply(i) for i in range(jobs.size())):
        ids = job.stageIds()
        names = {store.lastStageAttempt(ids.apply(i)).name() for i in range(ids.size())}
        description = job.description()
        found.append((description.get() if description.isDefined() else "", names))
    return found


@pytest.fixture
def before(spark_context: SparkContext) -> int:
    return len(_jobs(spark_context))


def test_a_batch_is_a_job_whose_stages_have_names(spark_context: SparkContext, before: int) -> None:
    _batch(spark_context, "ctas_t", 7)
    (job,) = _jobs(spark_context)[: len(_jobs(spark_context)) - before]
    assert job == ("ctas_t: batch 7, 1,234,567 records", {"read ctas_t", "keep ctas_t"})


def test_queries_in_threads_of_their_own_do_not_mix(
    spark_context: SparkContext, before: int
) -> None:
    threads = [threading.Thread(target=_batch, args=(spark_context, f"q{n}", n)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = _jobs(spark_context)[: len(_jobs(spark_context)) - before]
    assert sorted(found) == [
        (f"q{n}: batch {n}, 1,234,567 records", {f"read q{n}", f"keep q{n}"}) for n in range(3)
    ]


def test_what_comes_after_a_batch_is_not_described_as_one(
    spark_context: SparkContext, before: int
) -> None:
    _batch(spark_context, "ctas_t", 8)
    stage(spark_context, "ask the executors")
    assert located(spark_context, PLACES).collect() == [0, 1]
    later = _jobs(spark_context)[: len(_jobs(spark_context)) - before]
    assert "" in [description for description, _ in later]
