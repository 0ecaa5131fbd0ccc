"""A job has one driver: a second one is refused, a dead one holds nobody up (ADR 62)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.errors import JobOwned
from holdfast.local.broker import BrokerStatus
from holdfast.runtime.lease import NAME_VARIABLE, Lease, look_before, this_driver
from holdfast.state.topics.orders import Driver, OrderBook
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.membership import LIVES_S, has_member
from holdfast.types.births import machine
from holdfast.types.ids import driver_group
from holdfast.types.status import JobStatus
from tests.support.clock import jump
from tests.support.jobs.running_job import WAIT_S
from tests.support.jobs.totals_job import TotalsJob

pytestmark = pytest.mark.timeout(600)

ELSEWHERE = "another machine"
_HOLDER = """
import sys, threading, time
from tests.integration.runtime.test_lease import driver, lease_of
held = lease_of(sys.argv[1], sys.argv[2], driver("the first", sys.argv[3]))
held.take()
print("taken", flush=True)
while True:
    time.sleep(60)
"""


def driver(name: str, machine: str = ELSEWHERE, key: str = "") -> Driver:
    """A driver of another machine, of whose process nothing can be known."""
    return Driver(name, key, machine, 1, 0.0, int(time.time() * 1000))


def lease_of(servers: str, application_id: str, me: Driver) -> Lease:
    settings = Settings(application_id, servers)
    book = OrderBook(Admin(settings.client()), settings.client(), application_id)
    return Lease(settings, book, me, threading.Event())


@pytest.fixture
def make(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str]
) -> Iterator[Callable[[Driver], Lease]]:
    application_id, made = kafka_topic_name("leased")[-40:], list[Lease]()

    def a_lease(me: Driver) -> Lease:
        made.append(lease_of(kafka.bootstrap_servers, application_id, me))
        return made[-1]

    yield a_lease
    for lease in made:
        lease.give_back()


def _until(true: Callable[[], bool], seconds: float = 15.0) -> float:
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, "it did not happen"
        time.sleep(0.05)
    return time.monotonic() - began


def test_a_second_driver_is_refused_with_the_name_of_the_first(
    make: Callable[[Driver], Lease],
) -> None:
    first = make(driver("the first, of namespace a"))
    first.look()
    first.take()
    with pytest.raises(JobOwned, match=r"is run by the first, of namespace a, since 2\d\d\d-"):
        make(driver("second")).look()
    first.check()


def test_one_that_ended_well_holds_nobody_up(make: Callable[[Driver], Lease]) -> None:
    first = make(driver("first"))
    first.take()
    first.give_back()
    began = time.monotonic()
    make(driver("second")).look()
    assert time.monotonic() - began < LIVES_S / 2


def test_a_dead_one_holds_nobody_up_for_longer_than_it_is_counted(
    make: Callable[[Driver], Lease], kafka: BrokerStatus
) -> None:
    """It is killed without a word, on a machine that nobody can look into."""
    second = make(driver("second"))
    application_id = second.settings.application_id
    process = _holder(kafka.bootstrap_servers, application_id, ELSEWHERE)
    _joined(second)
    process.kill()
    process.wait()
    began = time.monotonic()
    second.look()
    assert 1.0 < time.monotonic() - began < LIVES_S + 6.0


def _holder(servers: str, application_id: str, machine: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _HOLDER, servers, application_id, machine]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    process.stdout.close()
    return process


def test_a_dead_process_of_this_machine_holds_nobody_up(make: Callable[[Driver], Lease]) -> None:
    """Its membership goes on here, as it does for six seconds after a SIGKILL."""
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    dead = replace(driver("first", machine()), pid=ended.pid, born=time.time())
    make(dead).take()
    began = time.monotonic()
    make(driver("second")).look()
    assert time.monotonic() - began < LIVES_S / 2


def test_a_pid_that_was_given_again_is_dead(make: Callable[[Driver], Lease]) -> None:
    make(replace(driver("first", machine()), pid=os.getpid(), born=1.0)).take()
    began = time.monotonic()
    make(driver("second")).look()
    assert time.monotonic() - began < LIVES_S / 2


def test_a_jump_of_the_clock_ends_no_driver(
    make: Callable[[Driver], Lease], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The wall-clock time at which the machine started moves with its clock."""
    first = this_driver(Settings("any", home=str(tmp_path)))
    make(first).take()
    jump(monkeypatch, 3_600)
    with pytest.raises(JobOwned, match=f"pid {os.getpid()} on "):
        make(driver("second")).look()


