"""One simulated history: a job, its input, its faults, and the judgement on what is left.

Everything random comes from the seed; the same history gives the same verdict in every process.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from weakref import WeakSet

import pytest

from holdfast.errors import HoldfastError, Retriable
from holdfast.judge.verdict import JobVerdict, Verdict
from holdfast.runtime.placement import Placement
from holdfast.state.snapshots import archive, savepoints
from holdfast.tasks.plan import Assigned, QueryPlan
from holdfast.tasks.state_task import StateTask
from holdfast.types.ids import Place, orders_topic, query_of
from holdfast.types.steps import AnyStep, Step
from tests.simulation.fakes.clients import clients
from tests.simulation.fakes.clock import VirtualTime
from tests.simulation.fakes.database import Database
from tests.simulation.fakes.disk import Disk
from tests.simulation.fakes.install import install
from tests.simulation.fakes.kafka import FakeKafka, Op, Trouble
from tests.simulation.fakes.log import Fate, Log, Transaction
from tests.simulation.fakes.snapshot_place import SnapshotPlace
from tests.simulation.fakes.spark import DriverDied, FakeSpark
from tests.simulation.histories.drivers import Current, Side, Sides
from tests.simulation.histories.family_settings import (
    with_database,
    with_snapshots,
    with_standbys,
)
from tests.simulation.histories.faults import (
    FAMILIES,
    Family,
    Fault,
    Injector,
    Kind,
    schedule,
    schedule_of,
)
from tests.simulation.histories.job import Job, install_streams, settings_of
from tests.simulation.histories.judge import judged, opened_wrong, store_faults
from tests.simulation.histories.moves import STOPPING, Moves
from tests.simulation.histories.new_job import NewJob
from tests.simulation.jobs import statements

__all__ = [
    "RENUMBERED",
    "REPEATED",
    "History",
    "Mutate",
    "Outcome",
    "Refused",
    "World",
    "history_of",
    "simulate",
    "unchanged",
]

Mutate = Callable[[pytest.MonkeyPatch], None]

_ROUND_MS = 15_000
_JITTER_MS = 12_000  # less than the windows' grace: such records are not late
_LATE_MS = 100_000  # such records may be
_DRIVERS = 100  # more lives than any schedule asks for
_STARTS = 3  # in which a job that several drivers have worked on has to recover by itself
_BATCH_MAX = 12  # offsets of one topic partition
_TURNS = (4, 30)  # of all drivers together, in one round
_FOLLOWS = (0.2, 0.8)  # chance that an executor restores its standbys between two tasks
_RESCALES = 0.15  # chance that a driver rescales before an attempt of a batch
_FOLLOWED = 3  # executors that restore their standbys meanwhile
_KEEPS = 0.3  # chance that the standbys are looked after before an attempt of a batch
_LOOKS, _LOOK_S = 12, 30.0  # until the standbys have come to rest
# After records were counted from an earlier point again, the sink repeats updates; and of a topic
# made again the offsets of commit markers are others than those of both topics together.
REPEATED = frozenset({"duplicated_updates", "sink_history_legal"})
_LOST = frozenset({"ChangelogLost", "OffsetOverlap"})  # without its tail either may be said
# Records that cannot be decoded are left out, and not set aside.
_NOT_SIMULATED = frozenset({"dead_letters_agree"})
_NONE = frozenset[str]()
RENUMBERED = frozenset({"markers_agree", "group_agrees"})


@dataclass(frozen=True)
class History:
    """All that is fixed about a run; `seed` decides the rest."""

    seed: int
    statement: str
    partitions: int
    executors: int
    rounds: int
    faults: tuple[Fault, ...]
    family: str = ""
    drivers: int = 1

    def has(self, *kinds: Kind) -> bool:
        """Whether one of these faults is in it."""
        return any(fault.kind in kinds for fault in self.faults)


@dataclass
class Outcome:
    """How a run ended.

    Attributes:
        failure: empty when the verdict is valid and nothing else was wrong.
        verdict: None when the engine gave up.
    """

    failure: str
    verdict: JobVerdict | None
    visits: Counter[str] = field(default_factory=Counter)
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    turns: Counter[str] = field(default_factory=Counter)


def history_of(seed: int, family: str = "") -> History:
    """The history a seed stands for, in general or in a family."""
    return _of_family(seed, family) if family else _general(seed)


def _of_family(seed: int, name: str) -> History:
    rng, family = random.Random(f"{name} {seed}"), FAMILIES[name]
    names = [*statements.STATEMENTS, statements.PAIRS]
    statement = rng.choices(names, weights=family.weights)[0]
    partitions, executors = rng.randint(2, 4), rng.randint(*family.executors)
    rounds = rng.randint(*family.rounds)
    faults = schedule_of(family, rng, rounds, partitions)
    drivers = rng.choice(family.drivers)
    return History(seed, statement, partitions, executors, rounds, faults, name, drivers)


def _general(seed: int) -> History:
    rng = random.Random(seed)
    names = list(statements.STATEMENTS)
    statement = rng.choices(names, weights=(3, 2, 3, 1, 2, 2, 2, 1))[0]
    partitions, executors, rounds = rng.randint(2, 4), rng.randint(1, 3), rng.randint(5, 14)
    faults = schedule(rng, rounds, partitions)
    return History(seed, statement, partitions, executors, rounds, faults)


def unchanged(patch: pytest.MonkeyPatch) -> None:
    """The engine as it is."""


def simulate(history: History, mutate: Mutate = unchanged) -> Outcome:
    """Runs a history and judges what it leaves; `mutate` may break the engine before."""
    with pytest.MonkeyPatch.context() as patch:
        world = World(history, patch)
        mutate(patch)
        return world.run()


class World:
    """Owns one history while it runs: the fakes, the job, its input."""

    def __init__(self, history: History, patch: pytest.MonkeyPatch) -> None:
        self._history = history
        self._rng = rng = random.Random(f"world {history.seed}")
        self._clock = VirtualTime()
        self._injector = Injector(history.faults)
        self._kafka = FakeKafka(self._clock, random.Random(f"kafka {history.seed}"), self._trouble)
        self._disk = Disk(random.Random(f"disk {history.seed}"))
        self._spark = self._new_spark()
        self._current = Current(self._spark)
        self._injector.strike = self._strike
        self._database = Database(self._before_database, self._after_database)
        install(
            patch, self._clock, self._kafka, self._disk, self._current, self._observe,
            self._database,
        )  # fmt: skip
        install_streams(patch, self._cut)
        self._topology = statements.topology(history.statement)
        self._query = self._topology.queries[-1]
        self._stateful = self._query.stateful
        self._settings = settings_of(rng, history.partitions, history.executors)
        self._standbys = self._family.standbys
        if self._standbys:
            self._settings = with_standbys(self._settings, rng)
        if self._family.remote:
            self._settings = with_database(self._settings)
        self._place: SnapshotPlace | None = None
        if self._family.snapshots or self._family.savepoints:
            self._place = SnapshotPlace(self._clock, random.Random(f"place {history.seed}"))
            self._settings = with_snapshots(self._settings, self._place, rng)
            self._disk.scratch = self._place.root
            for module in (archive, savepoints):
                patch.setattr(module, "opened", self._place.opened)
        self._new_job: NewJob | None = None
        if self._family.savepoints:
            self._new_job = NewJob(self._settings, rng.randint(1, history.rounds - 1))
            self._settings = self._new_job.former(rng.randint(1, 6))
        self._admin = clients(self._kafka).admin({})
        self._wrong: list[str] = []
        self._round = 0
        self._pace_s = rng.choice((5.0, 60.0))  # at most between two rounds
        self._records = 0
        self._moves = Moves(self._kafka, self._disk, self._clock, self._query, rng)
        self._moves.snapshots, self._moves.database = self._place, self._database
        self._sides = Sides(self._kafka, random.Random(f"sides {history.seed}"), self._current)
        self._sides.all = [Side(self._spark, self._started)]
        for n in range(1, history.drivers):
            self._sides.all.append(Side(self._new_spark(100 * n), self._started))
        self._stopped = False
        self._seen: WeakSet[StateTask] = WeakSet()  # opened and looked at
        self._looking = False  # at a store: requests to the database are not the engine's
        self._refusals: Counter[str] = Counter()  # that were due, less those that came

    def _new_spark(self, first_volume: int = 0) -> FakeSpark:
        rng = random.Random(f"spark {self._history.seed} {first_volume}")
        made = FakeSpark(
            self._history.executors, self._clock, rng, self._kafka, self._disk, self._injector,
            first_volume,
        )  # fmt: skip
        threads = self._family.standbys or self._family.snapshots or self._family.savepoints
        made.follows = rng.choice(_FOLLOWS) if threads else 0.0
        return made

    @property
    def _family(self) -> Family:
        return FAMILIES.get(self._history.family, Family())

    # -- the run -----------------------------------------------------------------------------

    def run(self) -> Outcome:
        for source in self._topology.queries[0].sources:
            self._kafka.make_topic(source.topic, source.partitions or 2, {})
        try:
            self._live()
            self._heal()
            self._check_layouts()
            verdict = self._judged()
            failure = _told(verdict, self._excused())
        except Refused:
            return Outcome("; ".join(self._wrong[:3]), None, *self._counts())
        except HoldfastError as error:
            verdict, failure = None, f"the engine gave up: {type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed must be told
            verdict, failure = None, f"the engine broke: {type(error).__name__}: {error}"
        finally:
            self._sides.close()
            if self._place is not None:
                self._place.close()
        due = [f"{name} was not raised" for name, n in self._refusals.items() if n > 0]
        failure = "; ".join(filter(None, [failure, *due, *self._wrong[:3], self._wrong_stores()]))
        return Outcome(failure, verdict, *self._counts())

    def _counts(self) -> tuple[Counter[str], Counter[tuple[str, str]], Counter[str]]:
        return self._injector.visits, self._injector.hits, self._sides.turns

    def _judged(self) -> JobVerdict:
        self._moves.as_one()
        return judged(self._topology, self._spark.alive)

    def _excused(self) -> frozenset[str]:
        """Checkers that are not meaningful after the faults of the job."""
        hits = self._injector.hits
        lost = hits["round", Kind.EMPTY_CHANGELOG] + hits["round", Kind.CUT_CHANGELOG]
        renumbered = hits["round", Kind.RECREATE]
        return (
            _NOT_SIMULATED | (REPEATED if lost else _NONE) | (RENUMBERED if renumbered else _NONE)
        )

    def _live(self) -> None:
        self._injector.armed = True
        if self._history.drivers > 1:
            self._live_of_many()
            return
        for _ in range(_DRIVERS):
            self._spark.start_driver()
            try:
                self._drive()
            except DriverDied:
                self._clock.sleep(self._rng.choice((1.0, 10.0, 100.0)))
            except HoldfastError as error:
                self._answer(error)
                self._spark.kill_all()
            else:
                return
        raise AssertionError(f"{_DRIVERS} drivers were not enough")

    def _live_of_many(self) -> None:
        """Drivers that know nothing of each other; the first one is left."""
        sides = self._sides
        self._kafka.before = sides.switch
        while self._round < self._history.rounds:
            self._round += 1
            self._next_round()
            for _ in range(self._rng.randint(*_TURNS)):
                awake = [side for side in sides.all if not side.stalled]
                if awake:
                    sides.resume(self._rng.choice(awake))
            for side in sides.all:
                side.stalled = max(side.stalled - 1, 0)
        sides.stop()
        self._current.spark = self._spark
        self._spark.start_driver()

    def _answer(self, error: HoldfastError) -> None:
        """The operator does what the refusal says, if there was reason for it.

        Raises:
            HoldfastError: there was none.
            Refused: nothing can be done.
        """
        name, settings = type(error).__name__, self._settings
        due, self._refusals[name] = self._refusals[name] > 0, 0
        cut = self._injector.hits["round", Kind.CUT_CHANGELOG] > 0
        if due and name == "DataLoss":
            ingest = replace(settings.ingest, fail_on_data_loss=False)
            self._settings = replace(settings, ingest=ingest)
        elif due and self._stateful and settings.state.on_changelog_loss == "fail":
            state = replace(settings.state, on_changelog_loss="rebuild")
            self._settings = replace(settings, state=state)
        elif due or (cut and name in _LOST) or (self._moves.headless and name == "ChangelogLost"):
            raise Refused from error
        else:
            raise error

    def _drive(self) -> None:
        job = self._last_job = self._started()
        job.advance()
        while self._round < self._history.rounds:
            if self._new_job is not None and self._new_job.is_due(self._round):
                self._settings = self._new_job.goes_on_from(job, self._topology)
                self._spark.kill_all()
                raise DriverDied
            self._round += 1
            self._next_round()
            job.advance()

    def _started(self) -> Job:
        for _ in range(_DRIVERS):
            try:
                job = Job(self._settings, self._query, self._admin, self._clock)
            except Retriable:  # a driver that cannot make its topics is started again
                self._clock.sleep(5.0)
            else:
                if self._standbys:
                    self._look_after_standbys(job)
                if self._family.rescales:
                    self._rescale_at_times(job)
                return job
        raise AssertionError("the driver does not start")

    def _rescale_at_times(self, job: Job) -> None:
        """Between two batches another number of state partitions may be ordered."""
        step, turns, spark = job.step, self._sides.turns, self._current.spark

        def meanwhile() -> None:
            job.keep_standbys()
            for _ in range(_FOLLOWED):
                spark.follow()

        def stepped() -> bool:
            if self._injector.armed and self._rng.random() < _RESCALES:
                failed = job.rescale(self._rng.randint(1, 6), meanwhile)
                turns[f"not rescaled: {failed}" if failed else "rescales"] += 1
            return step()

        job.step = stepped  # type: ignore[method-assign]

    def _look_after_standbys(self, job: Job) -> None:
        """Before some attempts of a batch the driver's other thread has been at work."""
        place, cluster = job.cluster.placement, job.cluster

        def placement(plan: QueryPlan) -> dict[int, tuple[Assigned, str]]:
            last = cluster._placements.get(plan.query.id, Placement())
            if self._rng.random() < _KEEPS:
                job.keep_standbys()
            found = place(plan)
            for partition, (assigned, _) in found.items():
                if assigned.volume in last.standbys.get(partition, ()):
                    self._sides.turns["takeovers"] += 1
            return found

        cluster.placement = placement  # type: ignore[method-assign]

    def _check_layouts(self) -> None:
        """The generation that is recorded never goes back: whoever only reads goes by it."""
        topic = self._kafka.topics.get(orders_topic(self._settings.application_id))
        log = topic.logs[0] if topic is not None else Log()
        told = [
            json.loads(entry.value)["generation"]
            for entry in log.visible(log.start, log.stable_end, 1 << 30)
            if entry.key == b"layout:" + self._query.id.encode() and entry.value is not None
        ]
        if told != sorted(told):
            self._wrong.append(f"the control topic names the generations {told}, in this order")

    def _next_round(self) -> None:
        self._check_layouts()
        if self._history.has(Kind.OLD_STORE):
            self._moves.copies.append(self._disk.copy())
        while (fault := self._injector.round(self._round)) is not None:
            self._befall(fault)
        self._clock.sleep(self._rng.uniform(0, self._pace_s))
        for name in list(self._kafka.topics):
            config = self._kafka.topics[name].config
            if config.get("cleanup.policy") == "compact" and self._rng.random() < 0.5:
                self._compact(name)
        self._write_input()
        if self._stopped:
            self._stopped = False
            raise DriverDied

    def _befall(self, fault: Fault) -> None:
        if fault.kind is Kind.ABSENCE:
            alive = [(s.spark, e) for s in self._sides.all for e in s.spark.alive]
            if alive:
                spark, executor = self._rng.choice(alive)
                spark.kill(executor, away_s=fault.seconds)
            return
        if fault.kind in STOPPING or self._rng.random() < 0.3:
            self._stop()
        if not self._moves.make(fault):
            self._injector.missed(fault)
        elif fault.kind is Kind.RECREATE and self._settings.ingest.fail_on_data_loss:
            self._refusals["DataLoss"] += 1
        elif fault.kind is Kind.EMPTY_CHANGELOG:
            fails = self._settings.state.on_changelog_loss == "fail"
            self._refusals["ChangelogLost"] += 1 if fails else 0

    def _stop(self) -> None:
        """No process of the job is alive from here on, until it is started again."""
        if self._history.drivers > 1:
            self._sides.stop()
            return
        self._spark.end_zombies()
        self._spark.kill_all()
        self._stopped = True

    def _compact(self, name: str) -> None:
        # The sink's history is the judge's evidence: cleaned, it could not see updates repeat.
        # And what the cleaner has thrown away for a newer row is lost with that row.
        if name != self._query.sink.topic and not self._history.has(Kind.CUT_CHANGELOG):
            self._kafka.compact(name)

    def _heal(self) -> None:
        """No fault from here on: zombies end, the broker is back, the job catches up."""
        self._injector.armed = False
        self._spark.end_zombies()
        self._kafka.settle()
        self._recover()
        if self._standbys:
            self._rest()
        elif self._family.remote:  # who warmed a store that has an owner now hears of it
            self._last_job.keep_standbys()
        self._kafka.settle()

    def _rest(self) -> None:
        """Waits until every state partition is where it shall stay, and all standbys are level."""
        for _ in range(_LOOKS):
            self._clock.sleep(_LOOK_S)
            self._last_job.keep_standbys()
            self._spark.follow_all()
            if self._last_job.cluster.at_rest():
                break
            self._last_job.resume()  # whatever has moved is opened
            self._last_job.advance()
        else:
            self._wrong.append(f"{_LOOKS} looks, and the standbys have not come to rest")
        self._last_job.resume()
        self._last_job.advance()
        self._spark.follow_all()

    def _recover(self) -> None:
        for left in reversed(range(_STARTS)):
            try:
                self._drive()
            except HoldfastError as error:
                if self._history.drivers > 1 and not left:
                    raise
                if self._history.drivers == 1:
                    self._answer(error)
                self._spark.kill_all()
                self._spark.start_driver()
            else:
                return

    def _observe(self, step: AnyStep, query_id: str, partition: int) -> None:
        for (application, name, p), task in self._opened_at(step):
            here = application, query_of(name), p
            if here == (self._settings.application_id, query_id, partition):
                query = next(q for q in self._topology.queries if q.id == query_id)
                self._looking = True
                try:
                    wrong = opened_wrong(self._kafka, query, task, partition)
                finally:
                    self._looking = False
                self._wrong += [f"after step 0: {wrong}"] if wrong else []
        self._injector.step(step, query_id, partition)
        self._sides.reached(step, partition)

    def _before_database(self) -> None:
        """Another driver may go on at a request to the database, as at one to the broker."""
        if not self._looking:
            self._sides.switch()

    def _after_database(self) -> None:
        if not self._looking:
            self._injector.database()

    def _opened_at(self, step: AnyStep) -> list[tuple[tuple[str, str, int], StateTask]]:
        """The open tasks of the executor that runs, right after one of them was opened."""
        if step is not Step.OPENED:
            return []
        tasks = self._current.spark.running.state_tasks.items()
        new = [(k, task) for k, task in tasks if task._store is not None and task not in self._seen]
        self._seen.update(task for _, task in new)
        return new

    def _strike(self, fault: Fault) -> None:
        if self._current.spark.in_driver:  # it reaches the steps of a rescale itself
            self._current.spark.kill_all()
            raise DriverDied
        self._current.spark.strike(fault)

    def _cut(
        self, begin: Mapping[Place, int], bounds: Mapping[Place, tuple[int, int]]
    ) -> dict[Place, int]:
        if self._history.family == "changelogs":  # what is computed again is not late
            return {p: high for p, (_, high) in bounds.items()}
        return {p: self._upto(begin.get(p, low), high) for p, (low, high) in bounds.items()}

    def _upto(self, start: int, high: int) -> int:
        # Often all there is, so that whole rounds are batches, too; where drivers are many, some
        # topic partitions have nothing in a batch.
        least = 0 if self._history.drivers > 1 and self._injector.armed else 1
        wanted = start + self._rng.randint(least, _BATCH_MAX)
        return high if self._rng.random() < 0.5 else max(start, min(high, wanted))

    def _trouble(self, op: Op) -> Trouble | None:
        fault = self._injector.request(op)
        if fault is None:
            return None
        if fault.trouble is Trouble.OUTAGE:
            self._kafka.away_until_s = self._clock.monotonic() + fault.seconds
        return fault.trouble

    def _wrong_stores(self) -> str:
        if not self._stateful:
            return ""
        return store_faults(self._kafka, self._query, self._spark.alive, self._history.partitions)

    # -- input -------------------------------------------------------------------------------

    def _write_input(self) -> None:
        rng, source = self._rng, self._query.source.topic
        topics = [source.topic for source in self._query.sources]
        for n in range(rng.randint(1, 14)):
            topic = topics[n % len(topics)]
            log = self._kafka.log(topic, rng.randrange(len(self._kafka.topics[topic].logs)))
            aborted, now_s = rng.random() < 0.05, self._clock.monotonic()
            transaction = Transaction("workload", 0, now_s, 60.0) if aborted else None
            key = None if rng.random() < 0.03 else b"k%d" % min(rng.randrange(8), rng.randrange(8))
            log.append(key, self._value(), self._clock.now_ms(), transaction)
            if transaction is not None:
                transaction.fate = Fate.ABORTED
                log.conclude(transaction, self._clock.now_ms())
        if self._round == self._history.rounds:  # whatever HAVING says, one row is there
            last = json.dumps({"v": 10_000, "ts": 1_000_000 + self._round * _ROUND_MS})
            self._kafka.log(source, 0).append(b"k0", last.encode(), self._clock.now_ms())

    def _value(self) -> bytes | None:
        draw = self._rng.random()
        if draw < 0.03:
            return None
        if draw < 0.06:
            return b"no json"
        self._records += 1
        value = None if draw < 0.1 else self._rng.randint(-9, 9)
        late = self._history.statement == "late" and draw > 0.9
        age_ms = self._rng.randint(0, _LATE_MS if late else _JITTER_MS)
        time_ms = 1_000_000 + self._round * _ROUND_MS - age_ms
        return json.dumps({"v": value, "ts": time_ms}).encode()


class Refused(Exception):
    """The engine has rightly refused to go on, and nothing but a backup would help."""


def _told(verdict: JobVerdict, excused: frozenset[str]) -> str:
    findings = [
        f"{f.checker}: {f.verdict}: {f.fact} {list(f.examples)}"
        for table in verdict.tables for f in table.findings
        if f.verdict is not Verdict.VALID and f.checker not in excused
    ]  # fmt: skip
    return "; ".join(findings)
