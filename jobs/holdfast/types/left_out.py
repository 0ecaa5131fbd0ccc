"""Input records that are in no result, and the shares of them above which to warn.

A table may be exact over the records it contains, and yet contain only a tenth of its input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

__all__ = ["LeftOut", "WarnShares"]


@dataclass(frozen=True)
class WarnShares:
    """The largest share of a query's input, per kind, that may be left out without a warning."""

    late: float = 0.01
    null_key: float = 0.01
    dead_letter: float = 0.01


@dataclass(frozen=True)
class LeftOut:
    """Counts of a query's input since its first batch, and of records that are in no result.

    The counts come from the commit markers, so they are exactly-once like the rows.

    Attributes:
        records: input records, including dead letters.  With overlapping windows a record counts
            once per window; for a query without state these are source offsets.
        late: dropped because their window, or the time to find a partner, was over.
        null_key: dropped because a column of their key is NULL.
        dead_letters: set aside because they cannot be decoded.
    """

    records: int = 0
    late: int = 0
    null_key: int = 0
    dead_letters: int = 0

    @property
    def total(self) -> int:
        """Records of all kinds that are in no result."""
        return self.late + self.null_key + self.dead_letters

    def __str__(self) -> str:
        """All kinds for people; empty if no record is left out."""
        return self.beside(())

    def beside(self, warnings: Sequence[str]) -> str:
        """The kinds that none of these warnings mentions, for people."""
        told = " ".join(warnings)
        texts = (text for _, text in self._kinds().values())
        return ", ".join(text for text in texts if text and text not in told)

    def warnings(self, shares: WarnShares) -> tuple[str, ...]:
        """One sentence for each kind whose share exceeds the allowed one."""
        return tuple(self.too_much(shares).values())

    def too_much(self, shares: WarnShares) -> dict[str, str]:
        """The warnings by kind, under the names of `WarnShares`."""
        allowed = asdict(shares)
        return {
            kind: f"{text}: more than {_PROPERTIES[kind]}={allowed[kind]:g} allows"
            for kind, (share, text) in self._kinds().items()
            if share > allowed[kind]
        }

    def shares(self) -> dict[str, float]:
        """The share of the input that is left out, by kind, 0 to 1."""
        return {kind: share for kind, (share, _) in self._kinds().items()}

    def as_json(self) -> dict[str, int]:
        """The counts as JSON values."""
        return asdict(self)

    def _kinds(self) -> Mapping[str, tuple[float, str]]:
        """Share and text by kind, under the names of `WarnShares`."""
        words = {
            "late": (self.late, "dropped as late"),
            "null_key": (self.null_key, "dropped for a NULL in their key"),
            "dead_letter": (self.dead_letters, "set aside as dead letters"),
        }
        return {kind: self._kind(count, text) for kind, (count, text) in words.items()}

    def _kind(self, count: int, words: str) -> tuple[float, str]:
        if not count:
            return 0.0, ""
        of = max(self.records, count)
        return count / of, f"{count:,} of {of:,} input records ({_percent(count / of)}) {words}"


_PROPERTIES = {
    "late": "late.warn.share",
    "null_key": "null.key.warn.share",
    "dead_letter": "dead.letter.warn.share",
}


def _percent(share: float) -> str:
    """A percentage that is never 0 % for some records, nor 100 % for less than all."""
    if share == 1:
        return "100 %"
    return "<0.1 %" if share < 0.001 else f"{min(share, 0.999):.1%}".replace("%", " %")
