"""Judged runs for the report's tests: their folders, as the commands leave them."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from pathlib import Path

import orjson

from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.events import Kind
from holdfast.chaos.report.files import verdict_as_json
from holdfast.chaos.run.checkers import RUN_CHECKERS
from holdfast.chaos.run.judge import recoveries_by_kind
from holdfast.judge.checkers.checking import judge
from holdfast.judge.verdict import (
    Finding,
    JobVerdict,
    ReadStats,
    RunVerdict,
    TableReads,
    TableVerdict,
    Verdict,
)
from tests.unit.chaos.runs import START, MadeRun, evidence

SQL = "CREATE TABLE sold AS\n  SELECT title, COUNT(*) AS n\n  FROM sales GROUP BY title;\n"
_KINDS = (
    ("executor", Fault.KILL, Moment.PRODUCED),
    ("driver", Fault.DELETE_NOW, Moment.RANDOM),
    ("broker", Fault.KILL, Moment.RANDOM),
    ("executor", Fault.PAUSE, Moment.COMMITTED),
)
READS = (
    ReadStats("all", 3_551, 1, 7.5, 158.84),
    ReadStats("server kill", 235, 1, 10.8, 169.1),
)
TABLES_READ = (
    TableReads("PER_CUSTOMER", 3_550),
    TableReads("EXTREMES", 0, "it never had a row"),
)
GOOD = TableVerdict(
    "PER_CUSTOMER",
    (
        Finding("lost_keys", Verdict.VALID, "0 of 2000 expected keys are missing"),
        Finding("diverged_values", Verdict.VALID, "0 of 2000 compared rows differ"),
        Finding("stores_agree", Verdict.VALID, "0 of 4 stores differ from their changelog"),
    ),
    90_000,
    2_000,
)
BAD = TableVerdict(
    "PER_PRODUCT_MINUTE",
    (
        Finding("lost_keys", Verdict.VALID, "0 of 40 expected keys are missing"),
        Finding(
            "diverged_values",
            Verdict.INVALID,
            "2 of 40 compared rows differ",
            ("A <b> | 1790000000000: ORDERS is 41, recomputed 42", "B | 0: ORDERS is 7"),
        ),
        Finding("group_agrees", Verdict.UNKNOWN, "1 topic partitions where it is behind"),
    ),
    90_000,
    40,
)


def write_good(folder: Path, faults: int = 12) -> None:
    """A valid run with faults of all kinds."""
    _write(folder, faults, (GOOD, replace(GOOD, name="EXTREMES")), landed=True)


def write_bad(folder: Path) -> None:
    """A wrong table, and a fault that did not land."""
    _write(folder, 3, (GOOD, BAD), landed=False)


def _write(folder: Path, faults: int, tables: tuple[TableVerdict, ...], *, landed: bool) -> None:
    chance, run, planned, at = random.Random(faults), MadeRun(), [], 12.0
    for number in range(faults):
        component, fault, moment = _KINDS[number % len(_KINDS)]
        injection = Injection(number, component, fault, moment)
        planned.append(injection)
        took = chance.uniform(3, 6) * (3 if fault is Fault.PAUSE else 1)
        if landed or number:
            run.strike(injection, at, at + took)
        else:
            why = {"landed": False, "evidence": "pid 4711 still lives", "kind": Kind.FAIL}
            run.strike(injection, at, at + took, **why)
        at += took + chance.uniform(4, 9)
    run.add("baseline", Kind.STATE, "baseline", 5.0, commits=8, interval_s=0.9)
    run.watch(at + 5)
    run.load(1_000)
    judged = evidence(run, planned)
    asked = {
        "run": folder.name, "name": "shop", "target": "local", "namespace": "", "sql": SQL,
        "overrides": ["state.partitions=4"], "seed": 4711, "rate": 500, "version": "0.5.0",
        "schedule": [asdict(i) for i in planned], "commit": "0123456789abcdef", "created_s": START,
    }  # fmt: skip
    run.write(folder)
    (folder / "run.json").write_bytes(orjson.dumps(asked))
    verdict = RunVerdict(
        folder.name,
        JobVerdict("shop", tables, 4.2),
        judge(judged, RUN_CHECKERS),
        recoveries_by_kind(judged.history),
        READS,
        TABLES_READ,
    )
    (folder / "verdict.json").write_text(verdict_as_json(verdict), encoding="utf-8")
