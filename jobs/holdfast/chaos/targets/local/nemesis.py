"""The target `local`: processes of one deployment on this machine, and its broker.

| component | its processes                                | main process |
|-----------|----------------------------------------------|--------------|
| driver    | the supervised command and its JVM           | the command  |
| executor  | a JVM of the driver's session, its Python    | the JVM      |
|           | daemon and workers                           |              |
| broker    | the Kafka of the same home                   | the JVM      |
| server    | a query server beside the job, supervised    | that process |

Victims are found by looking: nothing outside the deployment's own session and the home's own
broker is ever touched.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from holdfast.chaos.faults.hook_files import HookFiles
from holdfast.chaos.faults.target import Held, Hook, Landing, QueryServers, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.local.second_driver import SecondDriver
from holdfast.chaos.targets.local.volumes import VolumeStores
from holdfast.config.settings import Settings
from holdfast.deploy.deployment import fetch_status
from holdfast.deploy.local.processes import (
    JobProcesses,
    Member,
    full_disk,
    identity_of,
    is_stopped,
    signal_all,
    tree_of,
    volume_of,
)
from holdfast.deploy.local.revisions import state_dir_of
from holdfast.deploy.local.servers import COPIES, LocalServers
from holdfast.deploy.local.supervisor import read_record
from holdfast.errors import HoldfastError, Refused, Retriable
from holdfast.local.broker import LocalKafka
from holdfast.local.probe import HOST, serves_producers
from holdfast.state.files import read_json
from holdfast.types.components import BROKER, DRIVER, EXECUTOR, SERVER
from holdfast.types.status import JobStatus, status_path

__all__ = ["LocalTarget"]

_FAULTS: Mapping[str, frozenset[Fault]] = {
    DRIVER: frozenset({Fault.KILL, Fault.DELETE, Fault.DELETE_NOW, Fault.PAUSE, Fault.SLOW,
                       Fault.SECOND_DRIVER}),
    EXECUTOR: frozenset(Fault) - {Fault.CUT_OFF, Fault.SECOND_DRIVER, Fault.ADD_PARTITION,
                                  Fault.RECREATE_TOPIC, Fault.DAMAGE_SNAPSHOT, Fault.RESCALE,
                                  Fault.EMPTY_STORES},
    BROKER: frozenset({Fault.KILL, Fault.DELETE, Fault.CUT_OFF, Fault.SLOW}),
    SERVER: frozenset({Fault.KILL, Fault.DELETE, Fault.PAUSE, Fault.SLOW}),
}  # fmt: skip
_OF_STORES = frozenset({Fault.OLD_VOLUME, Fault.SWAP_VOLUMES})
_STOP_S, _GO_S = 0.20, 0.05  # SLOW: stopped four fifths of the time
_OWNER_S, _OWNER_POLL_S = 60.0, 0.2


class LocalTarget:
    """Owns the threads that slow processes down, and remembers which processes it stopped, since
    they may outlive the victim; everything else is looked up each time.

    Args:
        name: the deployment that may be hit.
        settings: the job's settings; the broker may be hit only if it belongs to the same home.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self._settings = settings
        """Raises `Refused`: there is no such deployment."""
        home = Path(settings.home).absolute()
        self._state_dir = state_dir_of(home, name)
        self._folder = home / "deploy" / name
        self._processes = JobProcesses(self._folder)
        self._status = status_path(home, settings.application_id)
        self._port = int(settings.bootstrap_servers.rpartition(":")[2])
        self._kafka = _own_kafka(home, settings.bootstrap_servers)
        self._servers = LocalServers(home, name)
        self._second = SecondDriver(
            self._folder, settings.application_id, settings.bootstrap_servers
        )
        self._slowing: dict[str, _Slowing] = {}
        self._stores_done: dict[str, str] = {}  # by victim: the change to its stores
        self._stopped: dict[str, list[psutil.Process]] = {}

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """Faults by component; the broker's only where it belongs to the job's home."""
        absent = {c for c, there in ((BROKER, self._kafka), (SERVER, self._servers.addresses))
                  if not there}  # fmt: skip
        return {c: f for c, f in _FAULTS.items() if c not in absent}

    @property
    def notes(self) -> Mapping[Fault, str]:
        """No notes: the table of faults says everything."""
        return {}

    @property
    def hook(self) -> Hook | None:
        """The hook, if the driver was started with it and a worker that has it lives."""
        folder = self._processes.hook_folder()
        if folder is None:
            return None
        files = HookFiles(folder)
        alive = any(map(psutil.pid_exists, files.pids()))
        return _LocalHook(files, self._processes) if alive else None

    def is_dev_namespace(self) -> bool:
        """True: a home on this machine is its user's own."""
        return True

    def victims(self, component: str) -> list[Victim]:
        """The living victims: driver, executors by number, broker, servers by number.

        Raises:
            Refused: the component is unknown here.
        """
        return [_victim(member) for member in self._members(component)]

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Injects the fault with signals and limits; LOSE_VOLUME removes the job's stores.

        Raises:
            Retriable: the victim is gone, or cannot be hit yet.
            Refused: the fault is not possible for it.
        """
        member = self._find(victim)
        if fault not in self.faults[victim.component]:
            raise Refused(f"{fault.value} cannot be done to a {victim.component} on this machine.")
        return self._strike(member, fault)

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Evidence from the processes: gone, stopped, or under a limit that refuses every write.

        For exchanged stores it reports what the disk showed while no process had them open.
        """
        if fault is Fault.SECOND_DRIVER:
            return self._second.landing()
        pid = _pid(victim)
        lives = identity_of(pid) == victim.identity
        if fault.kills or fault is Fault.DELETE:
            return self._ended(victim, fault, lives=lives)
        if not lives:
            return Landing(False, f"{victim.name} (pid {pid}) ended by itself")
        if fault is Fault.SLOW:
            running = victim.identity in self._slowing
            return Landing(running, f"{victim.name} is stopped {_STOP_S / (_STOP_S + _GO_S):.0%}")
        if fault is Fault.DISK_FULL:
            workers = [p for p in tree_of(pid) if p.pid != pid]
            full = bool(workers) and all(map(full_disk, workers))
            return Landing(full, f"{len(workers)} processes of {victim.name} can write no file")
        stopped = all(map(is_stopped, self._all_of(victim)))
        return Landing(stopped, f"{victim.name} (pid {pid}) is {'' if stopped else 'not '}stopped")

    def heal(self, victim: Victim, fault: Fault) -> None:
        """Heals the fault; a broker that is gone is started again on its port."""
        if fault is Fault.SECOND_DRIVER:
            self._second.end()
            return
        if fault is Fault.SLOW and victim.identity in self._slowing:
            self._slowing.pop(victim.identity).end()
        if victim.component == BROKER and (fault.kills or fault is Fault.DELETE):
            self._start_broker()
        elif fault.lasts:  # a fault that ends the victim leaves earlier faults to their own time
            self._take_back(self._stopped.pop(victim.identity, []))
            if identity_of(_pid(victim)) == victim.identity:
                self._take_back(self._all_of(victim))

    def heal_all(self) -> list[str]:
        """Continues stopped processes, lifts limits, ends a second driver, starts the broker."""
        done = self._second.end()
        for slowing in self._slowing.values():
            slowing.end()
        self._slowing.clear()
        for component in self.faults:
            for member in self._members(component):
                done += self._take_back(tree_of(member.pid) if component != DRIVER
                                        else self._processes.of_driver())  # fmt: skip
        if self._kafka is not None and self._kafka.status() is None:
            self._start_broker()
            done.append(f"Kafka started again on port {self._port}")
        folder = self._processes.hook_folder()
        if folder is not None:
            HookFiles(folder).clear()
        return done

    def recovered(self, victims: Sequence[Victim]) -> bool:
        """Whether every component is back and ready."""
        if any(v.component == BROKER for v in victims) and not serves_producers(self._port):
            return False
        if (
            not victims or any(v.component == SERVER for v in victims)
        ) and not self._servers.ready():
            return False
        executors = self._members(EXECUTOR)
        status = self.job_status()
        enough = len(executors) >= self._settings.placement.executors
        return enough and status is not None and bool(status.get("ready"))

    def refusal(self) -> str:
        """The reason of a driver that exited with the refusal status and is not restarted."""
        record = read_record(self._folder)
        return record.reason if record is not None and record.state == "refused" else ""

    def query_servers(self) -> QueryServers:
        """The deployment's query servers."""
        return QueryServers(self._servers.addresses, COPIES)

    def job_status(self) -> dict[str, Any] | None:
        """The present driver's /status."""
        told, record = JobStatus.read(self._status), self._processes.driver()
        if told is None or record is None or told.pid != record.driver_pid or not told.metrics_url:
            return None  # the file is a predecessor's
        return fetch_status(told.metrics_url.removesuffix("metrics") + "status", timeout_s=2.0)

    def _ended(self, victim: Victim, fault: Fault, *, lives: bool) -> Landing:
        told = f"{victim.name} (pid {_pid(victim)}) {'lives' if lives else 'is gone'}"
        if fault not in _OF_STORES:
            return Landing(not lives, told)
        done = self._stores_done.get(victim.identity, "")
        return Landing(not lives and bool(done), f"{told}; stores: {done or 'as they were'}")

    # -- the faults --------------------------------------------------------------------------

    def _strike(self, member: Member, fault: Fault) -> str:
        victim = _victim(member)
        everyone = self._all_of(victim)
        main = [psutil.Process(member.pid)]
        deeds: Mapping[Fault, Callable[[], str]] = {
            Fault.DELETE: lambda: _signalled(main, signal.SIGTERM),
            Fault.DELETE_NOW: lambda: _signalled(everyone, signal.SIGKILL),
            Fault.KILL: lambda: _signalled(main, signal.SIGKILL),
            Fault.LOSE_VOLUME: lambda: self._lose_volume(member, everyone),
            Fault.DISK_FULL: lambda: _fill_disk(everyone[1:]),
            Fault.SLOW: lambda: self._slow(victim, everyone),
            Fault.PAUSE: lambda: self._stop(victim, everyone),
            Fault.CUT_OFF: lambda: self._stop(victim, everyone),
            Fault.SECOND_DRIVER: self._second.start,
            Fault.OLD_VOLUME: lambda: self._old_volume(member, everyone),
            Fault.SWAP_VOLUMES: lambda: self._swap_volumes(member),
        }
        return deeds[fault]()

    def _stop(self, victim: Victim, everyone: list[psutil.Process]) -> str:
        did = _signalled(everyone, signal.SIGSTOP)
        self._stopped[victim.identity] = everyone
        return did

    def _lose_volume(self, member: Member, everyone: list[psutil.Process]) -> str:
        ordinal, stores = self._volume(member, everyone)
        did = _signalled(everyone, signal.SIGKILL)
        stores.remove()
        return f"{did}; stores of volume {ordinal} removed"

    def _swap_volumes(self, member: Member) -> str:
        """Kills all executors and swaps stores: an executor left alive would restore the missing
        store on its own volume, and no task would open the swapped one.
        """
        members = self._processes.executors()
        volumes = [self._volume(m, tree_of(m.pid)) for m in members]
        if not any(stores.pairs() for _, stores in volumes):
            raise Retriable("No volume has two stores of one query yet.")
        identity = member.identity  # a process that is gone has none
        did = _signalled([p for m in members for p in tree_of(m.pid)], signal.SIGKILL)
        done = [(ordinal, stores.swap()) for ordinal, stores in volumes]
        swapped = "; ".join(f"on volume {ordinal} {text}" for ordinal, text in done if text)
        self._stores_done[identity] = swapped
        return f"{did}; swapped {swapped}"

    def _old_volume(self, member: Member, everyone: list[psutil.Process]) -> str:
        """Kills it, copies its stores, lets the job go on, kills the successor, swaps back."""
        ordinal, stores = self._volume(member, everyone)
        identity = member.identity
        did = [_signalled(everyone, signal.SIGKILL)]
        stores.copy_aside()
        stores.await_further(self.refusal)
        did.append(_signalled(tree_of(self._owner(ordinal).pid), signal.SIGKILL))
        self._stores_done[identity] = older = stores.bring_back()
        return f"{', then '.join(did)}; put back on volume {ordinal}: {older}"

    def _volume(
        self, member: Member, everyone: Sequence[psutil.Process]
    ) -> tuple[int, VolumeStores]:
        ordinal = volume_of(everyone, self._state_dir)
        if ordinal is None:
            raise Retriable(f"{member.name} has claimed no volume yet.")
        application_id, aside = self._settings.application_id, self._folder / f"aside-{ordinal}"
        return ordinal, VolumeStores(self._state_dir, ordinal, application_id, aside)

    def _owner(self, ordinal: int) -> Member:
        """The executor that holds the volume.

        Raises:
            HoldfastError: no executor took it in time.
        """
        deadline = time.monotonic() + _OWNER_S
        while time.monotonic() < deadline:
            for member in self._processes.executors():
                if volume_of(tree_of(member.pid), self._state_dir) == ordinal:
                    return member
            time.sleep(_OWNER_POLL_S)
        raise HoldfastError(f"No executor has volume {ordinal} after {_OWNER_S:.0f} s.")

    def _slow(self, victim: Victim, everyone: list[psutil.Process]) -> str:
        self._slowing[victim.identity] = slowing = _Slowing(everyone, f"slow {victim.name}")
        slowing.start()
        return f"{len(everyone)} processes stopped and let go, again and again"

    def _start_broker(self) -> None:
        if self._kafka is not None:
            self._kafka.start(self._port)

    @staticmethod
    def _take_back(everyone: Sequence[psutil.Process]) -> list[str]:
        stopped = [p for p in everyone if is_stopped(p)]
        limited = [p for p in everyone if full_disk(p)]
        signal_all(stopped, signal.SIGCONT)
        for process in limited:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
        told = [f"pid {p.pid} goes on" for p in stopped]
        return told + [f"pid {p.pid} may write again" for p in limited]

    # -- the processes -----------------------------------------------------------------------

    def _members(self, component: str) -> list[Member]:
        if component == DRIVER:
            return self._processes.drivers()
        if component == EXECUTOR:
            return self._processes.executors()
        if component == BROKER and self._kafka is not None:
            running = self._kafka.status()
            return [Member(BROKER, "broker", running.pid)] if running is not None else []
        if component == SERVER and self._servers.addresses:
            return self._servers.members()
        known = ", ".join(sorted(self.faults))
        raise Refused(
            f"There is no {component} to hit on this machine; there are: {known}.",
            cause="on this machine a job has no such part, or its Kafka belongs to somebody else",
            action="leave it out, or use the target kubernetes",
        )

    def _find(self, victim: Victim) -> Member:
        for member in self._members(victim.component):
            if member.identity == victim.identity:
                return member
        raise Retriable(f"{victim.name} ({victim.identity}) is gone already.")

    def _all_of(self, victim: Victim) -> list[psutil.Process]:
        if victim.component == DRIVER:
            return self._processes.of_driver()
        return tree_of(_pid(victim))


