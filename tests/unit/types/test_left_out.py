"""Left-out records are reported with numbers, and warned about above a share."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from holdfast.config.properties import PROPERTIES
from holdfast.types.left_out import LeftOut, WarnShares

MANY = LeftOut(records=3_124, late=2_242, null_key=10, dead_letters=40)


def test_every_kind_is_told_with_its_share() -> None:
    assert str(MANY) == (
        "2,242 of 3,124 input records (71.8 %) dropped as late, "
        "10 of 3,124 input records (0.3 %) dropped for a NULL in their key, "
        "40 of 3,124 input records (1.3 %) set aside as dead letters"
    )
    assert MANY.total == 2_292
    assert str(LeftOut(100)) == ""


def test_a_share_above_the_allowed_one_is_warned_about() -> None:
    late, dead = MANY.warnings(WarnShares())
    assert late.startswith("2,242 of 3,124")
    assert late.endswith("late.warn.share=0.01 allows")
    assert dead.endswith("dead.letter.warn.share=0.01 allows")
    assert len(MANY.warnings(WarnShares(0, 0, 0))) == 3
    assert MANY.warnings(WarnShares(1, 1, 1)) == ()
    assert LeftOut(10).warnings(WarnShares(0, 0, 0)) == ()


@pytest.mark.parametrize(("late", "warned"), [(10, False), (11, True)])
def test_the_share_itself_is_still_allowed(late: int, warned: bool) -> None:
    assert bool(LeftOut(1_000, late=late).warnings(WarnShares())) is warned


def test_shares_are_never_rounded_to_nothing_or_to_all() -> None:
    assert "(<0.1 %)" in str(LeftOut(1_000_000, late=1))
    assert "(99.9 %)" in str(LeftOut(1_000_000, late=999_999))
    assert "(100 %)" in str(LeftOut(7, late=7))
    assert LeftOut(0, dead_letters=3).shares()["dead_letter"] == 1.0


def test_every_share_is_a_property() -> None:
    names = {
        PROPERTIES[f"{kind.replace('_', '.')}.warn.share"].path for kind in asdict(WarnShares())
    }
    assert names == {("warn", kind) for kind in asdict(WarnShares())}
