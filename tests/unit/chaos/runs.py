"""A run that never was: its history, written as the nemesis, workload and observer write theirs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.events import Event, Kind
from holdfast.chaos.history.strikes import summarize
from holdfast.chaos.run.checkers import RunEvidence

START = 1_790_000_000.0
RATE = 500
KILL = Injection(0, "executor", Fault.KILL, Moment.PRODUCED, delay_s=5.0)
OVERLAP = Injection(1, "broker", Fault.DELETE_NOW, Moment.RECOVERY, delay_s=2.0)
PAUSE = Injection(2, "driver", Fault.PAUSE, Moment.RANDOM, delay_s=8.0, duration_s=10.0)
SCHEDULE = (KILL, OVERLAP, PAUSE)


@dataclass
class MadeRun:
    """A history under construction; `silences` are (from, to) in seconds without a commit."""

    events: list[Event] = field(default_factory=list)
    silences: list[tuple[float, float]] = field(default_factory=list)
    _op: int = 0

    def add(self, source: str, kind: Kind, what: str, at: float, op: int = -1, **data: Any) -> None:
        self.events.append(Event(source, kind, what, op, START + at, at, data))

    def operation(
        self,
        what: str,
        at: float,
        took: float,
        asked: Mapping[str, Any],
        kind: Kind | None = Kind.OK,
        **told: Any,
    ) -> None:
        """An invocation and, unless `kind` is None, its outcome."""
        source = "nemesis" if what in ("inject", "recover") else f"phase-{asked.get('name')}"
        self._op += 1
        self.add(source, Kind.INVOKE, what, at, self._op, **asked)
        if kind is not None:
            self.add(source, kind, what, at + took, self._op, **told)

    def strike(self, injection: Injection, at: float, back: float | None, **told: Any) -> None:
        """A fault at `at` seconds that is recovered from at `back`; None: never."""
        kind = told.pop("kind", Kind.OK)
        held = told.pop("held", injection.moment.name)
        hold = None if injection.moment.step is None else {"step": held, "partition": 1}
        victims = [
            {
                "component": injection.component,
                "name": f"{injection.component} {i}",
                "identity": "1",
            }
            for i in range(injection.count)
        ]
        asked = {"injection": asdict(injection), "victims": victims, "moment_held": hold}
        facts = {"landed": True, "evidence": "pid 4711 is gone", "did": "SIGKILL to pid 4711"}
        facts |= {"lag_before": 120, "struck_s": START + at} | told
        self.operation("inject", at - 0.1, 0.4, asked, kind, **facts)
        end = {"waited_s": 240.0} if back is None else {"seconds": back - at}
        outcome = Kind.FAIL if back is None else Kind.OK
        took = 240.0 if back is None else back - at - 0.5
        number = {"injection": injection.number}
        self.operation("recover", at + 0.5, took, number, outcome, **end)
        self.silences.append((at, at + 3 if back is None else back))

    def watch(self, seconds: float, *, rate: int = RATE, every: float = 0.3) -> None:
        """Samples of a job that commits about once a second, but not in the silences."""
        chance = random.Random(7)
        committed, stable, at, next_commit = 0, 1_000, 0.0, 0.0
        while at < seconds:
            input_end = int(rate * at)
            down = any(a <= at < b for a, b in self.silences)
            if not down and at >= next_commit:
                committed = min(input_end, committed + rate * 3)
                stable += chance.randrange(200, 400)
                next_commit = at + chance.uniform(0.6, 1.4)
            driver = {"state": "running", "ready": True, "restoring": down}
            self.add("observer", Kind.STATE, "sample", at, input_end=input_end + 10,
                     committed={"T": committed}, lag=input_end - committed,
                     stable={"app-q-changelog": stable}, driver=driver)  # fmt: skip
            at += every

    def load(self, sent: int, **told: int) -> None:
        totals = {"sent": sent, "acked": sent, "failed": 0, "first": 0, "last": sent - 1} | told
        self.add("workload", Kind.STATE, "produced", 70.0, **totals)

    def phase(self, name: str, at: float, kind: Kind | None = Kind.OK, **told: Any) -> None:
        self.operation("phase", at, 1.0, {"name": name}, kind, name=name, **told)

    def ordered(self) -> list[Event]:
        return sorted(self.events, key=lambda e: (e.wall_s, e.source))

    def write(self, folder: Path) -> None:
        """As files of a run's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for event in self.ordered():
            with (folder / f"{event.source}.jsonl").open("ab") as file:
                file.write(orjson.dumps(asdict(event), option=orjson.OPT_APPEND_NEWLINE))


def good_run() -> MadeRun:
    """An executor killed, a broker in its recovery, later a driver that is paused."""
    run = MadeRun()
    run.phase("baseline", 0.0)
    run.add("baseline", Kind.STATE, "baseline", 5.0, commits=8, interval_s=0.9)
    run.strike(KILL, 10.0, 16.0)
    run.strike(OVERLAP, 12.0, 22.0)
    run.strike(PAUSE, 40.0, 55.0)
    run.watch(70.0)
    run.load(1_000)
    run.phase("quiesce", 71.0)
    run.phase("verify", 75.0, None)
    return run


def evidence(
    run: MadeRun, planned: Sequence[Injection] = SCHEDULE, found: Sequence[int] = range(1_000)
) -> RunEvidence:
    return RunEvidence(tuple(planned), summarize(run.ordered()), found)
