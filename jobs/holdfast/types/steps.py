"""The order of a commit: the one place where its steps are numbered.

| step          | what                                            | a crash right after it means |
|---------------|-------------------------------------------------|------------------------------|
| -½ RESTORING  | `init_transactions` has fenced any zombie; part | the same again               |
|               | of the changelog is replayed                    |                              |
| 0 OPENED      | the store is level; the last commit marker is   | the same again               |
|               | known                                           |                              |
| 1 CHECKED     | offsets at or below the marker's: done, skip    | nothing has happened         |
| 1½ BEGUN      | read and merged; the transaction is open        | it aborts, the batch is sent |
|               |                                                 | again                        |
| 2 PRODUCED    | changelog and sink records                      | the same                     |
| 3 MARKED      | the commit marker                               | the same                     |
| 4 COMMITTED   | commit; timed out = unknown: drop the handle,   | 0 replays the tail, 1 skips  |
|               | go to 0                                         |                              |
| 5 WRITTEN     | values and position into the store, one batch   | nothing is missing           |

Halves are moments inside a step that a fault may be aimed at.

A snapshot (`SnapshotStep`) is taken and used beside it:

| step          | what                                            | a crash right after it means |
|---------------|-------------------------------------------------|------------------------------|
| COPIED        | a copy of the store is on its own volume        | the copy is removed          |
| UPLOADED      | all its files are in the archive                | files that no manifest names |
|               |                                                 | are removed later            |
| NAMED         | its manifest is, too: the snapshot exists       | nothing is missing           |
| FETCHED       | a lost store's files are on the volume, but not | they are removed             |
|               | in their place                                  |                              |

A savepoint (`SavepointStep`) is made of one job, and another job begins with it:

| step          | what                                            | a crash right after it means |
|---------------|-------------------------------------------------|------------------------------|
| FROZEN        | a copy of the store is on its own volume        | the driver begins anew       |
| SAVED         | all its files are in the savepoint, which is    | the same                     |
|               | whole once the driver has written its document  |                              |
| SENT          | the rows of a state partition of the new job    | the transaction aborts, and  |
|               | are in its changelog, in an open transaction    | the rows are sent again      |
| BROUGHT_IN    | they are committed, with a commit marker        | its other state partitions   |
|               |                                                 | are brought in               |

A rescale (`RescaleStep`) copies a state into another number of state partitions:

| step          | what                                            | a crash right after it means |
|---------------|-------------------------------------------------|------------------------------|
| COPIED        | some of a share is in the next generation's     | the share, or the whole copy |
|               | changelog                                       | begins anew                  |
| FENCED        | nobody commits in a former state partition      | it is opened again           |
| LEVEL         | the rest of a share is sent, in an open         | the transaction aborts, and  |
|               | transaction                                     | the copy begins anew         |
| ENDED         | it is committed, with the first commit markers  | the copy begins anew, into   |
|               | of its heirs                                    | another generation           |
| MOVED         | a former state partition says "moved"; 0, the   | before 0: the others are     |
|               | last, decides                                   | taken back; after: nothing   |
| TAKEN_BACK    | a former state partition says so no more        | the others are taken back    |
"""

from __future__ import annotations

from enum import Enum, StrEnum

__all__ = ["AnyStep", "RescaleStep", "SavepointStep", "SnapshotStep", "Step"]


class Step(float, Enum):
    """Steps of a commit, numbered and so ordered as in the table above."""

    RESTORING = -0.5
    OPENED = 0.0
    CHECKED = 1.0
    BEGUN = 1.5
    PRODUCED = 2.0
    MARKED = 3.0
    COMMITTED = 4.0
    WRITTEN = 5.0


class SnapshotStep(StrEnum):
    """Steps of a snapshot, and of its use, as in the table above."""

    COPIED = "copied"
    UPLOADED = "uploaded"
    NAMED = "named"
    FETCHED = "fetched"


class SavepointStep(StrEnum):
    """Steps of a savepoint, and of its use, as in the table above."""

    FROZEN = "frozen"
    SAVED = "saved"
    SENT = "sent"
    BROUGHT_IN = "brought in"


class RescaleStep(StrEnum):
    """Steps of a rescale, as in the table above."""

    COPIED = "copied"
    FENCED = "fenced"
    LEVEL = "level"
    ENDED = "ended"
    MOVED = "moved"
    TAKEN_BACK = "taken back"


AnyStep = Step | SnapshotStep | SavepointStep | RescaleStep