@pytest.mark.parametrize(("key", "free"), [("its", True), ("another", False), ("", False)])
def test_a_pod_that_is_restarted_waits_for_nobody(
    make: Callable[[Driver], Lease], key: str, free: bool
) -> None:
    """Another cluster may have a pod of that name: it does not know the release's secret."""
    make(driver("pod a-driver-0 in namespace a", key="its")).take()
    again = make(driver("pod a-driver-0 in namespace a", "a third machine", key))
    began = time.monotonic()
    if not free:
        with pytest.raises(JobOwned):
            again.look()
        return
    again.look()
    again.take()
    assert time.monotonic() - began < LIVES_S / 2


def test_a_take_over_is_noticed_within_seconds(make: Callable[[Driver], Lease]) -> None:
    first, second = make(driver("first")), make(driver("second"))
    first.take()
    _joined(first)
    second.take()
    assert _until(lambda: first.lost) < 4.0
    assert first.stop.is_set()
    with pytest.raises(JobOwned, match="was taken over by second, since"):
        first.check()
    first.give_back()
    book = second.book
    book.refresh()
    assert book.driver is not None, "one that was taken over gives nothing back"
    assert book.driver.name == "second"
    second.check()


def test_of_two_that_start_at_once_one_remains(make: Callable[[Driver], Lease]) -> None:
    both = [make(driver(name)) for name in ("one", "other")]
    for lease in both:
        lease.look()
    for lease in both:
        lease.take()
    _until(lambda: sum(lease.lost for lease in both) == 1)
    time.sleep(3.0)
    assert sum(lease.lost for lease in both) == 1


def _joined(lease: Lease) -> None:
    """Waits for a member of the lease's group, whichever driver it is of."""
    client, group = lease.settings.client(), driver_group(lease.settings.application_id)
    _until(lambda: has_member(client, group, 5.0))


def test_a_deployment_is_refused_before_it_changes_anything(
    make: Callable[[Driver], Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(driver("pod a-driver-0 in namespace a", key="its"))
    first.take()
    look = make(driver("")).book
    look.refresh()
    look_before(first.settings, look)  # not a deployment that has a name
    monkeypatch.setenv(NAME_VARIABLE, "pod a-driver-0 in namespace a")
    look_before(first.settings, look)
    monkeypatch.setenv(NAME_VARIABLE, "pod a-driver-0 in namespace b")
    with pytest.raises(JobOwned, match="pod a-driver-0 in namespace a"):
        look_before(first.settings, look)
    look_before(replace(first.settings, lease=False), look)


def test_a_driver_s_key_follows_from_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("one")
    settings = Settings("a", spark_secret_file=str(secret))
    assert this_driver(settings).key == ""
    monkeypatch.setenv(NAME_VARIABLE, "pod")
    one = this_driver(settings)
    assert (one.name, one.key) == ("pod", this_driver(settings).key)
    secret.write_text("other")
    assert this_driver(settings).key not in ("", one.key, "one")


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[TotalsJob]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    made = TotalsJob(tmp_path, client, kafka_topic_name("app")[-40:], kafka_topic_name("in")[-40:])
    made.properties["executors"] = "1"
    yield made
    made.stop()


def test_a_whole_job_has_one_driver(job: TotalsJob, tmp_path: Path) -> None:
    """A second one is refused, then takes over; the tables stay exact."""
    job.produce(2_000, seed=1)
    job.start()
    before = job.until(lambda s: _records(s) == 2_000, "the first records")
    refused = _elsewhere(job, tmp_path / "second")
    assert refused.returncode == 2
    assert f"is run by pid {before.pid} on " in refused.stderr, refused.stderr
    job.produce(2_000, seed=2)
    job.until(lambda s: _records(s) == 4_000, "the first driver goes on")
    job.produce(1_000, seed=3)
    second = _elsewhere(job, tmp_path / "second", "--take-over")
    assert second.returncode == 0, second.stderr
    assert job.process is not None
    assert job.process.wait(timeout=WAIT_S) == 2, job.log()
    assert "was taken over by pid " in job.log()
    assert "Traceback" not in job.log_text()
    job.check_exact()


def _records(status: JobStatus) -> int:
    return status.queries["ctas_totals"].records_total


def _elsewhere(job: TotalsJob, home: Path, *extra: str) -> subprocess.CompletedProcess[str]:
    """Runs the same job with another home, until it has caught up."""
    command = job.command("--until-caught-up", *extra)
    command[command.index("--home") + 1] = str(home)
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
