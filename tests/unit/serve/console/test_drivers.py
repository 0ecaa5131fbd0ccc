from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from holdfast.local.probe import free_port
from holdfast.serve.console.drivers import Counters, Driver, Drivers
from holdfast.types.status import JobState, JobStatus, status_path
from tests.support.console.driver import DriverOf
from tests.support.console.world import JOB, World


def ask(home: Path, *urls: str) -> list[Driver]:
    return asyncio.run(Drivers(home, urls).ask())


def test_a_driver_tells_its_status_and_its_latencies(tmp_path: Path) -> None:
    driver = DriverOf(World())
    driver.batch(1_000, seconds=0.5, commit_seconds=0.02)
    driver.batch(1_000, seconds=1.5, commit_seconds=0.04)
    (found,) = ask(tmp_path, driver.url)
    assert found.answers
    assert found.application_id == JOB
    assert found.queries["ctas_per_city"]["records_total"] == 2_000
    told = found.counters["ctas_per_city"]
    assert (told.batch_count, told.batch_sum) == (2, 2.0)
    commits = dict(told.commits)
    assert (commits[0.01], commits[0.02], commits[0.05], commits[float("inf")]) == (0, 4, 8, 8)
    assert list(commits) == sorted(commits)


def test_an_address_may_end_in_status(tmp_path: Path) -> None:
    url = DriverOf(World()).url
    assert [d.answers for d in ask(tmp_path, f"{url}/status", url + "/")] == [True]


def test_drivers_of_the_home_are_found_by_their_files(tmp_path: Path) -> None:
    url = DriverOf(World()).url
    status = JobStatus(JOB, state=JobState.RUNNING, metrics_url=f"{url}/metrics")
    status.write(status_path(tmp_path, JOB))
    (found,) = ask(tmp_path)
    assert found.answers


def test_who_was_killed_is_known_by_what_it_wrote_last(tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    JobStatus("killed", state=JobState.RUNNING, metrics_url=f"{dead}/metrics").write(
        status_path(tmp_path, "killed")
    )
    stopped = DriverOf(World()).url  # another job may have its port now
    JobStatus("stopped", state=JobState.STOPPED, metrics_url=f"{stopped}/metrics").write(
        status_path(tmp_path, "stopped")
    )
    found = ask(tmp_path, dead)
    assert [(d.application_id, d.answers) for d in found] == [("killed", False), ("stopped", False)]
    assert found[0].counters == {}


def test_files_that_are_no_status_and_addresses_that_are_no_http_are_left_out(
    tmp_path: Path,
) -> None:
    for name, text in (("a", "{"), ("b", "[]"), ("c", "{}")):
        path = status_path(tmp_path, name)
        path.parent.mkdir(parents=True)
        path.write_text(text)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "status").write_text('{"application_id": "read from a file"}')
    assert ask(tmp_path, f"file://{secret}", "nothing") == []


def test_no_counter_is_zero() -> None:
    assert Counters() == Counters(0.0, 0.0, ())
    assert Driver({"queries": []}, answers=False).queries == {}


@contextmanager
def _at(port: int, folder: Path) -> Iterator[str]:
    """A driver elsewhere, whose status is a file of the folder; it can be gone."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_driver_elsewhere_that_goes_away_is_known_by_what_it_said_last(tmp_path: Path) -> None:
    (tmp_path / "status").write_text('{"application_id": "movies", "state": "running"}')
    port = free_port()
    drivers = Drivers(tmp_path / "home", [f"http://127.0.0.1:{port}"])
    assert asyncio.run(drivers.ask()) == []
    assert drivers.never_heard == 1
    for _ in range(2):
        with _at(port, tmp_path):
            (found,) = asyncio.run(drivers.ask())
            assert found.answers
        (found,) = asyncio.run(drivers.ask())
        assert (found.application_id, found.answers) == ("movies", False)
        assert drivers.never_heard == 0
