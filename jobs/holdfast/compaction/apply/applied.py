"""What an apply did, topic by topic: written after each of them, so that a second one goes on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter

from holdfast.compaction.apply.scratch import RestoreSample
from holdfast.compaction.runs import read_file

__all__ = ["Applied", "AppliedTopic", "Outcome"]

APPLIED_VERSION = 1


class Outcome(StrEnum):
    """What became of one topic of a plan."""

    CLEANED = "cleaned"  # settings changed and the cleaner has been over it
    CHANGED = "changed"  # settings that stay were changed; no cleaning was asked for
    NOTHING = "nothing"  # there was nothing to do
    GONE = "gone"  # it was deleted after the plan was made
    FAILED = "failed"  # `note` says why; what was temporary is put back


@dataclass(frozen=True)
class AppliedTopic:
    """One topic.

    Attributes:
        changed: settings that stay and were not so before; None: its own value was removed.
        temporary: what was in force while the cleaner worked.
        rolled: partitions whose active segment was rolled by an aborted record.
        bytes_before, bytes_after: of the largest replica of each partition, all together.
        ends_before: read_committed end by partition when it began, to tell growth.
        cleaner_s: how long the cleaner was waited for; `exact`: its checkpoints said it is done.
        level_s: how long the job was waited for afterwards.
        restore: of one partition before the change.
        note: what a person should know.
    """

    topic: str
    outcome: Outcome
    changed: dict[str, str | None]
    temporary: dict[str, str | None]
    rolled: tuple[int, ...] = ()
    bytes_before: int = 0
    bytes_after: int = 0
    ends_before: dict[int, int] | None = None
    cleaner_s: float = 0.0
    exact: bool = False
    level_s: float = 0.0
    restore: RestoreSample | None = None
    note: str = ""

    @property
    def done(self) -> bool:
        """Whether a second apply of the same plan leaves it alone."""
        return self.outcome in (Outcome.CLEANED, Outcome.CHANGED, Outcome.NOTHING)


@dataclass(frozen=True)
class Applied:
    """One plan, carried out.

    Attributes:
        repaired: what an earlier apply had left and was put back first, in words.
        topics: in the order in which they were done.
        cut_off: why it ended before its end; empty when it did not.
    """

    run: str
    plan_hash: str
    began_ms: int
    seconds: float
    repaired: tuple[str, ...] = ()
    topics: tuple[AppliedTopic, ...] = ()
    cut_off: str = ""
    version: int = APPLIED_VERSION

    def topic(self, name: str) -> AppliedTopic | None:
        return next((t for t in self.topics if t.topic == name), None)

    def to_json(self) -> bytes:
        """Indented JSON."""
        return _ADAPTER.dump_json(self, indent=1)

    @staticmethod
    def read(path: Path) -> Applied | None:
        """The inverse of `to_json`, from a file; None when there is none.

        Raises:
            Refused: it cannot be read.
        """
        try:
            return read_file(
                path,
                _ADAPTER,
                "record of an apply",
                "remove it; what was done already is found out again",
            )
        except FileNotFoundError:
            return None


_ADAPTER = TypeAdapter(Applied)
