"""A query is paused and resumed between any two batches, among all other trouble: exact as ever."""

from __future__ import annotations

import pytest

from tests.simulation.histories.world import History, World, history_of

_SEEDS = 12


class _Steered(World):
    """Its query is told to pause now and then, with input that comes meanwhile."""

    def __init__(self, history: History, patch: pytest.MonkeyPatch) -> None:
        super().__init__(history, patch)
        self.pauses = 0

    def _drive(self) -> None:
        job = self._started()
        job.advance()
        while self._round < self._history.rounds:
            self._round += 1
            self._next_round()
            job.step()
            if self._rng.random() < 0.5:
                self.pauses += 1
                job.pause()
                self._write_input()
                job.resume()
            job.advance()


def test_a_query_that_is_paused_and_resumed_stays_exact() -> None:
    wrong, pauses = {}, 0
    for seed in range(_SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            world = _Steered(history_of(seed), patch)
            outcome = world.run()
        pauses += world.pauses
        if outcome.failure:
            wrong[seed] = outcome.failure
    assert not wrong
    assert pauses > _SEEDS
