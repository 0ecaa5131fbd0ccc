"""Makes a failing history small: the fewest faults, then the fewest rounds, that still fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.simulation.histories.world import (
    History,
    Mutate,
    Outcome,
    history_of,
    simulate,
    unchanged,
)

__all__ = ["Failure", "part_of", "shrunk"]


@dataclass(frozen=True)
class Failure:
    """A history that fails, as part of what its seed stands for.

    Attributes:
        faults: which of the seed's faults are left, by index.
        outcome: of exactly these.
    """

    history: History
    faults: tuple[int, ...]
    outcome: Outcome

    def __str__(self) -> str:
        seed, kept = self.history.seed, ",".join(map(str, self.faults)) or "none"
        faults = "\n".join(f"    {f}" for f in self.history.faults) or "    none"
        return (
            f"{self.outcome.failure}\n"
            f"  statement {self.history.statement}, {self.history.partitions} state partitions, "
            f"{self.history.executors} executors, {self.history.drivers} drivers, "
            f"{self.history.rounds} rounds; faults:\n{faults}\n"
            f"  replay: SIMULATION_SEED={seed} SIMULATION_FAULTS={kept} "
            f"SIMULATION_ROUNDS={self.history.rounds} {self._family}"
            "pytest tests/simulation/test_simulation.py"
        )

    @property
    def _family(self) -> str:
        family = self.history.family
        return f"SIMULATION_FAMILY={family} " if family else ""


def part_of(
    seed: int, faults: Sequence[int] | None, rounds: int | None, family: str = ""
) -> History:
    """A seed's history with only some of its faults and its first rounds; None: all of them."""
    whole = history_of(seed, family)
    kept = range(len(whole.faults)) if faults is None else faults
    chosen = tuple(whole.faults[i] for i in kept)
    return replace(whole, faults=chosen, rounds=whole.rounds if rounds is None else rounds)


def shrunk(seed: int, mutate: Mutate = unchanged, family: str = "") -> Failure | None:
    """The smallest failure found in a seed's history; None when the whole of it does not fail."""
    whole = history_of(seed, family)
    found = _failure(whole, range(len(whole.faults)), whole.rounds, mutate)
    if found is None:
        return None
    found = _with_fewer_faults(found, mutate)
    for rounds in range(1, whole.rounds):
        smaller = _failure(whole, found.faults, rounds, mutate)
        if smaller is not None:
            return smaller
    return found


def _with_fewer_faults(found: Failure, mutate: Mutate) -> Failure:
    """Leaves one fault out after the other, until none can be missed."""
    for fault in found.faults:
        fewer = [f for f in found.faults if f != fault]
        smaller = _failure(found.history, fewer, found.history.rounds, mutate)
        if smaller is not None:
            return _with_fewer_faults(smaller, mutate)
    return found


def _failure(of: History, faults: Sequence[int], rounds: int, mutate: Mutate) -> Failure | None:
    history = part_of(of.seed, faults, rounds, of.family)
    outcome = simulate(history, mutate)
    return Failure(history, tuple(faults), outcome) if outcome.failure else None
