"""A broker's log cleaner, seen from the broker's own machine: its progress, and whether it runs.

The product needs this where a broker's log folders are on this machine: `holdfast kafka`, the demo,
a broker on the same host.  Kafka's protocol tells sizes of logs and nothing of the cleaner: which
bytes it has been over, a thread that has ended and partitions it gave up are in these files alone.
Elsewhere the survey estimates the dirty ratio and says that the cleaner is unknown, and a wait for
the cleaner goes by sizes (`apply.progress`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from holdfast.compaction.survey.cleaner_files import (
    CleanerWords,
    LogOnDisk,
    cleaner_words,
    is_folder_of,
    read_checkpoint,
    read_log,
)
from holdfast.compaction.survey.facts import CleanerState
from holdfast.transport.cluster.log_dirs import LogDir

__all__ = ["CleanerView", "cleaner_state", "given_up", "views_of"]

_OFF = {"log.cleaner.enable": "false", "log.cleaner.threads": "0"}
_ELSEWHERE = "its files are on another machine: neither its log nor its checkpoints can be read"


class CleanerView:
    """Reads one log folder of one broker; reads the files again at every call.

    Args:
        folder: a broker's log folder on this machine; see `views_of`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cleaned_to(self, topic: str, partition: int) -> int | None:
        """The first offset the cleaner has not cleaned; None when it never cleaned the log."""
        return (read_checkpoint(self.folder) or {}).get((topic, partition))

    def log(self, topic: str, partition: int) -> LogOnDisk | None:
        """The segments; None when this folder does not hold the partition."""
        return read_log(self.folder, topic, partition)

    def dirty_ratio(self, topic: str, partition: int) -> float | None:
        """The ratio as Kafka's cleaner computes it; None when the partition is not here."""
        log = self.log(topic, partition)
        return None if log is None else log.dirty_ratio(self.cleaned_to(topic, partition))

    def given_up(self, topic: str, partition: int) -> str:
        """Why the cleaner skips the partition until the broker restarts; empty when it does not."""
        words = cleaner_words(self.folder)
        return words.given_up.get(f"{topic}-{partition}", "") if words is not None else ""

    def words(self) -> CleanerWords | None:
        """The cleaner's log messages since the broker started; None without its log."""
        return cleaner_words(self.folder)


def views_of(dirs: Iterable[LogDir], cluster_id: str) -> dict[tuple[int, str], CleanerView]:
    """A view of each log folder on this machine, by broker and path.

    A folder of the same name that belongs to another broker or cluster is skipped.
    """
    return {
        (d.broker, d.path): CleanerView(Path(d.path))
        for d in dirs
        if is_folder_of(Path(d.path), cluster_id, d.broker)
    }


def cleaner_state(
    settings: Mapping[str, str], views: Collection[CleanerView], changelogs: Collection[str]
) -> tuple[CleanerState, str]:
    """Whether a broker's cleaner works, and the evidence for it, in words.

    Args:
        settings: the broker's settings, by name.
        views: its log folders on this machine.
        changelogs: names of the topics whose cleaning matters.
    """
    off = [f"{name}={value}" for name, value in _OFF.items() if settings.get(name) == value]
    if off:
        return CleanerState.OFF, ", ".join(off)
    if not views:
        return CleanerState.UNKNOWN, _ELSEWHERE
    words = next((w for view in views if (w := view.words()) is not None), None)
    if words is not None and (bad := _bad_news(words, changelogs)):
        return CleanerState.DEAD, bad
    if words is not None and words.cleaned:
        return CleanerState.RUNNING, f"it cleaned {words.cleaned} logs, the last at {words.last}"
    if words is not None and words.started:
        return CleanerState.RUNNING, f"its threads started at {words.started} and had no work yet"
    return CleanerState.UNKNOWN, "its checkpoints can be read, its log is not beside them"


def given_up(views: Iterable[CleanerView], changelogs: Collection[str]) -> tuple[str, ...]:
    """The `changelogs` with a partition that an otherwise working cleaner gave up."""
    found: set[str] = set()
    for words in (view.words() for view in views):
        if words is not None and not words.dead:
            found |= {_topic(place) for place in words.given_up}
    return tuple(sorted(found & set(changelogs)))


def _bad_news(words: CleanerWords, changelogs: Collection[str]) -> str:
    """The message of a thread that ended, else the changelogs' partitions that were given up."""
    if words.dead:
        return f"a thread ended at {words.dead}"
    lost = {p: why for p, why in sorted(words.given_up.items()) if _topic(p) in changelogs}
    return "; ".join(f"it gave up {place} at {why}" for place, why in lost.items())


def _topic(place: str) -> str:
    return place.rpartition("-")[0]
