"""A first deployment that fails says so; there is no revision to roll back to."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from holdfast.deploy.deployment import DeploymentState
from holdfast.deploy.local.revisions import JobFiles
from holdfast.deploy.local.supervised import Supervised
from holdfast.deploy.local.target import LocalDeployment
from holdfast.errors import HoldfastError, Refused
from holdfast.local.probe import free_port

WAIT_S = 240.0


def _files(home: Path, sql: str) -> JobFiles:
    servers = f"bootstrap.servers=127.0.0.1:{free_port()}"  # nobody listens there
    return JobFiles("orders", sql, "", (servers,), str(home), str(home / "state"))


SQL = (
    "CREATE STREAM s (k STRING, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
    "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"
)


def test_a_first_deployment_that_is_refused_is_told_at_once(tmp_path: Path) -> None:
    made = LocalDeployment(tmp_path, "orders")
    with pytest.raises(Refused, match="revision 1 was refused"):
        made.deploy(_files(tmp_path, "CREATE NONSENSE;"), WAIT_S, lambda _: None, wait=True)
    assert made.status().state is DeploymentState.ABSENT
    assert "the last attempt" in made.status().reason


def test_a_first_deployment_whose_supervisor_dies_is_told_at_once(tmp_path: Path) -> None:
    made = LocalDeployment(tmp_path, "orders")
    folder = tmp_path / "deploy" / "orders"
    supervised = Supervised(folder, folder / "driver.log")

    def kill() -> None:
        deadline = time.monotonic() + WAIT_S
        while not supervised.pid and time.monotonic() < deadline:
            time.sleep(0.05)
        record = supervised.record
        assert record is not None
        os.kill(record.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HoldfastError, match="did not become ready: its supervisor does not run"):
        made.deploy(_files(tmp_path, SQL), WAIT_S, lambda _: None, wait=True)
    killer.join()
