"""The one secured broker of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.secured_kafka import SecuredKafka


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("secured")) as kafka:
        yield kafka
