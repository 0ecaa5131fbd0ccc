"""The one tree of errors, named by the reaction that each asks for.

Every message carries four things: the fact, its numbers, the likely cause and
what to do.  `HoldfastError` composes them so that no caller forgets one.
Client libraries' own exceptions are translated at one border each
(`holdfast.transport`, `holdfast.state`) and never leave it.
"""

from __future__ import annotations

__all__ = [
    "BadRequest",
    "ChangelogLost",
    "CleanerIdle",
    "CommitUnknown",
    "DataLoss",
    "ExecutorsMissing",
    "Fenced",
    "FunctionFailed",
    "HangingTransaction",
    "HoldfastError",
    "IncompatibleStatement",
    "InvalidConfig",
    "InvalidStatement",
    "InvalidTestCase",
    "JobOwned",
    "KafkaUnavailable",
    "Moved",
    "NoHolder",
    "NotAllowed",
    "NotOwner",
    "NumericOverflow",
    "OffsetOverlap",
    "Overloaded",
    "PlanAgain",
    "PositionLost",
    "PreconditionsChanged",
    "QueryTimedOut",
    "QueryTooLarge",
    "RecordTooLarge",
    "Refused",
    "RegistryUnavailable",
    "ResultRefused",
    "Retriable",
    "SchemaMissing",
    "SchemaRefused",
    "SinkOwned",
    "SnapshotDamaged",
    "SnapshotsUnavailable",
    "StoreAhead",
    "StoreBehind",
    "StoreCorrupted",
    "StoreLocked",
    "StoreUnavailable",
    "TopicMissing",
    "TopicReplaced",
    "UndecodableRecord",
    "Unsupported",
    "VolumeFull",
    "VolumeHeld",
    "told_parts",
]

_CAUSE, _ACTION = "Likely cause: ", "What to do: "


class HoldfastError(Exception):
    """Base of every error Holdfast raises on purpose.

    Args:
        fact: what happened, with its numbers, in one sentence.
        cause: the likely cause, empty when the fact says it.
        action: what the reader can do now.
    """

    def __init__(self, fact: str, *, cause: str = "", action: str = "") -> None:
        self.fact = fact
        self.cause = cause
        self.action = action
        parts = [fact]
        if cause:
            parts.append(f"{_CAUSE}{cause}")
        if action:
            parts.append(f"{_ACTION}{action}")
        super().__init__("\n".join(parts))

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross Spark's process borders by pickle; keyword arguments must survive it.
        return (_rebuild, (type(self), self.fact, self.cause, self.action, self.__dict__.copy()))


def told_parts(text: str) -> tuple[str, str, str]:
    """The (fact, cause, action) of an error printed by another process; empty where missing."""
    fact, _, action = text.partition(f"\n{_ACTION}")
    fact, _, cause = fact.partition(f"\n{_CAUSE}")
    return fact, cause, action


def _rebuild(
    kind: type[HoldfastError], fact: str, cause: str, action: str, state: dict[str, object]
) -> HoldfastError:
    error = kind.__new__(kind)
    HoldfastError.__init__(error, fact, cause=cause, action=action)
    error.__dict__.update(state)
    return error


class Retriable(HoldfastError):
    """Do it again: drop the handle, go back to step 0, replay the batch."""


class Fenced(Retriable):
    """Somebody newer has the transactional id, or the remote store: close it, write nothing."""


class CommitUnknown(Retriable):
    """A commit timed out: report neither success nor failure; read the changelog again."""


class KafkaUnavailable(Retriable):
    """A broker did not answer in time; wait and try again."""


class RegistryUnavailable(Retriable):
    """The schema registry does not answer, or not as one: wait and try again."""


class ExecutorsMissing(Retriable):
    """No executor answers, or not all of them: wait for Spark to bring them back."""


class StoreLocked(Retriable):
    """Another process still holds the store's files; wait for it to end."""


class StoreUnavailable(Retriable):
    """A remote store does not answer, or has lost rows: open it again and restore the rest."""


class VolumeFull(Retriable):
    """The state volume is full; enlarge it.  Nothing that was committed is lost."""


class SnapshotsUnavailable(Retriable):
    """The place of the snapshots does not answer or refuses: try again later, go on without."""


class NotOwner(Retriable):
    """This executor does not hold the volume the state task belongs to: wait for the owner."""


