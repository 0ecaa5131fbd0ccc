"""One run at a time changes a job, and runs for different jobs go on side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from kubernetes.client import ApiClient, Configuration

from holdfast_airflow.locks.file import FileLock
from holdfast_airflow.locks.held import Holder, JobLock, LockUnavailable
from holdfast_airflow.locks.lease import LeaseLock

StandIn = Callable[[str], Path]
SideBySide = Callable[..., str]
NOW = datetime.now(UTC)
A, B = (Holder("deploy_state_table", run, NOW, NOW + timedelta(days=3)) for run in "ab")

# Each `deploy` says when it begins and ends; a second one inside of it would be seen.
SLOW = """
case $1 in
  status) echo '{"state": "running", "ready": true, "caught_up": true, "lag": 0}' ;;
  deploy) echo "begin $2" >> {events}; sleep {seconds}; echo "end $2" >> {events}
          echo '{"revision": 3}' ;;
  explain) ;;
  *) echo '{"ok": true}' ;;
esac
"""


@pytest.fixture
def side_by_side(dags_folder: Path, database: None, tmp_path: Path) -> SideBySide:
    """Runs `deploy_state_table` for all these jobs at once; returns what the runs have said."""
    script = Path(__file__).with_name("side_by_side.py")
    # Its tasks, too, tell what they wait for.
    own = {"PYTHONPATH": str(dags_folder)}

    def run(*names: str) -> str:
        confs = [
            json.dumps({"target": "local", "name": name, "sql": "SELECT 1;", "home": str(tmp_path)})
            for name in names
        ]
        # Airflow parses and stores every DAG of what it is given, twice.
        file = str(dags_folder / "deploy_state_table.py")
        line = [sys.executable, str(script), file, "deploy_state_table", *confs]
        done = subprocess.run(
            line,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=500,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def _stand_in(stand_in: StandIn, tmp_path: Path, seconds: int) -> Path:
    events = tmp_path / "events"
    stand_in(SLOW.replace("{events}", str(events)).replace("{seconds}", str(seconds)))
    return events


def test_two_runs_for_one_job_come_one_after_the_other(
    side_by_side: SideBySide, stand_in: StandIn, tmp_path: Path
) -> None:
    events = _stand_in(stand_in, tmp_path, 6)
    said = side_by_side("movies", "movies")
    assert events.read_text(encoding="utf-8").split("\n")[:-1] == [
        "begin movies", "end movies", "begin movies", "end movies",
    ]  # fmt: skip
    assert "Another run changes the job movies: deploy_state_table, run manual__" in said


def test_runs_for_different_jobs_overlap(
    side_by_side: SideBySide, stand_in: StandIn, tmp_path: Path
) -> None:
    events = _stand_in(stand_in, tmp_path, 30)
    said = side_by_side("movies", "flights")
    first, second, *_ = events.read_text(encoding="utf-8").splitlines()
    assert {first, second} == {"begin movies", "begin flights"}, "before either ended"
    assert "Another run changes" not in said


def _run(dags_folder: Path, home: Path, **conf: Any) -> tuple[dict[str, str], DagRun]:
    bag = DagBag(dags_folder / "undeploy_state_table.py", bundle_name="dags-folder")
    given = {"target": "local", "name": "movies", "home": str(home), **conf}
    found: DagRun = bag.dags["undeploy_state_table"].test(run_conf=given)
    return {task.task_id: str(task.state) for task in found.get_task_instances()}, found


def test_a_run_that_may_not_wait_fails_and_names_the_other(
    dags_folder: Path, database: None, stand_in: StandIn, tmp_path: Path
) -> None:
    calls = stand_in("echo '{}'")
    assert FileLock(tmp_path, "movies").take(A, None)
    states, run = _run(dags_folder, tmp_path, lock_timeout_minutes=0)
    assert (states["lock_job"], states["undeploy"]) == ("failed", "upstream_failed")
    assert not calls.exists(), "nothing was touched"
    reason = run.get_task_instance("lock_job")
    assert reason is not None
    why = reason.xcom_pull(task_ids="lock_job", key="reason", run_id=run.run_id)
    assert "Another run changes the job movies: deploy_state_table, run a, since" in why
    assert f"rm {tmp_path}/locks/movies.json" in why
    assert FileLock(tmp_path, "movies").read() is not None, "the other run has it still"


def test_a_lock_goes_on_to_the_next_run_and_is_free_at_the_end(
    dags_folder: Path, database: None, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in("echo '{}'")
    states, first = _run(dags_folder, tmp_path)
    assert set(states.values()) == {"success"}
    lock = FileLock(tmp_path, "movies")
    assert lock.read() is None
    # Its Airflow was killed before it could give the lock back, and knows that it has ended.
    assert lock.take(Holder(first.dag_id, first.run_id, NOW, A.until), None)
    states, _ = _run(dags_folder, tmp_path, lock_timeout_minutes=0)
    assert set(states.values()) == {"success"}
    # The run of another Airflow, of which this one knows nothing, has a limit, too.
    assert lock.take(Holder("x", "y", NOW - timedelta(hours=2), NOW - timedelta(hours=1)), None)
    states, _ = _run(dags_folder, tmp_path, lock_timeout_minutes=0)
    assert set(states.values()) == {"success"}
    assert lock.read() is None


def test_a_failed_run_gives_the_lock_back(
    dags_folder: Path, database: None, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in("exit 2")
    states, run = _run(dags_folder, tmp_path)
    assert (states["undeploy"], states["unlock_job"]) == ("failed", "success")
    assert str(run.state) == "failed"
    assert FileLock(tmp_path, "movies").read() is None


class _Leases(BaseHTTPRequestHandler):
    """The API server, as far as Leases go: names, versions, preconditions, and rights."""

    held: dict[str, dict[str, Any]]
    version: int
    forbidden: bool

    def _answer(self, status: int, body: object) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def _body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return found

    def _known(self, only: dict[str, Any]) -> bool:
        name = self.path.rpartition("/")[2]
        status = 403 if self.forbidden else 404 if name not in self.held else 200
        if status == 200 and not self._given(only).items() <= self.held[name]["metadata"].items():
            status = 409
        if status != 200:
            self._answer(status, {"kind": "Status", "code": status})
        return status == 200

    @staticmethod
    def _given(only: dict[str, Any]) -> dict[str, Any]:
        return {key: only[key] for key in ("uid", "resourceVersion") if key in only}

    def _keep(self, lease: dict[str, Any]) -> None:
        type(self).version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        lease["metadata"].setdefault("uid", f"uid-{self.version}")
        self.held[lease["metadata"]["name"]] = lease
        self._answer(200, lease)

    def do_GET(self) -> None:
        if self._known({}):
            self._answer(200, self.held[self.path.rpartition("/")[2]])

    def do_POST(self) -> None:
        lease = self._body()
        if self.forbidden or lease["metadata"]["name"] in self.held:
            self._answer(403 if self.forbidden else 409, {})
        else:
            self._keep(lease)

    def do_PUT(self) -> None:
        lease = self._body()
        gone = self.path.rpartition("/")[2] not in self.held
        # As the API server does for Leases (its strategy allows to create by an update).
        if (gone and "uid" not in lease["metadata"]) or self._known(lease["metadata"]):
            self._keep(lease)

    def do_DELETE(self) -> None:
        if self._known(self._body().get("preconditions", {})):
            self._answer(200, self.held.pop(self.path.rpartition("/")[2]))

    def log_message(self, *_: object) -> None:
        """Nothing: the tests say what there is to say."""


@pytest.fixture
def leases() -> Iterator[tuple[type[_Leases], ApiClient]]:
    handler = type("Leases", (_Leases,), {"held": {}, "version": 0, "forbidden": False})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        configuration = Configuration(host=f"http://127.0.0.1:{server.server_port}")
        yield handler, ApiClient(configuration)
        server.shutdown()


@pytest.fixture(params=["lease", "file"])
def lock(
    request: pytest.FixtureRequest, leases: tuple[type[_Leases], ApiClient], tmp_path: Path
) -> JobLock:
    if request.param == "file":
        return FileLock(tmp_path, "movies")
    return LeaseLock(leases[1], "holdfast", "movies")


def test_a_lock_has_one_holder_and_is_compared_and_exchanged(lock: JobLock) -> None:
    assert lock.read() is None
    assert lock.take(A, None)
    seen = lock.read()
    assert seen is not None
    assert seen.holder.same_run(A)
    assert abs(seen.holder.until - A.until) < timedelta(seconds=1)
    assert not lock.take(B, None), "it is taken"
    assert lock.take(B, seen)
    assert not lock.take(A, seen), "it is B's by now"
    lock.free(seen)
    now = lock.read()
    assert now is not None
    assert now.holder.same_run(B), "who had it before does not free it"
    lock.free(now)
    assert lock.read() is None
    lock.free(now)
    assert not lock.take(A, now), "it is nobody's"


def test_of_many_that_want_a_free_lock_one_has_it(lock: JobLock) -> None:
    barrier, won = Barrier(8), []

    def want(number: int) -> None:
        barrier.wait()
        if lock.take(Holder("d", str(number), NOW, A.until), None):
            won.append(str(number))

    wanting = [Thread(target=want, args=(number,)) for number in range(8)]
    for thread in wanting:
        thread.start()
    for thread in wanting:
        thread.join(60)
    held = lock.read()
    assert held is not None
    assert won == [held.holder.run]


def test_an_account_without_the_right_is_told_which(
    leases: tuple[type[_Leases], ApiClient],
) -> None:
    leases[0].forbidden = True
    lock = LeaseLock(leases[1], "holdfast", "movies")
    with pytest.raises(LockUnavailable, match="may not change Leases in holdfast"):
        lock.read()
    with pytest.raises(LockUnavailable):
        lock.take(A, None)


def test_a_table_s_name_makes_a_lease_s_name(leases: tuple[type[_Leases], ApiClient]) -> None:
    began = time.monotonic()
    assert LeaseLock(leases[1], "holdfast", "Movies_SOLD").take(A, None)
    assert list(leases[0].held) == ["holdfast-movies-sold"]
    assert time.monotonic() - began < 30
