"""Servers of the integration tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.local.registry import LocalRegistry
from tests.support.servers.s3_server import S3Server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server; see `S3Server`."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def own_registry(kafka: BrokerStatus, kafka_home: Path, tmp_path: Path) -> Iterator[LocalRegistry]:
    """A registry that a test starts and may kill, with the session's broker.

    Its home is `registry` in the test's folder.
    """
    home = tmp_path / "registry"
    (home / "kafka").mkdir(parents=True)
    shutil.copy(kafka_home / "kafka" / "broker.json", home / "kafka")
    made = LocalRegistry(home)
    yield made
    made.wipe()
