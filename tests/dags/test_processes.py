"""Target local: `holdfast` as a process, with a script in its place."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from holdfast_airflow import process as processes
from holdfast_airflow import steps
from holdfast_airflow.operator import HoldfastOperator
from holdfast_airflow.process import Process
from holdfast_airflow.sensor import CaughtUpSensor

StandIn = Callable[[str], Path]


def _run(step: steps.Step, params: dict[str, Any], task: Any) -> Any:
    context: Any = {"params": params, "ti": task}
    return HoldfastOperator(task_id=step.name, step=step).execute(context)


def test_what_a_command_prints_as_json_is_the_outcome(
    stand_in: StandIn, params: dict[str, Any], task: Any
) -> None:
    calls = stand_in("""if [ "$1" = check ]; then echo '{"ok": true}'; fi""")
    assert _run(steps.CHECK, params, task) == {"ok": True}
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["explain", "check"]


def test_the_log_tells_begin_end_and_seconds(
    stand_in: StandIn, params: dict[str, Any], task: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in("""echo 'looking …' >&2; if [ "$1" = check ]; then echo '{"ok": true}'; fi""")
    _run(steps.CHECK, params, task)
    told = capsys.readouterr().out
    order = ("check begins, as a process beside Airflow.", r"\[ +\d+ s\] looking …",
             r"check ended after \d+\.\d s\.")  # fmt: skip
    assert re.search(".*".join(order), told, re.DOTALL)


def test_a_process_that_says_nothing_is_told_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_QUIET_S", 0.3)
    lines: list[str] = []
    silent = Process(["sh", "-c", "sleep 1; echo done"], dict(os.environ))
    assert silent.follow(lines.append) == 0
    assert lines[0] == "… goes on"
    assert lines[-1] == "done"
    assert silent.tail() == "done", "it is not the process's own"


def test_a_refusal_is_final_and_says_why(
    stand_in: StandIn, params: dict[str, Any], task: Any
) -> None:
    stand_in("echo 'some log' >&2; echo 'Error: No such topic.' >&2; exit 2")
    with pytest.raises(AirflowFailException, match=r"status 2\. Error: No such topic\."):
        _run(steps.TOPICS, params, task)
    assert task.pushed["reason"].endswith("Error: No such topic.")


def test_another_failure_may_be_tried_again(
    stand_in: StandIn, params: dict[str, Any], task: Any
) -> None:
    stand_in("echo 'Error: Kafka is away.' >&2; exit 1")
    with pytest.raises(AirflowException, match="Kafka is away") as caught:
        _run(steps.SMOKE, params, task)
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize("step", [steps.DEPLOY, steps.ROLL_BACK], ids=lambda step: step.name)
def test_but_not_where_it_would_do_something_twice(
    step: steps.Step, stand_in: StandIn, params: dict[str, Any], task: Any
) -> None:
    stand_in("exit 1")
    with pytest.raises(AirflowFailException):
        _run(step, params, task)


def test_a_missing_program_is_final(
    params: dict[str, Any], task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_COMMAND", "/nowhere/holdfast")
    with pytest.raises(AirflowFailException, match="/nowhere/holdfast"):
        _run(steps.CHECK, params, task)


def test_airflow_s_own_variables_do_not_become_properties(
    stand_in: StandIn, params: dict[str, Any], task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SQL_FOLDER", "/sql")
    monkeypatch.setenv("HOLDFAST_STATE_PARTITIONS", "4")
    stand_in("""printf '["%s", "%s"]' "${HOLDFAST_SQL_FOLDER:-}" "$HOLDFAST_STATE_PARTITIONS" """)
    assert _run(steps.TOPICS, params, task) == ["", "4"]


def _alive(pid: int) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):  # it may end between two looks
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]
    return False


def _ends(pid: int) -> bool:
    """Whether a signalled process ends; it does so when it next gets CPU time."""
    deadline = time.monotonic() + 60
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not _alive(pid)


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["", "in_background"])
def airflow_at_interrupts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sets Airflow's handling of SIGINT; a script that starts Airflow with `&` ignores it."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("airflow_at_interrupts")
def test_a_killed_task_interrupts_its_command_and_waits_for_it(
    stand_in: StandIn, params: dict[str, Any], task: Any, tmp_path: Path
) -> None:
    started, done = tmp_path / "started", tmp_path / "done"
    stand_in(
        f"trap 'sleep 1; touch {done}; kill $pid; exit 130' INT\n"
        f"sleep 600 & pid=$!; echo $pid > {started}.tmp; mv {started}.tmp {started}; wait"
    )
    operator = HoldfastOperator(task_id="deploy", step=steps.DEPLOY)
    context: Any = {"params": params, "ti": task}

    def run() -> None:
        with suppress(AirflowException):
            operator.execute(context)

    runner = threading.Thread(target=run)
    runner.start()
    while not started.exists():
        time.sleep(0.02)
    operator.on_kill()
    runner.join(120)
    assert done.exists()
    assert _ends(int(started.read_text()))


def test_what_does_not_end_when_asked_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_airflow.process._GRACE_S", 0.2)
    lines: list[str] = []
    said = threading.Event()

    def tell(line: str) -> None:
        lines.append(line)
        said.set()

    stubborn = "trap '' TERM; set -m; sleep 600 & echo $!; while true; do sleep 1; done"
    process = Process(["bash", "-c", stubborn], dict(os.environ))
    follower = threading.Thread(target=process.follow, args=(tell,))
    follower.start()
    assert said.wait(60)
    assert _alive(int(lines[0]))
    process.stop()
    follower.join(60)
    assert not follower.is_alive()
    assert _ends(int(lines[0]))


def test_what_a_command_leaves_running_does_not_hold_its_task_up() -> None:
    lines: list[str] = []
    began = time.monotonic()
    process = Process(["bash", "-c", "setsid sleep 600 & echo $!"], dict(os.environ))
    assert process.follow(lines.append) == 0
    assert time.monotonic() - began < 30
    assert _alive(int(lines[0]))
    os.kill(int(lines[0]), 9)


def _poke(params: dict[str, Any], task: Any) -> Any:
    sensor = CaughtUpSensor(task_id="wait", patience_s=0, silence_s=0)
    context: Any = {"params": params, "ti": task}
    return sensor.poke(context)


@pytest.mark.parametrize(
    ("status", "done"),
    [
        ({"state": "running", "ready": True, "caught_up": True, "lag": 0}, True),
        ({"state": "running", "ready": True, "caught_up": False, "lag": 7}, False),
        ({"state": "starting", "ready": False, "caught_up": False, "lag": None}, False),
        ({"state": "restarting", "ready": False, "caught_up": True, "reason": "died"}, False),
    ],
    ids=str,
)
def test_waiting_for_a_process(
    stand_in: StandIn, params: dict[str, Any], task: Any, status: dict[str, Any], done: bool
) -> None:
    calls = stand_in(f"echo '{json.dumps(status)}'")
    assert _poke(params, task).is_done is done
    assert calls.read_text() == "status movies --target=local --json\n"


def test_a_job_that_failed_is_not_waited_for(
    stand_in: StandIn, params: dict[str, Any], task: Any
) -> None:
    stand_in("""echo '{"state": "refused", "reason": "another fingerprint"}'""")
    with pytest.raises(AirflowFailException, match="another fingerprint"):
        _poke(params, task)


def test_waiting_for_a_driver_on_kubernetes(
    params: dict[str, Any], task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Driver(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(
                b'{"state": "running", "ready": true, "caught_up": true, "lag": 3,'
                b'"queries": {"ctas_t": {"sink": "t",'
                b'"state_partitions": [{"rows": 2}, {"rows": 3}]},'
                b'"csas_s": {"sink": "s"}}}'
            )

    with HTTPServer(("127.0.0.1", 0), Driver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/status"
        monkeypatch.setenv("HOLDFAST_STATUS_URL", url)
        found = _poke({**params, "target": "kubernetes"}, task)
        assert (found.is_done, found.xcom_value) == (
            True,
            {"state": "running", "lag": 3, "rows": {"t": 5}},
        )
        server.shutdown()
    with pytest.raises(AirflowFailException, match="has not reported its status for 0 s"):
        _poke({**params, "target": "kubernetes"}, task)
