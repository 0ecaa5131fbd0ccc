"""Seeded histories of the whole engine without Spark and broker processes, judged by the oracle.

SIMULATION_SEEDS=5000   as many seeds (default 288), from SIMULATION_FIRST (default 0) on: half of
                        them are histories of families, the other half general ones
SIMULATION_SEED=7       this one only; SIMULATION_FAMILY says of which family, SIMULATION_FAULTS=0,2
                        and SIMULATION_ROUNDS=3 make it the part of it that a failure was shrunk to
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from holdfast.runtime.queries.batches import shuffled as shuffled_batch
from holdfast.types.steps import SavepointStep, SnapshotStep
from tests.simulation.broken.read_mutants import MOVED
from tests.simulation.histories.faults import DATABASE, FAMILIES, GENERAL, Kind
from tests.simulation.histories.shrink import part_of, shrunk
from tests.simulation.histories.summary import Tally, show
from tests.simulation.histories.world import History, history_of, simulate
from tests.simulation.jobs.statements import PAIRS

_SEEDS = 288
_CRASHES_MIN = 4  # after each step, in half as many seeds
_KINDS_MIN = 4
_SHOWN_MAX = 3  # failing seeds; shrinking takes a while


def _number(name: str, default: int) -> int:
    return int(os.environ.get(f"SIMULATION_{name}", default))


def _asked_for(seed: int) -> History:
    kept, rounds = os.environ.get("SIMULATION_FAULTS"), os.environ.get("SIMULATION_ROUNDS")
    faults = None if kept is None else [int(f) for f in kept.split(",") if f != "none"]
    family = os.environ.get("SIMULATION_FAMILY", "")
    return part_of(seed, faults, None if rounds is None else int(rounds), family)


@pytest.mark.timeout(300 + _number("SEEDS", _SEEDS))
def test_every_history_ends_with_a_valid_verdict(request: pytest.FixtureRequest) -> None:
    if "SIMULATION_SEED" in os.environ:
        assert simulate(_asked_for(_number("SEED", 0))).failure == ""
        return
    first, seeds = _number("FIRST", 0), _number("SEEDS", _SEEDS) // 2
    tally, failed, seen = Tally(), [], Counter[str]()
    for seed in range(first, first + seeds):
        outcome = simulate(history_of(seed), partial(_counting, seen))
        tally.add(outcome)
        if outcome.failure:
            failed.append(seed)
    show(request.config, tally)
    told = [f"seed {seed}: {shrunk(seed)}" for seed in failed[:_SHOWN_MAX]]
    assert not failed, f"{len(failed)} seeds fail: {failed}\n" + "\n".join(told)
    if seeds >= _SEEDS // 2:
        assert min(tally.crashes().values()) >= _CRASHES_MIN, tally
        kinds = tally.kinds()
        assert all(kinds[kind] >= _KINDS_MIN for kind in GENERAL), kinds
        assert kinds["Fenced"] >= _KINDS_MIN, tally
        # A retry applies what was read before, and what it lost is read again.
        assert seen["_read_range"] > seen["_cut"] > seeds, seen
        assert seen["on_owners"] > seen["_cut"], seen


@pytest.mark.timeout(300 + _number("SEEDS", _SEEDS))
@pytest.mark.parametrize("name", FAMILIES)
def test_every_history_of_a_family_ends_as_it_has_to(
    request: pytest.FixtureRequest, name: str
) -> None:
    """Several drivers at once, topics that change, markers that are lost, clocks that jump."""
    first, seeds = _number("FIRST", 0), _number("SEEDS", _SEEDS) // 2 // len(FAMILIES)
    tally, failed = Tally(), []
    for seed in range(first, first + seeds):
        outcome = simulate(history_of(seed, name))
        tally.add(outcome)
        if outcome.failure:
            failed.append(seed)
    show(request.config, tally.of_family(name))
    told = [f"seed {s}: {shrunk(s, family=name)}" for s in failed[:1]]
    assert not failed, f"{len(failed)} of {seeds} seeds fail: {failed}\n" + "\n".join(told)
    if seeds >= _SEEDS // 2 // len(FAMILIES):
        kinds = tally.kinds()
        assert tally.steps > 0, "nothing was done"
        assert all(kinds[kind] > 0 for kind in FAMILIES[name].kinds), tally.of_family(name)
        assert not FAMILIES[name].standbys or tally.turns["takeovers"] > seeds, tally.turns
        fetched = tally.reached(SnapshotStep.FETCHED)
        assert not FAMILIES[name].snapshots or fetched > 0, "nothing was restored from one"
        brought = tally.reached(SavepointStep.BROUGHT_IN)
        assert not FAMILIES[name].savepoints or brought >= seeds, "no job began with one"
        assert not FAMILIES[name].remote or tally.at(DATABASE) > seeds // 4, "nobody died there"
        rescaled = tally.turns["rescales"]
        assert not FAMILIES[name].rescales or rescaled > seeds, tally.turns
        loses = {Kind.EMPTY_CHANGELOG, Kind.CUT_CHANGELOG} & {*FAMILIES[name].kinds}
        assert loses or not tally.turns["ChangelogLost"], "a driver took another's work for a loss"
        several = max(FAMILIES[name].drivers) > 1
        assert not several or min(tally.turns["switches"], tally.turns["stalls"]) > 0, tally.turns


def test_every_history_of_a_join_ends_with_a_valid_verdict() -> None:
    """Its batches and its commit markers are of two topics."""
    first, seeds = _number("FIRST", 0), _number("SEEDS", _SEEDS) // 8
    tally, failed = Tally(), {}
    for seed in (*range(first, first + seeds), *MOVED):
        outcome = simulate(replace(history_of(seed), statement=PAIRS))
        tally.add(outcome)
        if outcome.failure:
            failed[seed] = outcome.failure
    assert not failed, failed
    if seeds >= _SEEDS // 8:
        assert min(tally.crashes().values()) >= 1, tally


def _counting(seen: Counter[str], patch: pytest.MonkeyPatch) -> None:
    for name in ("_cut", "_read_range", "on_owners"):
        real = getattr(shuffled_batch, name)
        patch.setattr(shuffled_batch, name, partial(_counted, seen, name, real))


def _counted(
    seen: Counter[str], name: str, real: Callable[..., Any], *args: Any, **named: Any
) -> Any:
    seen[name] += 1
    return real(*args, **named)


def test_the_same_seed_gives_the_same_history() -> None:
    seed = next(s for s in range(100) if len(history_of(s).faults) >= 4)
    one, other = simulate(history_of(seed)), simulate(history_of(seed))
    assert (one.visits, one.hits, one.failure) == (other.visits, other.hits, other.failure)
    assert one.verdict is not None
    assert other.verdict is not None
    assert one.verdict.tables == other.verdict.tables
