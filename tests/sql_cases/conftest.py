"""One runner for all cases: one Spark session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.testing.run import Runner


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    found = Runner()
    yield found
    found.close()
