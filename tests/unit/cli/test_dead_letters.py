from __future__ import annotations

import pytest

from holdfast.cli.look.dead_letters import _shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 10, "x" * 10),
        ("x" * 11, "x" * 9 + "…"),
        ("x" * 1_000, "x" * 9 + "…"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x1b[2Jgone", "\\x1b[2Jgo…"),
        ("x" * 9 + "\x1b", "x" * 9 + "…"),
    ],
)
def test_a_text_that_is_cut_says_so(text: str, shown: str) -> None:
    assert _shown(text, 10) == shown
