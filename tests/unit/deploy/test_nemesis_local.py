"""The local target on real processes: faults land where they should, and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from holdfast.chaos.faults.target import Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.local.nemesis import LocalTarget
from holdfast.config.settings import Settings
from holdfast.deploy.local.processes import is_stopped, signal_all, volume_of
from holdfast.deploy.local.servers import LocalServers
from holdfast.deploy.local.supervisor import read_record
from holdfast.errors import HoldfastError, Refused, Retriable
from holdfast.local.processes import session_members
from holdfast.state.files import write_json
from holdfast.types.components import BROKER, DRIVER, EXECUTOR, SCHEDULER, SERVER
from tests.unit.deploy.local_job import NAME, LocalJob, gone, local_job, until


@pytest.fixture
def job(tmp_path: Path) -> Iterator[LocalJob]:
    with local_job(tmp_path) as made:
        yield made


@pytest.fixture
def target(job: LocalJob) -> LocalTarget:
    return LocalTarget(NAME, Settings(NAME, home=str(job.home)))


@pytest.fixture(scope="module")
def lasting_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalJob]:
    """One for all tests that take back what they do."""
    with local_job(tmp_path_factory.mktemp("lasting")) as made:
        yield made


@pytest.fixture
def lasting(lasting_job: LocalJob) -> LocalTarget:
    return LocalTarget(NAME, Settings(NAME, home=str(lasting_job.home)))


def _pid(victim: Victim) -> int:
    return int(victim.identity.partition("@")[0])


def _tree(victim: Victim) -> list[psutil.Process]:
    process = psutil.Process(_pid(victim))
    return [process, *process.children(recursive=True)]


def test_it_finds_who_there_is(lasting: LocalTarget) -> None:
    assert [v.name for v in lasting.victims(DRIVER)] == ["driver"]
    assert [v.name for v in lasting.victims(EXECUTOR)] == ["executor 0", "executor 1"]
    assert set(lasting.faults) == {DRIVER, EXECUTOR}, "the broker is not this home's"
    for nobody in (BROKER, SCHEDULER):
        with pytest.raises(Refused, match=f"There is no {nobody} to hit on this machine"):
            lasting.victims(nobody)


@pytest.mark.parametrize("fault", [Fault.KILL, Fault.DELETE, Fault.DELETE_NOW])
def test_an_executor_ends_and_the_others_live(target: LocalTarget, fault: Fault) -> None:
    first, second = target.victims(EXECUTOR)
    everyone = _tree(first)
    assert not target.landed(first, fault).landed
    target.strike(first, fault)
    until(lambda: target.landed(first, fault).landed, "its end")
    until(lambda: gone(everyone if fault is Fault.DELETE_NOW else everyone[:1]), "the end of all")
    assert target.victims(EXECUTOR) == [second]
    assert not target.recovered([first])
    with pytest.raises(HoldfastError, match="is gone already"):
        target.strike(first, fault)


def test_a_driver_that_has_refused_says_why(job: LocalJob, target: LocalTarget) -> None:
    record = read_record(job.folder)
    assert record is not None
    for state in ("running", "waiting", "refused"):
        told = replace(record, state=state, reason="offsets overlap")
        write_json(job.folder / "supervisor.json", 1, asdict(told))
        assert target.refusal() == ("offsets overlap" if state == "refused" else "")


def test_a_killed_driver_has_recovered_when_its_successor_is_there(
    target: LocalTarget, job: LocalJob
) -> None:
    (driver,) = target.victims(DRIVER)
    everyone = session_members(_pid(driver))
    target.strike(driver, Fault.DELETE_NOW)
    until(lambda: target.landed(driver, Fault.DELETE_NOW).landed, "its end")
    assert target.job_status() is None
    assert not target.recovered([driver])
    signal_all(everyone, signal.SIGKILL)  # as the supervisor does
    job.said.clear()
    job.start()
    assert target.recovered([driver])
    assert target.victims(DRIVER)[0].identity != driver.identity
    job.ready = False
    assert not target.recovered([driver])


def test_a_lost_volume_is_empty_before_the_next_owner_gets_it(
    target: LocalTarget, job: LocalJob
) -> None:
    first = target.victims(EXECUTOR)[0]
    ordinal = next(
        int(Path(f.path).parent.name)
        for p in _tree(first) for f in p.open_files() if f.path.endswith(".lock")
    )  # fmt: skip
    stores = job.state / str(ordinal) / "stores" / NAME
    other = job.state / str(1 - ordinal) / "stores" / NAME
    assert stores.exists()
    assert f"stores of volume {ordinal} removed" in target.strike(first, Fault.LOSE_VOLUME)
    assert target.landed(first, Fault.LOSE_VOLUME).landed
    assert not stores.exists()
    assert other.exists()


def test_swapped_stores_are_seen_to_be_swapped_before_the_next_owner_gets_them(
    target: LocalTarget, job: LocalJob
) -> None:
    first = target.victims(EXECUTOR)[0]
    ordinal = volume_of(_tree(first), job.state)
    query = job.state / str(ordinal) / "stores" / NAME / "q"
    with pytest.raises(Retriable, match="No volume has two stores of one query"):
        target.strike(first, Fault.SWAP_VOLUMES)
    (query / "1").mkdir()
    before = {name: (query / name).stat().st_ino for name in "01"}
    assert not target.landed(first, Fault.SWAP_VOLUMES).landed
    assert target.strike(first, Fault.SWAP_VOLUMES).endswith(f"on volume {ordinal} q/0 with /1")
    until(lambda: target.victims(EXECUTOR) == [], "the end of all that could take over")
    landing = target.landed(first, Fault.SWAP_VOLUMES)
    assert landing.landed
    assert landing.evidence.endswith(f"is gone; stores: on volume {ordinal} q/0 with /1")
    after = {name: (query / name).stat().st_ino for name in "01"}
    assert after == {"0": before["1"], "1": before["0"]}


def test_an_old_volume_needs_a_job_that_goes_on(
    target: LocalTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.chaos.targets.local.volumes._FURTHER_S", 0.1)
    first = target.victims(EXECUTOR)[0]
    with pytest.raises(HoldfastError, match=r"were copied, but none went on in 0 s"):
        target.strike(first, Fault.OLD_VOLUME)
    assert not target.landed(first, Fault.OLD_VOLUME).landed


@pytest.mark.parametrize("component", [DRIVER, EXECUTOR])
def test_a_pause_stops_all_of_it_and_nobody_else(lasting: LocalTarget, component: str) -> None:
    victim = lasting.victims(component)[0]
    others = [v for c in (DRIVER, EXECUTOR) for v in lasting.victims(c) if v != victim]
    lasting.strike(victim, Fault.PAUSE)
    until(lambda: lasting.landed(victim, Fault.PAUSE).landed, "the stop")
    assert psutil.Process(_pid(victim)).status() == psutil.STATUS_STOPPED
    assert all(psutil.Process(_pid(v)).status() != psutil.STATUS_STOPPED for v in others)
    lasting.heal(victim, Fault.PAUSE)
    until(lambda: not lasting.landed(victim, Fault.PAUSE).landed, "the end of the stop")
    assert lasting.recovered([victim])


def test_who_outlives_a_victim_that_was_stopped_goes_on_too(
    job: LocalJob, target: LocalTarget
) -> None:
    """An executor that is stopped, then killed: its workers keep its volume until they end."""
    victim = target.victims(EXECUTOR)[0]
    workers = _tree(victim)[1:]
    assert workers
    target.strike(victim, Fault.PAUSE)
    until(lambda: target.landed(victim, Fault.PAUSE).landed, "the stop")
    target.strike(victim, Fault.KILL)
    until(lambda: target.landed(victim, Fault.KILL).landed, "its end")
    target.heal(victim, Fault.KILL)
    assert all(worker.status() == psutil.STATUS_STOPPED for worker in workers)
    target.heal(victim, Fault.PAUSE)
    until(lambda: not any(is_stopped(worker) for worker in workers), "its workers")


def test_a_full_disk_refuses_real_writes_until_it_is_healed(
    lasting: LocalTarget, lasting_job: LocalJob
) -> None:
    victim = lasting.victims(EXECUTOR)[0]
    lasting.strike(victim, Fault.DISK_FULL)
    assert lasting.landed(victim, Fault.DISK_FULL).landed
    until(lambda: lasting_job.said_of("File too large"), "a write that fails")
    lasting_job.said.clear()
    lasting.heal(victim, Fault.DISK_FULL)
    assert not lasting.landed(victim, Fault.DISK_FULL).landed
    until(lambda: lasting_job.said_of("ok"), "a write that succeeds again")


def test_what_a_dead_nemesis_left_is_found_by_looking(
    lasting: LocalTarget, lasting_job: LocalJob
) -> None:
    first, second = lasting.victims(EXECUTOR)
    lasting.strike(first, Fault.PAUSE)
    lasting.strike(second, Fault.DISK_FULL)
    until(lambda: lasting.landed(first, Fault.PAUSE).landed, "the stop")
    another = LocalTarget(NAME, Settings(NAME, home=str(lasting_job.home)))
    assert len(another.heal_all()) == 3, "executor and worker go on, the other worker writes"
    assert not another.landed(first, Fault.PAUSE).landed
    assert not another.landed(second, Fault.DISK_FULL).landed
    assert another.heal_all() == []


def test_a_slow_executor_is_stopped_again_and_again(lasting: LocalTarget) -> None:
    victim = lasting.victims(EXECUTOR)[0]
    process = psutil.Process(_pid(victim))
    lasting.strike(victim, Fault.SLOW)
    assert lasting.landed(victim, Fault.SLOW).landed
    for _ in range(2):
        until(lambda: process.status() == psutil.STATUS_STOPPED, "a stop")
        until(lambda: process.status() != psutil.STATUS_STOPPED, "a go")
    lasting.heal(victim, Fault.SLOW)
    assert not lasting.landed(victim, Fault.SLOW).landed
    assert lasting.heal_all() == []


@pytest.fixture
def servers(lasting_job: LocalJob, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServers]:
    """Two processes in the place of query servers, which would need a Kafka."""
    monkeypatch.setattr(LocalServers, "_command", lambda *_: ["sleep", "600"])
    made = LocalServers(lasting_job.home, NAME)
    made.begin(1, 2)
    yield made
    made.end(delete_stores=True)


def test_a_killed_server_is_started_again_where_it_listened(
    servers: LocalServers, lasting: LocalTarget
) -> None:
    first, second = lasting.victims(SERVER)
    where = servers.addresses
    assert (first.name, second.name) == ("server 0", "server 1")
    lasting.strike(second, Fault.KILL)
    until(lambda: lasting.landed(second, Fault.KILL).landed, "its end")
    until(lambda: len(lasting.victims(SERVER)) == 2, "its successor")
    assert lasting.victims(SERVER)[0] == first
    assert lasting.victims(SERVER)[1].identity != second.identity
    assert servers.addresses == where
    assert [(told["running"], told["restarts"]) for told in servers.told()] == [
        (True, 0),
        (True, 1),
    ]
    assert servers.told()[1]["reason"] == "the server-1 was killed by signal 9: "
    assert not lasting.recovered([second]), "nobody answers there"
    assert lasting.recovered(lasting.victims(DRIVER)), "servers say nothing about the driver"


def test_a_server_that_is_refused_is_not_waited_for(
    lasting_job: LocalJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = [sys.executable, "-c", "import sys; print('Error: no such table'); sys.exit(2)"]
    monkeypatch.setattr(LocalServers, "_command", lambda *_: refused)
    made = LocalServers(lasting_job.home, NAME)
    made.begin(1, 1)
    try:
        with pytest.raises(HoldfastError, match="the server-0 ended with status 2: no such table"):
            made.await_ready(60.0, lambda _: None)
    finally:
        made.end()


def servers_supervisor(job: LocalJob, number: int) -> psutil.Process:
    record = read_record(job.folder / f"server-{number}")
    assert record is not None
    return psutil.Process(record.pid)


def test_a_paused_server_goes_on_when_all_is_healed_and_in_the_end_all_are_gone(
    servers: LocalServers, lasting: LocalTarget, lasting_job: LocalJob
) -> None:
    first, second = lasting.victims(SERVER)
    lasting.strike(first, Fault.PAUSE)
    until(lambda: lasting.landed(first, Fault.PAUSE).landed, "the stop")
    assert lasting.heal_all() == [f"pid {_pid(first)} goes on"]
    assert not lasting.landed(first, Fault.PAUSE).landed
    supervisor = servers_supervisor(lasting_job, 1)
    supervisor.kill()
    left = [supervisor, servers_supervisor(lasting_job, 0)]
    left += [psutil.Process(_pid(victim)) for victim in (first, second)]
    servers.end(delete_stores=True)
    until(lambda: gone(left), "the end of all, supervised or not")
    assert SERVER not in lasting.faults


def test_what_is_not_of_the_deployment_is_never_hit(lasting: LocalTarget) -> None:
    own = Victim(EXECUTOR, "executor 0", f"{os.getpid()}@1.00")
    with pytest.raises(HoldfastError, match="is gone already"):
        lasting.strike(own, Fault.KILL)
    with pytest.raises(Refused, match="cannot be done to a driver"):
        lasting.strike(lasting.victims(DRIVER)[0], Fault.DISK_FULL)
    with pytest.raises(Refused, match="There is no deployment other"):
        LocalTarget("other", Settings("other", home="nowhere"))
