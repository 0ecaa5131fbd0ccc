"""Seeded histories of the whole engine without Spark and broker processes, judged by the oracle.

SIMULATION_SEEDS=5000   as many seeds (default 250), from SIMULATION_FIRST (default 0) on
SIMULATION_SEED=7       this one only; SIMULATION_FAULTS=0,2 and SIMULATION_ROUNDS=3 make it
                        the part of it that a failure was shrunk to
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from holdfast.runtime import packed_batch
from holdfast.tasks.steps import Step
from tests.simulation.faults import Kind
from tests.simulation.job import pack
from tests.simulation.pairs import PAIRS
from tests.simulation.shrink import part_of, shrunk
from tests.simulation.summary import SUMMARY
from tests.simulation.world import History, Outcome, history_of, simulate

_SEEDS = 250
_MOVED = (75, 587)  # histories of a join where a record without value or key moves time on
_CRASHES_MIN = 10  # after each step, in so many seeds
_KINDS_MIN = 10
_SHOWN_MAX = 3  # failing seeds; shrinking takes a while


def _number(name: str, default: int) -> int:
    return int(os.environ.get(f"SIMULATION_{name}", default))


def _asked_for(seed: int) -> History:
    kept, rounds = os.environ.get("SIMULATION_FAULTS"), os.environ.get("SIMULATION_ROUNDS")
    faults = None if kept is None else [int(f) for f in kept.split(",") if f != "none"]
    return part_of(seed, faults, None if rounds is None else int(rounds))


class _Tally:
    """What many runs visited and hit."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.seeds = 0
        self._visits: Counter[str] = Counter()
        self._hits: Counter[tuple[str, str]] = Counter()

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self._visits += outcome.visits
        self._hits += outcome.hits

    def crashes(self) -> dict[str, int]:
        """Faults right after each step."""
        return {s.name: sum(n for (at, _), n in self._hits.items() if at == s.name) for s in Step}

    def kinds(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (_, what), times in self._hits.items():
            found[what] += times
        return found

    def __str__(self) -> str:
        steps = sum(self._visits[s.name] for s in Step)
        crashes, kinds = self.crashes(), self.kinds()
        each = ", ".join(f"{name} {times}" for name, times in crashes.items())
        others = sum(n for (at, _), n in self._hits.items() if at not in crashes)
        return (
            f"simulation: {self.seeds} seeds, {steps} steps; faults right after a step: "
            f"{sum(crashes.values())} ({each}); elsewhere: {others - kinds['Fenced']}; "
            f"zombies fenced: {kinds['Fenced']}; {time.monotonic() - self._began:.0f} s"
        )


@pytest.mark.timeout(300 + _number("SEEDS", _SEEDS))
def test_every_history_ends_with_a_valid_verdict(request: pytest.FixtureRequest) -> None:
    if "SIMULATION_SEED" in os.environ:
        assert simulate(_asked_for(_number("SEED", 0))).failure == ""
        return
    first, seeds = _number("FIRST", 0), _number("SEEDS", _SEEDS)
    tally, failed = _Tally(), []
    for seed in range(first, first + seeds):
        outcome = simulate(history_of(seed))
        tally.add(outcome)
        if outcome.failure:
            failed.append(seed)
    request.config.stash[SUMMARY] = str(tally)
    told = [f"seed {seed}: {shrunk(seed)}" for seed in failed[:_SHOWN_MAX]]
    assert not failed, f"{len(failed)} seeds fail: {failed}\n" + "\n".join(told)
    if seeds >= _SEEDS:
        assert min(tally.crashes().values()) >= _CRASHES_MIN, tally
        kinds = tally.kinds()
        assert all(kinds[kind] >= _KINDS_MIN for kind in Kind if kind is not Kind.KAFKA), kinds
        assert kinds["Fenced"] >= _KINDS_MIN, tally


def test_every_history_of_a_join_ends_with_a_valid_verdict() -> None:
    """Its batches and its commit markers are of two topics."""
    first, seeds = _number("FIRST", 0), _number("SEEDS", _SEEDS) // 4
    tally, failed = _Tally(), {}
    for seed in (*range(first, first + seeds), *_MOVED):
        outcome = simulate(replace(history_of(seed), statement=PAIRS))
        tally.add(outcome)
        if outcome.failure:
            failed[seed] = outcome.failure
    assert not failed, failed
    if seeds >= _SEEDS // 4:
        assert min(tally.crashes().values()) >= 2, tally


def test_every_history_of_packed_batches_ends_with_a_valid_verdict() -> None:
    """A task has all state partitions of an executor, and a retry what was read before."""
    first, seeds = _number("FIRST", 0), _number("SEEDS", _SEEDS) // 2
    tally, failed, seen = _Tally(), {}, Counter[str]()

    def packed(patch: pytest.MonkeyPatch) -> None:
        pack(patch)
        for name in ("_cut", "on_owners"):
            real = getattr(packed_batch, name)
            patch.setattr(packed_batch, name, partial(_counted, seen, name, real))

    for seed in range(first, first + seeds):
        outcome = simulate(history_of(seed), packed)
        tally.add(outcome)
        if outcome.failure:
            failed[seed] = outcome.failure
    assert not failed, failed
    if seeds >= _SEEDS // 2:
        assert min(tally.crashes().values()) >= _CRASHES_MIN // 2, tally
        assert seen["on_owners"] > seen["_cut"] > seeds, seen


def _counted(seen: Counter[str], name: str, real: Callable[..., Any], *args: Any) -> Any:
    seen[name] += 1
    return real(*args)


def test_the_same_seed_gives_the_same_history() -> None:
    seed = next(s for s in range(100) if len(history_of(s).faults) >= 4)
    one, other = simulate(history_of(seed)), simulate(history_of(seed))
    assert (one.visits, one.hits, one.failure) == (other.visits, other.hits, other.failure)
    assert one.verdict is not None
    assert other.verdict is not None
    assert one.verdict.tables == other.verdict.tables
