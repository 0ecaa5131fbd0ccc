from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from holdfast.local.broker import BrokerStatus, LocalKafka


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


def test_a_living_process_of_the_recorded_age_is_the_broker(tmp_path: Path) -> None:
    created = psutil.Process().create_time()
    told = BrokerStatus(os.getpid(), created, port=1)
    assert _record(tmp_path, json.dumps(asdict(told))).status() == told


def test_a_pid_that_another_process_took_over_is_never_ours_to_stop(tmp_path: Path) -> None:
    created = psutil.Process().create_time() - 100
    broker = _record(tmp_path, json.dumps({"pid": os.getpid(), "created": created, "port": 1}))
    assert broker.status() is None
    assert broker.stop() is False
