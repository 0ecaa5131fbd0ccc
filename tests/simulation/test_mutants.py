"""Mutant engines are detected, with a failure that is small and can be replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.judge.verdict import Verdict
from tests.chaos.mutants import SIMULATED, patches
from tests.simulation.broken.finer_mutants import FINER
from tests.simulation.broken.read_mutants import READ
from tests.simulation.histories.shrink import Failure, part_of, shrunk
from tests.simulation.histories.world import Mutate, history_of, simulate
from tests.simulation.jobs.statements import PAIRS

_SEEDS = 120
# It ends with the first history that finds it; the rarest is found by one in 250.
_SEEDS_RARE = 3_000
# Nothing is removed from a join within a history, and its records' times are not judged.
_NOT_OF_JOINS = ("tombstone-ignored", "sink-time-now")


def _broken(name: str) -> Mutate:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        for owner, attribute, value in patches(name):
            patch.setattr(owner, attribute, value)

    return mutate


@pytest.mark.parametrize("name", SIMULATED)
def test_a_broken_engine_is_found(name: str) -> None:
    for seed in range(_SEEDS):
        verdict = simulate(history_of(seed), _broken(name)).verdict
        if verdict is not None and verdict.verdict is Verdict.INVALID:
            return
    pytest.fail(f"{name}: {_SEEDS} histories, and none was judged invalid")


@pytest.mark.parametrize("name", [n for n in SIMULATED if n not in _NOT_OF_JOINS])
def test_a_join_finds_it_too(name: str) -> None:
    histories = (replace(history_of(seed), statement=PAIRS) for seed in range(_SEEDS))
    assert any(simulate(h, _broken(name)).failure for h in histories), "no history finds it"


@pytest.mark.parametrize(
    ("name", "statement"), [(name, s) for name, mutant in READ.items() for s in mutant.statements]
)
def test_so_is_one_that_reads_wrongly(name: str, statement: str) -> None:
    mutant = READ[name]
    seeds = range(_SEEDS) if mutant.seeds is None else mutant.seeds
    histories = (replace(history_of(seed), statement=statement) for seed in seeds)
    verdicts = (simulate(history, mutant.mutate).verdict for history in histories)
    found = (v is not None and v.verdict is Verdict.INVALID for v in verdicts)
    assert any(found) if mutant.seeds is None else all(found), "no history finds it"


@pytest.mark.parametrize("name", FINER)
def test_so_is_one_whose_moment_is_rare(name: str) -> None:
    mutant = FINER[name]
    seeds = (mutant.first, *range(_SEEDS_RARE))
    histories = (history_of(seed, mutant.family) for seed in seeds)
    worth = (h for h in histories if mutant.worth(h))
    assert any(simulate(h, mutant.mutate).failure for h in worth), "no history finds it"


def test_a_failing_history_is_shrunk_and_can_be_replayed() -> None:
    mutate = _broken("skip-rule-off-by-one")
    found = next(f for f in (shrunk(s, mutate) for s in range(_SEEDS)) if f and _smaller(f))
    seed, fault = found.history.seed, found.faults[0]
    assert len(found.faults) == 1
    again = part_of(seed, found.faults, found.history.rounds)
    assert again == found.history
    assert simulate(again, mutate).failure == found.outcome.failure
    assert f"SIMULATION_SEED={seed} SIMULATION_FAULTS={fault} " in str(found)
    assert simulate(again).failure == ""


def _smaller(found: Failure) -> bool:
    whole = history_of(found.history.seed)
    return len(found.faults) < len(whole.faults) and found.history.rounds < whole.rounds
