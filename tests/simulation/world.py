"""One simulated history: a job, its input, its faults, and the judgement on what is left.

Everything random comes from the seed; the same history gives the same verdict in every process.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from holdfast.chaos.verdict import JobVerdict, Verdict
from holdfast.errors import HoldfastError, KafkaUnavailable
from holdfast.types.steps import Step
from tests.simulation import statements
from tests.simulation.clock import VirtualTime
from tests.simulation.fake_clients import clients
from tests.simulation.fake_disk import Disk
from tests.simulation.fake_kafka import FakeKafka, Op, Trouble
from tests.simulation.fake_log import Fate, Transaction
from tests.simulation.fake_spark import DriverDied, FakeSpark
from tests.simulation.faults import Fault, Injector, schedule
from tests.simulation.install import install
from tests.simulation.job import Job, install_frames, settings_of
from tests.simulation.judge import judged, opened_wrong, store_faults
from tests.simulation.pairs import PAIRS, pairs_topology

__all__ = ["History", "Mutate", "Outcome", "World", "history_of", "simulate", "unchanged"]

Mutate = Callable[[pytest.MonkeyPatch], None]

_ROUND_MS = 15_000
_JITTER_MS = 12_000  # less than the windows' grace: such records are not late
_LATE_MS = 100_000  # such records may be
_DRIVERS = 100  # more lives than any schedule asks for


@dataclass(frozen=True)
class History:
    """What a run does, all of it; `seed` decides the rest."""

    seed: int
    statement: str
    partitions: int
    executors: int
    rounds: int
    faults: tuple[Fault, ...]


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


def history_of(seed: int) -> History:
    """The history a seed stands for."""
    rng = random.Random(seed)
    names = list(statements.STATEMENTS)
    statement = rng.choices(names, weights=(3, 2, 3, 1, 2))[0]
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
        install(patch, self._clock, self._kafka, self._disk, self._spark, self._observe)
        install_frames(patch, self._kafka)
        pairs = history.statement == PAIRS
        self._topology = pairs_topology() if pairs else statements.topology(history.statement)
        self._query = self._topology.queries[0]
        self._stateful = self._query.stateful
        self._settings = settings_of(rng, history.partitions, history.executors)
        self._admin = clients(self._kafka).admin({})
        self._wrong: list[str] = []
        self._round = 0
        self._pace_s = rng.choice((5.0, 60.0))  # at most between two rounds
        self._records = 0

    def _new_spark(self, first_volume: int = 0) -> FakeSpark:
        rng = random.Random(f"spark {self._history.seed} {first_volume}")
        return FakeSpark(
            self._history.executors, self._clock, rng, self._kafka, self._disk, self._injector,
            first_volume,
        )  # fmt: skip

    # -- the run -----------------------------------------------------------------------------

    def run(self) -> Outcome:
        for source in self._query.sources:
            self._kafka.make_topic(source.topic, 2, {})
        try:
            self._live()
            self._heal()
            verdict = self._judged()
            failure = "" if verdict.verdict is Verdict.VALID else _told(verdict)
        except HoldfastError as error:
            verdict, failure = None, f"the engine gave up: {type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed must be told
            verdict, failure = None, f"the engine broke: {type(error).__name__}: {error}"
        failure = "; ".join(filter(None, [failure, *self._wrong[:3], self._wrong_stores()]))
        return Outcome(failure, verdict, self._injector.visits, self._injector.hits)

    def _judged(self) -> JobVerdict:
        return judged(self._topology, self._spark.alive)

    def _live(self) -> None:
        self._injector.armed = True
        for _ in range(_DRIVERS):
            self._spark.start_driver()
            try:
                self._drive()
            except DriverDied:
                self._clock.sleep(self._rng.choice((1.0, 10.0, 100.0)))
            else:
                return
        raise AssertionError(f"{_DRIVERS} drivers were not enough")

    def _drive(self) -> None:
        job = self._started()
        job.advance()
        while self._round < self._history.rounds:
            self._round += 1
            self._next_round()
            job.advance()

    def _started(self) -> Job:
        for _ in range(_DRIVERS):
            try:
                return Job(
                    self._settings, self._query, self._kafka, self._admin, self._clock, self._rng
                )
            except KafkaUnavailable:  # a driver that cannot make its topics is started again
                self._clock.sleep(5.0)
        raise AssertionError("the driver does not start")

    def _next_round(self) -> None:
        fault = self._injector.round()
        if fault is not None and self._spark.alive:
            self._spark.kill(self._rng.choice(self._spark.alive), away_s=fault.seconds)
        self._clock.sleep(self._rng.uniform(0, self._pace_s))
        for name in list(self._kafka.topics):
            config = self._kafka.topics[name].config
            if config.get("cleanup.policy") == "compact" and self._rng.random() < 0.5:
                self._compact(name)
        self._write_input()

    def _compact(self, name: str) -> None:
        # The sink's history is the judge's evidence: cleaned, it could not see updates repeat.
        if name != self._query.sink.topic:
            self._kafka.compact(name)

    def _heal(self) -> None:
        """No fault from here on: zombies end, the broker is back, the job catches up."""
        self._injector.armed = False
        self._spark.end_zombies()
        self._kafka.settle()
        self._drive()
        self._kafka.settle()

    def _observe(self, step: Step, query_id: str, partition: int) -> None:
        # What a zombie opens may be compacted by then; it cannot commit anything from it.
        if step is Step.OPENED and self._injector.armed and self._stateful:
            task = self._spark.running.state_tasks[
                self._settings.application_id, query_id, partition
            ]
            wrong = opened_wrong(self._kafka, self._query, task, partition)
            self._wrong += [f"after step 0: {wrong}"] if wrong else []
        self._injector.step(step, query_id, partition)

    def _trouble(self, op: Op) -> Trouble | None:
        fault = self._injector.request(op)
        if fault is None:
            return None
        if fault.trouble is Trouble.OUTAGE:
            self._kafka.away_until_s = self._clock.time() + fault.seconds
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
            log = self._kafka.log(topics[n % len(topics)], rng.randrange(2))
            aborted = rng.random() < 0.05
            transaction = Transaction("workload", 0, self._clock.time(), 60.0) if aborted else None
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


def _told(verdict: JobVerdict) -> str:
    findings = [
        f"{f.checker}: {f.verdict}: {f.fact} {list(f.examples)}"
        for table in verdict.tables for f in table.findings if f.verdict is not Verdict.VALID
    ]  # fmt: skip
    return "; ".join(findings)
