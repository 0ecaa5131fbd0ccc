from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from holdfast.local.broker import BrokerStatus, LocalKafka
from holdfast.types.births import born
from tests.support.clock import jump


def _record(home: Path, text: str) -> LocalKafka:
    broker = LocalKafka(home)
    broker.folder.mkdir()
    (broker.folder / "broker.json").write_text(text)
    return broker


def test_without_a_record_nothing_runs(tmp_path: Path) -> None:
    broker = LocalKafka(tmp_path)
    assert broker.status() is None
    assert broker.stop() is False
    broker.wipe()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"other": 1}'])
def test_a_damaged_record_is_no_broker(tmp_path: Path, text: str) -> None:
    assert _record(tmp_path, text).status() is None


@pytest.mark.parametrize("seconds", [-3_600.0, 0.0, 3_600.0])
def test_a_living_process_of_the_recorded_birth_is_the_broker_whatever_the_clock_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    told = BrokerStatus(os.getpid(), born(), port=1)
    jump(monkeypatch, seconds)
    assert _record(tmp_path, json.dumps(asdict(told))).status() == told


def test_a_broker_that_an_older_version_started_is_found(tmp_path: Path) -> None:
    created = psutil.Process().create_time()
    old = {"pid": os.getpid(), "created": created, "port": 1}
    found = _record(tmp_path, json.dumps(old)).status()
    assert found is not None
    assert (found.pid, found.port) == (os.getpid(), 1)


def test_a_pid_that_another_process_took_over_is_never_ours_to_stop(tmp_path: Path) -> None:
    created = psutil.Process().create_time() - 100
    broker = _record(tmp_path, json.dumps({"pid": os.getpid(), "created": created, "port": 1}))
    assert broker.status() is None
    assert broker.stop() is False
