"""How many dead letters are shown."""

from __future__ import annotations

import pytest

from holdfast.cli.look.dead_letters import newest
from holdfast.ingest.letters import StoredLetter


@pytest.mark.parametrize(
    ("there", "limit", "shown"), [(0, 20, 0), (6, 20, 6), (15, 20, 15), (25, 20, 20), (3, 0, 0)]
)
def test_the_newest_are_shown(there: int, limit: int, shown: int) -> None:
    letters = [StoredLetter(None, b"x", "no JSON", "in", 0, n, 0, n, "app-q") for n in range(there)]
    assert [letter.offset for letter in newest(letters, limit)] == [*range(there)][there - shown :]
