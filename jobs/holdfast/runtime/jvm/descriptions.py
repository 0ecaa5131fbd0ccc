"""Descriptions of batches in Spark's UI and event log: each batch is a job, its steps are stages.

`SparkContext.setJobDescription` describes the job.  Spark names a stage by the call site of the
RDD that it computes, and takes the call site from the local property `callSite.short`
(`SparkContext.getCallSite`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext

__all__ = ["batch_job", "stage"]

_STAGE = "callSite.short"


@contextmanager
def batch_job(context: SparkContext, query_id: str, batch_id: int, records: int) -> Iterator[None]:
    """Describes the jobs that this thread starts within: query, batch id and records to read."""
    context.setJobDescription(f"{query_id}: batch {batch_id}, {records:,} records")
    try:
        yield
    finally:
        context.setJobDescription("")


def stage(context: SparkContext, name: str) -> None:
    """Names the stages of the RDDs that this thread makes, and of the jobs it starts, from now."""
    context.setLocalProperty(_STAGE, name)
