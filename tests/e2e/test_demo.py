"""`holdfast demo` as a user types it: real Kafka, real Spark, real SIGKILLs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from holdfast.cli.main import main
from holdfast.local.broker import LocalKafka

pytestmark = pytest.mark.timeout(900)


def demo(home: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "holdfast.cli.main", "demo", "--home", str(home), *options]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def left_running(home: Path) -> list[str]:
    """Command lines of live processes that name the demo's folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(home) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(line)
    return found


def test_a_short_demo_kills_twice_is_valid_and_goes_on_when_asked_to(tmp_path: Path) -> None:
    """One demo for both: all its acts take as long again as what `--keep` adds is short."""
    home = tmp_path / "demo"
    process = demo(home, "--limit", "12000", "--rate", "1000", "--keep")
    output, _ = process.communicate()
    try:
        assert process.returncode == 0, output
        _proved(output)
        (console,) = re.findall(r"the console: (http\S+)/console/", output)[-1:]
        assert httpx.get(f"{console}/healthcheck", trust_env=False).json()["isHealthy"]
        assert LocalKafka(home).status() is not None
    finally:
        for line in (["undeploy", "demo"], ["kafka", "stop"]):
            assert main([*line, "--home", str(home)]) == 0
    assert left_running(home) == []


def _proved(output: str) -> None:
    assert "holdfast compaction plan" in output
    assert "report: " in output or "no changelog is worth a cleaning" in output
    assert "verdict: valid" in output
    assert "look-ups while executor and driver were killed: 0 failed, 0 went back" in output
    assert output.count("work went on after") == 3  # twice as it happens, once in the table
    assert "changelog records replayed" in output or "records replayed" in output
    assert "exactly once: valid" in output


def test_ctrl_c_cleans_up(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    process = demo(home)
    try:
        deadline = time.monotonic() + 240
        while not (home / "run" / "demo" / "status.json").is_file():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "nothing is left running" in output
    assert LocalKafka(home).status() is None
    assert left_running(home) == []
