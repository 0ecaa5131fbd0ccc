"""Servers of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.s3_server import S3Server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server; see `S3Server`."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server
