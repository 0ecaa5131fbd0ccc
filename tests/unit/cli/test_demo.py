"""The demo's parts: its folder, its processes, what counts as a kill and as recovery."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.cli.demo.files import DemoFiles, last_line
from holdfast.cli.demo.kills import Kill, _busiest, _replaced, _restored
from holdfast.cli.demo.processes import Children
from holdfast.cli.demo.recount import differences, recounted
from holdfast.cli.demo.results import EXPECTED, FLIGHTS_EXPECTED, compare
from holdfast.cli.demo.screen import Screen
from holdfast.cli.demo.script import Demo, DemoOptions
from holdfast.cli.samples import SAMPLES
from holdfast.errors import Refused
from holdfast.local.processes import kill_hard, session_members
from holdfast.types.status import ExecutorStatus, JobStatus, PartitionStatus, QueryStatus

# A parent whose child makes a process group of its own, as Spark's Python workers do.
FAMILY = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(60)"])
time.sleep(60)
"""


def waits(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def family() -> Iterator[psutil.Process]:
    started = subprocess.Popen([sys.executable, "-c", FAMILY], start_new_session=True)
    process = psutil.Process(started.pid)
    assert waits(lambda: len(session_members(started.pid)) == 2)
    yield process
    for member in session_members(started.pid):
        member.kill()
    started.wait()


def test_a_session_finds_the_children_of_a_killed_parent(family: psutil.Process) -> None:
    assert kill_hard(family.pid)
    assert waits(lambda: len(session_members(family.pid)) == 1)


def test_a_kill_of_nobody_has_not_landed() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not kill_hard(gone.pid)


def test_children_are_stopped_and_none_is_left(tmp_path: Path) -> None:
    children = Children()
    child = children.start([sys.executable, "--version"], tmp_path / "log")
    assert waits(lambda: not child.running, 30)
    assert child.exit_status == 0
    assert (tmp_path / "log").read_text()
    children.stop()
    assert children.leftovers() == []


def test_only_a_folder_of_the_demo_is_wiped(tmp_path: Path) -> None:
    home = tmp_path / "home"
    files = DemoFiles(home)
    files.wipe()
    (home / "job.log").write_text("old")
    files.wipe()
    assert not files.log.exists()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("precious")
    with pytest.raises(Refused, match="not the demo's"):
        DemoFiles(mine).wipe()
    assert (mine / "thesis.txt").exists()


def status(
    *executors: tuple[str, int], owners: str = "", pid: int = 1, **restore: float
) -> JobStatus:
    partitions = tuple(
        PartitionStatus(i, owner, restore_seconds=restore.get("seconds", 0.0), restore_records=10)
        for i, owner in enumerate(owners)
    )
    return JobStatus(
        "demo",
        pid=pid,
        executors=tuple(ExecutorStatus(i, jvm_pid=jvm) for i, jvm in executors),
        queries={"q": QueryStatus("T", "T", state_partitions=partitions)},
    )


def test_the_executor_with_most_state_partitions_is_the_victim() -> None:
    found = _busiest(status(("0", 10), ("1", 11), owners="0111"))
    assert found is not None
    assert found.jvm_pid == 11
    assert _busiest(status(("0", 0), owners="0")) is None


def test_recovered_means_a_new_process_and_no_executor_missing() -> None:
    before = status(("0", 10), ("1", 11))
    assert not _replaced(before, before)
    assert not _replaced(before, status(("0", 10)))
    assert _replaced(before, status(("0", 10), ("2", 12)))
    assert not _replaced(before, None)


def test_only_restores_since_the_kill_are_told() -> None:
    before = status(owners="01", seconds=0.5)
    assert _restored(before, before) == "level at once"
    after = status(owners="01", seconds=0.25, pid=2)
    assert _restored(before, after) == "2 opened, 20 records replayed, 0.25 s at most"


def test_a_kill_after_the_work_does_not_count() -> None:
    assert Kill("x", True, 0.5, 1, 0.0, None).counts
    assert not Kill("x", True, 1.0, 1, 0.0, None).counts
    assert not Kill("x", False, 0.5, 1, 0.0, None).counts


def test_known_values_are_compared_with_what_is_there() -> None:
    tables = {
        "MOVIE_TICKETS_SOLD": {("Aliens",): {"TICKETS_SOLD": 2}, ("Die Hard",): {"TICKETS_SOLD": 4}}
    }
    agreed = {f"{e.table}/{e.key}": ok for e, _, ok in compare(EXPECTED, tables)}
    assert agreed["MOVIE_TICKETS_SOLD/Aliens"]
    assert not agreed["MOVIE_TICKETS_SOLD/Die Hard"]
    assert not agreed["MOVIE_TICKETS_SOLD/The Godfather"]


def test_a_log_says_what_is_being_done_now(tmp_path: Path) -> None:
    log = tmp_path / "airflow.log"
    log.write_text("")
    assert last_line(log) == ""
    log.write_text("x" * 9_000 + "\n2026-11-21T06:15:49.867450Z demo is running; lag: 0\n\n")
    assert last_line(log) == "demo is running; lag: 0"
    at = "2026-11-21T06:15:49.867450Z"
    log.write_text(f'{at} [ 12 s] 06:15:49.867 INFO    job: starting …\n{at} {{"ok":true}}\n')
    assert last_line(log) == "job: starting", "one time, no JSON, no second dots"
    with log.open("a") as file:
        file.write(f"{at} holdfast://local/T: {{'event': 'compaction', 'verdict': 'good'}}\n")
    assert last_line(log) == "job: starting", "no asset's facts"
    assert last_line(log, log.stat().st_size) == "", "what was said before does not count"
    log.write_text(f"{at} {'word ' * 40}\n{at} half a li")
    assert len(last_line(log)) == 90
    assert last_line(log).endswith("…")


def test_only_commands_have_a_dollar(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.command(["query", "SELECT 1;"])
    screen.command_line(["rm", "-r", "a b"])
    screen.statement("SELECT carrier FROM t WHERE a = '[b]';", "UA")
    assert capsys.readouterr().out.splitlines() == [
        "$ holdfast query 'SELECT 1;'",
        "$ rm -r 'a b'",
        "  SELECT carrier FROM t WHERE a = '[b]';   → UA",
    ]


def test_a_wait_tells_what_goes_on_and_for_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen().waiting("Airflow starts") as tell:
        for line in ("", "", "deploy begins"):
            tell(line)
    assert capsys.readouterr().out.splitlines() == ["    0 s  Airflow starts"]


def test_the_recount_gives_the_values_that_are_known_beforehand() -> None:
    tables = recounted(SAMPLES["flights"].count)
    assert all(agrees for _, _, agrees in compare(EXPECTED + FLIGHTS_EXPECTED, tables))
    flights = sum(row["FLIGHTS"] for row in tables["FLIGHTS_PER_ORIGIN_HOUR"].values())
    assert flights == SAMPLES["flights"].count
    assert differences(tables, tables) == []


def test_a_table_with_the_right_total_and_a_wrong_row_is_found() -> None:
    wanted = recounted(2_000)
    for table, rows in wanted.items():
        one, other, *_ = rows
        for column in rows[one]:
            if rows[one][column] == rows[other].get(column):
                continue
            swapped = {
                **rows,
                one: {**rows[one], column: rows[other].get(column)},
                other: {**rows[other], column: rows[one][column]},
            }
            (line,) = differences(wanted, {**wanted, table: swapped})
            assert line.startswith(f"{table}: 2 rows differ")


def test_a_row_that_is_missing_and_one_that_nobody_wrote_are_found() -> None:
    wanted = recounted(2_000)
    carriers = dict(wanted["FLIGHTS_PER_CARRIER"])
    carriers["??",] = carriers.pop(("UA",))
    (line,) = differences(wanted, {**wanted, "FLIGHTS_PER_CARRIER": carriers})
    assert "UA is missing" in line
    assert "?? is in no input" in line
    del carriers["??",]
    assert len(differences(wanted, {**wanted, "FLIGHTS_PER_CARRIER": carriers})) == 1
    assert len(differences(wanted, {})) == len(wanted)


def test_the_end_says_how_to_look_further(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = Demo(DemoOptions(tmp_path / "demo", rate=1_000, limit=10), Screen())
    assert demo._clear(), "nothing was started"
    demo._report()
    told = " ".join(capsys.readouterr().out.split())
    assert "nothing is left running" in told
    for command in ("kafka start", "registry start", "inspect flights", "deploy demo", "serve"):
        assert f"holdfast {command}" in told
    assert told.endswith("NOT PROVED")
