"""The steps of a run.  Each may be a process of its own: they share only `run.json` and the history
in the run's folder.

    baseline   load for some seconds; how often does the undisturbed job commit?
    workload   load until the nemesis has finished     } side by side
               (and reads, where there are servers)    }
    nemesis    the schedule                            }
    heal       all faults are healed and the job is ready
    quiesce    no input is left, no transaction is open

The commands hold the step before them (precheck), the judge the steps after them (verify,
report).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median

from holdfast.chaos.faults.nemesis import Nemesis
from holdfast.chaos.faults.target import Target
from holdfast.chaos.history.events import Event, HistoryWriter, Kind, read_history
from holdfast.chaos.history.run_file import RunFile
from holdfast.chaos.history.sampler import Sampler
from holdfast.chaos.load.load_gate import LoadGate
from holdfast.chaos.load.workload import Load, Workload, input_sources, sent_before
from holdfast.chaos.reads.sessions import Access, reading
from holdfast.chaos.run.rights import refuse_unallowed
from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, told_parts
from holdfast.judge.read.observe import Observer
from holdfast.transport.registry import registry_of
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.topology import Topology

__all__ = ["Baseline", "Run"]

_BASELINE_S, _BASELINE_LIMIT_S = 6.0, 180.0
_COMMITS_MIN = 4
_READY_S = 300.0
_CATCH_UP_S = 300.0
_LIMIT_S = 7 * 3600.0  # for a workload whose nemesis never reports its end
_POLL_S = 0.2
_DONE = "nemesis.done"


@dataclass(frozen=True)
class Baseline:
    """The undisturbed job: seconds between two commits, over all its queries."""

    commits: int
    interval_s: float


@dataclass(frozen=True)
class Run:
    """One run, its job, and the place where the job runs.

    Attributes:
        folder: see `run_folder`.
        find_target: finds the target where the job runs; only the steps that need it call it,
            so the others may run without access to it.
        tell: receives a line for people now and then.
        access: the credentials for the query servers to read from.
    """

    folder: Path
    asked: RunFile
    topology: Topology
    settings: Settings
    find_target: Callable[[], Target]
    tell: Callable[[str], None]
    access: Access = field(default_factory=Access)

    @cached_property
    def target(self) -> Target:
        return self.find_target()

    def baseline(self) -> Baseline:
        """Loads the job for some seconds and checks that it commits.

        Raises:
            Refused: the run's principal lacks ACLs.
            HoldfastError: it does not commit.
        """
        refuse_unallowed(self.settings, self.topology, self.asked.schedule)
        with (
            self._phase("baseline"),
            self._sampler("observer") as sampler,
            HistoryWriter(self.folder, "baseline") as history,
        ):
            # Numbered separately: the run's own numbers are checked one by one.
            load = self._load(f"{self.folder.name}-baseline")
            sources, client = input_sources(self.topology), self.settings.client()
            began = time.monotonic()

            def enough() -> bool:
                seconds = time.monotonic() - began
                return seconds >= _BASELINE_S and len(_commits(sampler)) > _COMMITS_MIN

            workload = Workload(load, sources, client, history, schemas=self._schemas())
            workload.run(enough, _BASELINE_LIMIT_S)
            found = _intervals(_commits(sampler))
            if found is None:
                raise HoldfastError(
                    f"{self.asked.name} has committed nothing in {_BASELINE_LIMIT_S:.0f} s "
                    "under load, before anything was broken.",
                    action="look at its status and at the driver's log first",
                )
            history.state("baseline", commits=found.commits, interval_s=found.interval_s)
            return found

    def workload(self) -> int:
        """Produces records, and reads from query servers, until the nemesis has finished.

        Returns how many records were produced.
        """
        before, asked = sent_before(self._events("workload")), self.asked
        with (
            self._phase("workload"),
            HistoryWriter(self.folder, "workload") as history,
            reading(self.folder, self.topology, asked.servers, asked.seed, self.access),
        ):
            sources, client = input_sources(self.topology), self.settings.client()
            load = Workload(
                self._load(self.folder.name), sources, client, history, before,
                LoadGate(self.folder), self._schemas(),
            )  # fmt: skip
            return load.run((self.folder / _DONE).exists, _LIMIT_S)

    def nemesis(self) -> int:
        """Carries out the schedule once the load flows.

        Returns how many faults there were.

        Raises:
            HoldfastError: the job did not recover from a fault.
        """
        try:
            with self._phase("nemesis"), self._sampler("observer") as sampler:
                self._await_load(sampler)
                with HistoryWriter(self.folder, "nemesis") as history:
                    nemesis = Nemesis(self.target, history, sampler, self.tell)
                    good = nemesis.run(self.asked.schedule, self.asked.duration_s)
                if not good:
                    self._refuse_ended()
                    raise HoldfastError(
                        f"{self.asked.name} did not go on after a fault.",
                        action="see the run's report and the job's log",
                    )
                return nemesis.tried
        finally:
            (self.folder / _DONE).touch()

    def heal(self) -> list[str]:
        """Heals all remaining faults and waits until the job is ready.

        Raises:
            HoldfastError: it is not ready in time, or has ended for good.
        """
        with self._phase("heal"):
            done = self.target.heal_all()
            deadline = time.monotonic() + _READY_S
            while not self.target.recovered(()):
                self._refuse_ended()
                if time.monotonic() >= deadline:
                    raise HoldfastError(
                        f"{self.asked.name} is not ready {_READY_S:.0f} s after the last fault.",
                        action="see its status and the driver's log",
                    )
                time.sleep(_POLL_S)
            return done

    def quiesce(self) -> None:
        """Waits until the input is read and no transaction is open.

        Raises:
            HoldfastError: input was left or a transaction stayed open.
        """
        with self._phase("quiesce"):
            observer = Observer(self.settings.client(), self.settings.application_id)
            deadline = time.monotonic() + _CATCH_UP_S
            for query in self.topology.queries:
                self.tell(f"waiting for {query.sink.name}")
                lag = observer.await_caught_up(query, deadline)
                if not lag.caught_up:
                    raise HoldfastError(
                        f"{query.sink.name} has committed {lag.committed} of {lag.end} input "
                        f"offsets {_CATCH_UP_S:.0f} s after the last fault.",
                        cause="the job does not run, or somebody else writes to its input",
                        action="see its status and the driver's log",
                    )
                markers = observer.marker_topic(query)
                for topic in filter(observer.exists, (query.sink.topic, markers)):
                    _refuse_open(observer, topic, self._quiet_s())

    # -- shared by the steps -----------------------------------------------------------------

    def _refuse_ended(self) -> None:
        """Raises if the job will not start again by itself: waiting would be in vain."""
        reason = self.target.refusal()
        if reason:
            fact, cause, action = told_parts(reason)
            told = f"{self.asked.name} has refused to go on: {fact}"
            raise HoldfastError(told, cause=cause, action=action)

    def _quiet_s(self) -> float:
        return self.settings.transaction_timeout_ms / 1000 + 30

    def _schemas(self) -> Schemas | None:
        return registry_of(self.settings.registry.client())

    def _load(self, name: str) -> Load:
        return Load(name, self.asked.seed, self.asked.rate, self.asked.load)

    def _events(self, source: str) -> list[Event]:
        return [e for e in read_history(self.folder) if e.source == source]

    @contextmanager
    def _sampler(self, source: str) -> Iterator[Sampler]:
        with (
            HistoryWriter(self.folder, source) as history,
            Sampler(
                self.topology,
                self.settings.application_id,
                self.settings.client(),
                history,
                self.target.job_status,
            ) as sampler,
        ):
            yield sampler

    def _await_load(self, sampler: Sampler) -> None:
        """Waits until the workload sends: commits alone may be left over from the baseline."""
        began, deadline = time.time(), time.monotonic() + _BASELINE_LIMIT_S
        while not (self._loaded() and sampler.advanced(began)):
            if time.monotonic() >= deadline:
                what = "committed" if self._loaded() else "sent by a workload of this run"
                raise HoldfastError(
                    f"Nothing was {what} in {_BASELINE_LIMIT_S:.0f} s; nothing was broken.",
                    cause="the workload does not run beside the nemesis",
                    action="start `holdfast chaos workload` of the same run beside it; in Airflow, "
                    "see that both tasks can run at a time (with `dags test` they cannot)",
                )
            time.sleep(_POLL_S)

    def _loaded(self) -> bool:
        return any(e.what == "produce" and e.data["sent"] for e in self._events("workload"))

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Records one step in the history; steps that run side by side have a file each."""
        with HistoryWriter(self.folder, f"phase-{name}") as history:
            op = history.invoke("phase", name=name)
            try:
                yield
            except BaseException as error:
                reason = error.fact if isinstance(error, HoldfastError) else repr(error)
                history.outcome(Kind.FAIL, "phase", op, name=name, reason=reason)
                raise
            history.outcome(Kind.OK, "phase", op, name=name)


def _commits(sampler: Sampler) -> list[float]:
    """Wall seconds at which the stable ends were seen to move."""
    pairs = itertools.pairwise(sampler.samples())
    return [at for (_, before), (at, now) in pairs if now > before]


def _intervals(commits: list[float]) -> Baseline | None:
    gaps = [b - a for a, b in itertools.pairwise(commits)]
    return Baseline(len(commits), round(median(gaps), 3)) if gaps else None


def _refuse_open(observer: Observer, topic: str, wait_s: float) -> None:
    still_open = observer.await_quiet(topic, time.monotonic() + wait_s)
    if still_open:
        one = still_open[0]
        raise HoldfastError(
            f"A transaction of {topic} partition {one.partition} is open after {wait_s:.0f} s: "
            f"its last stable offset is {one.last_stable_offset}, its end {one.end_offset}.",
            cause="a producer outside the job writes to it, or a transaction hangs",
            action="find it with `kafka-transactions.sh --find-hanging`",
        )
