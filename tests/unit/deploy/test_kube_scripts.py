"""What chaos runs inside containers, on real processes, each test in a PID namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.chaos.targets.kubernetes import scripts
from holdfast.chaos.targets.kubernetes.scripts import sh

_NAMESPACE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
_SET_UP = """
trap 'rm -f /tmp/executor.pid' EXIT
sleep 300 & first=$!; sleep 301 & second=$!
"""
_SCRIPTS = {
    "STOP": scripts.STOP,
    "CONTINUE": scripts.CONTINUE,
    "LIST": scripts.LIST,
    "KILL": scripts.KILL,
    "IS_ALIVE": scripts.IS_ALIVE,
    "SLOW_DOWN": scripts.SLOW_DOWN,
    "SPEED_UP": scripts.SPEED_UP,
}


def _container(body: str) -> list[str]:
    """Lines that a shell printed which is PID 1 of a "container" with two processes.

    `$STOP` and so on are the scripts, called by `run`.
    """
    environment = {name: sh(script)[2] for name, script in _SCRIPTS.items()}
    environment |= {"LOOP": scripts.slow_loop(), "LIMIT": scripts.LIMIT_FILES}
    program = _SET_UP + 'run() { s=$1; shift; sh -c "$s" chaos "$@"; }\n' + body
    ran = subprocess.run(
        [*_NAMESPACE, "sh", "-c", program],
        env={name: os.environ[name] for name in ("PATH", "PYTHONPATH")}
        | {"PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    tried = subprocess.run([*_NAMESPACE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no PID namespace can be made here: {tried.stderr.strip()}")


def test_all_processes_but_pid_1_are_stopped_and_go_on() -> None:
    lines = _container("""
run "$STOP"; run "$LIST"; echo --; run "$CONTINUE" | grep -c .; run "$LIST"
""")
    cut = lines.index("--")
    assert [line.split()[1] for line in lines[:cut]] == ["T", "T"]
    assert lines[cut + 1] == "2"
    going_on = [line.split()[1] for line in lines[cut + 2 :]]
    assert len(going_on) == 2
    assert "T" not in going_on


def test_the_main_process_is_the_oldest_child_of_pid_1() -> None:
    lines = _container("""
echo "$first"; killed=$(run "$KILL"); echo "$killed"; wait "$first"; echo "$?"
run "$IS_ALIVE" $killed; echo "$?"
echo "$second"; run "$LIST"
""")
    first, killed, status, alive, second, left = lines
    assert killed.split()[0] == first
    assert (status, alive) == ("137", "1")
    assert left.split()[0] == second


def test_of_an_executor_it_is_java() -> None:
    lines = _container('echo "$second" > /tmp/executor.pid; echo "$second"; run "$KILL"')
    assert lines[1].split()[0] == lines[0]


def test_a_process_of_the_same_pid_but_another_start_is_not_the_one() -> None:
    assert _container("""
start=$(run "$LIST" | head -1 | cut -d' ' -f3); run "$IS_ALIVE" "$first" "$start"; echo "$?"
run "$IS_ALIVE" "$first" "$((start + 1))"; echo "$?"
""") == ["0", "1"]


def test_slow_is_stopped_and_going_in_turn_until_it_is_taken_back() -> None:
    # PID 1 looks by itself: processes that it starts are stopped like the others.
    lines = _container("""
look() { read -r line < "/proc/$first/stat"; line=${line##*) }; state=${line%% *}; }
run "$SLOW_DOWN" "$LOOP" >/dev/null
for wanted in T S T S; do n=0; look
  until [ "$state" = $wanted ] || [ $n -gt 1000000 ]; do n=$((n + 1)); look; done; echo "$state"
done
run "$SPEED_UP" | grep -c .; run "$SPEED_UP" | grep -c .
look; [ "$state" != T ]; echo "$?"; ls /tmp/holdfast-chaos-slow 2>/dev/null | grep -c .
true
""")
    assert lines == ["T", "S", "T", "S", "1", "0", "0", "0"]


def test_workers_that_cannot_write_are_those_below_java(tmp_path: Path) -> None:
    up = tmp_path / "up"
    worker = f"import time; open('{up}', 'w').close(); time.sleep(300)"
    lines = _container(f"""
{{ "$PYTHON" -c "{worker}"; true; }} & echo $! > /tmp/executor.pid
until [ -e '{up}' ]; do sleep 0.05; done
for what in look full look free look; do "$PYTHON" -m "$LIMIT" "$what" | cut -d' ' -f2; done
""")
    assert lines == ["-1", "0", "0", "0", "-1"]


def test_without_java_there_is_nobody_to_limit() -> None:
    assert _container('"$PYTHON" -m "$LIMIT" full') == []
