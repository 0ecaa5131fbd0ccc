"""A runner for all cases, in one Spark: each query in one batch, and in as many as records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast.testing.run import Runner


@pytest.fixture(scope="session", params=[None, 1], ids=["one batch", "record by record"])
def runner(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Runner]:
    found = Runner(batch_records=request.param)
    yield found
    found.close()