class NoHolder(Retriable):
    """No query server that holds this part of a table answers: wait for one to return."""


class StoreBehind(Retriable):
    """A query server's store is further behind than the caller allows: wait, or allow more."""


class Overloaded(Retriable):
    """A client sends more requests than it may: wait, then ask again."""


class QueryTimedOut(Retriable):
    """A pull query took longer than its caller allows: ask for less, or allow more time."""


class PlanAgain(HoldfastError):
    """A batch does not match the committed offsets: read the commit markers and plan it again."""


class OffsetOverlap(PlanAgain):
    """A batch overlaps a commit marker only in part, or does not cover all that the marker has."""


class Moved(PlanAgain):
    """The state is, or may be, in another generation of the changelog: find out, and follow it."""


class TopicReplaced(PlanAgain):
    """A source topic was deleted and recreated: its offsets are not the known ones."""


class StoreCorrupted(HoldfastError):
    """The local store cannot be read or belongs to something else: wipe it and restore."""


class StoreAhead(StoreCorrupted):
    """The local store is ahead of its changelog: the topic was replaced; wipe and restore."""


class SnapshotDamaged(HoldfastError):
    """A snapshot is not what its manifest says: take an older one, or the changelog."""


class CleanerIdle(HoldfastError):
    """A broker's log cleaner does nothing: look at the broker; nothing is lost."""


class InvalidTestCase(HoldfastError):
    """A test case, or a file of them, is malformed."""


class Refused(HoldfastError):
    """Stop before anything is written; a person has to decide."""


class VolumeHeld(Refused):
    """Another process has the volume of this number; `pid`: which one, 0 if that is unknown."""

    def __init__(self, fact: str, *, cause: str = "", action: str = "", pid: int = 0) -> None:
        super().__init__(fact, cause=cause, action=action)
        self.pid = pid


class InvalidStatement(Refused):
    """The SQL is wrong; `line` and `column` (1-based) point at the place."""

    def __init__(
        self, fact: str, *, cause: str = "", action: str = "", line: int = 0, column: int = 0
    ) -> None:
        where = f"line {line}, column {column}: " if line else ""
        super().__init__(where + fact, cause=cause, action=action)
        self.line = line
        self.column = column


class Unsupported(InvalidStatement):
    """Valid ksqlDB that Holdfast does not support yet."""


class InvalidConfig(Refused):
    """One or more properties are wrong; the message names every one."""


class IncompatibleStatement(Refused):
    """The table's changelog was written by a statement whose state differs."""


class ResultRefused(Refused):
    """A query's results cannot be written until somebody acts: it alone stands still meanwhile."""


class SchemaMissing(Refused):
    """The schema registry has no schema with that id, subject or version."""


class SchemaRefused(ResultRefused):
    """A schema is malformed, or takes no such columns or values, or the registry refuses it."""


class NumericOverflow(ResultRefused):
    """A sum is too large for its type, and the statement wants no NULL in its place."""


class JobOwned(Refused):
    """Another driver runs the job: end one of the two."""


class SinkOwned(Refused):
    """Another query owns the sink that this one would write."""


class DataLoss(Refused):
    """Records that should be read are gone."""


class ChangelogLost(Refused):
    """Stores hold rows but their changelog is gone."""


class HangingTransaction(Refused):
    """Records of an ended transaction have no commit or abort marker, and none will be written."""


class NotAllowed(Refused):
    """The caller lacks a permission: ask the owner of the server's tokens."""


class BadRequest(Refused):
    """The server does not accept an HTTP request: change it; `status` says more."""

    def __init__(self, fact: str, *, status: int = 400, cause: str = "", action: str = "") -> None:
        super().__init__(fact, cause=cause, action=action)
        self.status = status


class PositionLost(Refused):
    """The changelog no longer has the records after a position: read the table anew."""


class QueryTooLarge(Refused):
    """A query asks for more keys, rows or memory than a server gives to one: ask for less."""


class PreconditionsChanged(Refused):
    """The conditions that a plan was made under no longer hold: survey and plan again."""


class TopicMissing(Refused):
    """A topic that must exist does not."""


class UndecodableRecord(Refused):
    """A record could not be decoded and the policy is to fail."""


class RecordTooLarge(ResultRefused):
    """A record is larger than its topic or the producer takes; its transaction was aborted."""


class FunctionFailed(Refused):
    """A user-defined function raised."""
