"""A runner for all cases: each query in one batch, and in as many as records."""

from __future__ import annotations

import pytest

from holdfast.testing.run import Runner


@pytest.fixture(scope="session", params=[None, 1], ids=["one batch", "record by record"])
def runner(request: pytest.FixtureRequest) -> Runner:
    return Runner(batch_records=request.param)
