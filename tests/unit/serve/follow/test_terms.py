"""Which stores may answer: by lag, by position, and while they are restored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.serve.contract import PartitionState
from holdfast.serve.follow.local import Terms

LEVEL = PartitionState(2, position=100, end=100)
BEHIND = replace(LEVEL, position=60)
RESTORING = replace(BEHIND, restoring=True)


@pytest.mark.parametrize(
    ("terms", "state", "reason"),
    [
        (Terms(), LEVEL, None),
        (Terms(), BEHIND, None),
        (Terms(), RESTORING, "being restored"),
        (Terms(max_lag=40), RESTORING, None),
        (Terms(max_lag=39), RESTORING, "40 offsets behind, 39 are allowed"),
        (Terms(max_lag=0), LEVEL, None),
        (Terms(max_lag=0), BEHIND, "40 offsets behind, 0 are allowed"),
        (Terms(at_least={2: 60}), BEHIND, None),
        (Terms(at_least={2: 61}), BEHIND, "at position 60, 61 is asked for"),
        (Terms(at_least={1: 1_000}), LEVEL, None),  # of another partition
        (Terms(max_lag=100, at_least={2: 61}), BEHIND, "61 is asked for"),
    ],
)
def test_a_store_answers_or_says_why_not(
    terms: Terms, state: PartitionState, reason: str | None
) -> None:
    found = terms.why_not(state)
    assert found is None if reason is None else reason in (found or "")