class _Slowing(threading.Thread):
    """Stops and continues processes, again and again, until `end`."""

    def __init__(self, processes: list[psutil.Process], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._processes = processes
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            signal_all(self._processes, signal.SIGSTOP)
            self._ended.wait(_STOP_S)
            signal_all(self._processes, signal.SIGCONT)
            self._ended.wait(_GO_S)

    def end(self) -> None:
        """Ends the slowing; when it returns, no process will be stopped any more."""
        self._ended.set()
        self.join()


class _LocalHook:
    """The hook's files, with executors as victims by their names."""

    def __init__(self, files: HookFiles, processes: JobProcesses) -> None:
        self._files, self._processes = files, processes
        self.order, self.release = files.order, files.release

    def held(self, order: str) -> Held | None:
        found = self._files.held(order)
        if found is None:
            return None
        for member in self._processes.executors():
            if any(p.pid == found.pid for p in tree_of(member.pid)):
                return Held(order, member.name, found.pid, found.step, found.query_id,
                            found.partition)  # fmt: skip
        return None


def _own_kafka(home: Path, servers: str) -> LocalKafka | None:
    """The home's broker, running or not, if the job uses it."""
    kafka = LocalKafka(home)
    last = read_json(kafka.folder / "broker.json")
    return kafka if last is not None and servers == f"{HOST}:{last.get('port')}" else None


def _victim(member: Member) -> Victim:
    return Victim(member.component, member.name, member.identity)


def _pid(victim: Victim) -> int:
    return int(victim.identity.partition("@")[0])


def _signalled(processes: Sequence[psutil.Process], number: signal.Signals) -> str:
    reached = signal_all(processes, number)
    if not reached:
        raise Retriable(f"No process was there to take {number.name}.")
    return f"{number.name} to pid {', '.join(map(str, reached))}"


def _fill_disk(processes: Sequence[psutil.Process]) -> str:
    """Forbids these processes to write any file: every write fails (EFBIG)."""
    for process in processes:
        process.rlimit(psutil.RLIMIT_FSIZE, (0, psutil.RLIM_INFINITY))
    if not processes:
        raise Retriable("The executor has no Python worker yet whose writes could fail.")
    return f"writes to files refused to pid {', '.join(str(p.pid) for p in processes)}"
