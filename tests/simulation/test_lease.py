"""Exactly once never rests on the lease: several drivers at once, each sure to be the only one."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.runtime import lease
from holdfast.transport.cluster import membership
from tests.simulation.histories.world import history_of, simulate

_SEEDS = 8
_FAMILIES = ("drivers", "rescales")


def _nobody_asks(patch: pytest.MonkeyPatch) -> None:
    """A lease that tells each driver that it is alone, and never tells one that it was taken."""

    def asked(*_args: object, **_named: object) -> None:
        raise AssertionError("a batch has asked for the lease")

    for name in ("look", "take", "check", "give_back", "lost"):
        patch.setattr(lease.Lease, name, asked)
    for owner, name in ((lease, "has_member"), (lease, "Membership"), (membership, "Consumer")):
        patch.setattr(owner, name, asked)


@pytest.mark.parametrize("family", _FAMILIES)
def test_several_drivers_without_a_lease_are_exact(family: str) -> None:
    turns, wrong = Counter[str](), {}
    for seed in range(_SEEDS):
        outcome = simulate(history_of(seed, family), _nobody_asks)
        turns.update(outcome.turns)
        if outcome.failure:
            wrong[seed] = outcome.failure
    assert not wrong, wrong
    assert min(turns["switches"], turns["stalls"]) > 0, turns
