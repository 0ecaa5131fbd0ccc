"""The simulation's lines in pytest's summary, and their counts."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from holdfast.types.steps import SavepointStep, SnapshotStep, Step
from tests.simulation.histories.world import Outcome

__all__ = ["SUMMARY", "Tally", "show"]

SUMMARY = pytest.StashKey[list[str]]()


def show(config: pytest.Config, line: object) -> None:
    """Prints a line at the end of the run."""
    config.stash.setdefault(SUMMARY, []).append(str(line))


class Tally:
    """The states and faults that many runs have reached."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.seeds = self.refused = 0
        self.turns: Counter[str] = Counter()
        self._visits: Counter[str] = Counter()
        self._hits: Counter[tuple[str, str]] = Counter()

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.refused += outcome.verdict is None and not outcome.failure
        self._visits += outcome.visits
        self._hits += outcome.hits
        self.turns += outcome.turns

    def crashes(self) -> dict[str, int]:
        """Faults right after each step."""
        return {s.name: sum(n for (at, _), n in self._hits.items() if at == s.name) for s in Step}

    def at(self, where: str) -> int:
        """Faults there."""
        return sum(n for (at, _), n in self._hits.items() if at == where)

    def kinds(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (_, what), times in self._hits.items():
            found[what] += times
        return found

    def reached(self, step: SnapshotStep | SavepointStep) -> int:
        """How often it was."""
        return self._visits[step.name]

    @property
    def steps(self) -> int:
        return sum(self._visits[s.name] for s in Step)

    def __str__(self) -> str:
        crashes, kinds = self.crashes(), self.kinds()
        each = ", ".join(f"{name} {times}" for name, times in crashes.items())
        others = sum(n for (at, _), n in self._hits.items() if at not in crashes)
        return (
            f"simulation: {self.seeds} seeds, {self.steps} steps; faults right after a step: "
            f"{sum(crashes.values())} ({each}); elsewhere: {others - kinds['Fenced']}; "
            f"zombies fenced: {kinds['Fenced']}; {time.monotonic() - self._began:.0f} s"
        )

    def of_family(self, name: str) -> str:
        """The line of a family's histories."""
        hits = {what: n for (at, what), n in sorted(self._hits.items()) if at == "round" and n}
        snapshots = {
            s.name: self.reached(s) for s in (*SnapshotStep, *SavepointStep) if self.reached(s)
        }
        told = (*hits.items(), *sorted(self.turns.items()), *snapshots.items())
        moves = ", ".join(f"{what} {n}" for what, n in told)
        return (
            f"simulation of {name}: {self.seeds} seeds, {self.steps} steps; {moves}; "
            f"refused rightly: {self.refused}; {time.monotonic() - self._began:.0f} s"
        )
