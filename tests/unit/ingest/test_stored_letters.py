"""The ledger of dead letters."""

from __future__ import annotations

import pytest

from holdfast.ingest.stored_letters import Counts, Fate, Ledger, StoredLetter
from tests.support.limited import limited


def _letter(offset: int, value: bytes = b"{", *, cut: bool = False) -> StoredLetter:
    return StoredLetter(None, value, "no JSON", "in", 0, offset, 5, 6, "app-q", cut)


def test_each_letter_has_one_fate() -> None:
    done = [(_letter(1).origin, _letter(1).digest)]
    letters = {
        _letter(1): Fate.DONE,
        _letter(1, b"made anew"): Fate.DUE,
        _letter(2): Fate.FAILED_AGAIN,
        _letter(3, b"[", cut=True): Fate.CUT,
        _letter(4, b"("): Fate.DUE,
    }
    with Ledger(done, whole=True) as ledger:
        for letter, fate in letters.items():
            assert [ledger.note(letter) for _ in range(2)] == [fate, fate]
        assert ledger.counts() == Counts(due=2, done=1, failed_again=1, cut=1)
        assert [letter.offset for letter in ledger.writable(again=False)] == [1, 4]
        assert [*ledger.writable(again=True)][1] == _letter(2)


@pytest.mark.parametrize("whole", [False, True])
def test_a_place_has_a_record_of_each_topic_that_had_the_name(whole: bool) -> None:
    old, new, newest = (_letter(1, value) for value in (b"old", b"new", b"newest"))
    done = [(letter.origin, letter.digest) for letter in (old, new)]
    with Ledger(done, whole=whole) as ledger:
        fates = [ledger.note(letter) for letter in (old, new, newest, _letter(1, b"last"))]
        assert fates == [Fate.DONE, Fate.DONE, Fate.DUE, Fate.DUE]
        assert ledger.counts() == Counts(due=2, done=2)


@pytest.mark.parametrize("whole", [False, True])
def test_more_letters_than_memory_holds(whole: bool) -> None:
    """256 MB of letters where there are 200 MB of memory."""
    limited(
        f"""
        import random
        from holdfast.ingest.stored_letters import Ledger, StoredLetter
        noise = random.Random(1).randbytes(65_536)
        with Ledger([], whole={whole}) as ledger:
            for n in range(4_096):
                value = noise + b"%d" % n
                ledger.note(StoredLetter(b"k", value, "no", "in", 0, n, 5, 6, "app-q"))
            assert ledger.counts().due == 4_096
            found = [letter.offset for letter in ledger.writable(again=True)]
            assert found == ([*range(4_096)] if {whole} else [0] * 4_096), "counted, not kept"
        """,
        memory=200 << 20,
    )
