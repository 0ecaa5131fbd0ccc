"""The files by which a broker's log cleaner can be watched from the same machine.

    <log folder>/meta.properties             whose folder it is
    <log folder>/cleaner-offset-checkpoint   how far each log was cleaned
    <log folder>/<topic>-<partition>/*.log   segments, named by their first offset
    <log folder>/../kafka.log                what the cleaner says of itself (`holdfast kafka`)

Nothing here is Kafka's public interface, so whatever cannot be read is None, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CleanerWords", "LogOnDisk", "Segment", "cleaner_words", "is_folder_of",
           "read_checkpoint", "read_log"]  # fmt: skip

_CHECKPOINT = "cleaner-offset-checkpoint"
_CHECKPOINT_VERSION = "0"
_LOGS = ("kafka.log.2", "kafka.log.1", "kafka.log")  # the oldest first
_LOG_BYTES_MAX = 8 << 20  # of each: a broker's log may be large, its last words are at its end


@dataclass(frozen=True)
class Segment:
    """One segment file: its first offset, and its size."""

    base: int
    bytes: int


@dataclass(frozen=True)
class LogOnDisk:
    """A topic partition's segments, the oldest first; the last one is active."""

    segments: tuple[Segment, ...]

    @property
    def bytes(self) -> int:
        return sum(s.bytes for s in self.segments)

    @property
    def active_bytes(self) -> int:
        """Of the segment that is written to, which no cleaner touches."""
        return self.segments[-1].bytes if self.segments else 0

    def dirty_ratio(self, cleaned_to: int | None) -> float:
        """Bytes since the checkpoint / all bytes, the active segment left out; as Kafka has it."""
        closed = self.segments[:-1]
        dirty = sum(s.bytes for s in closed if s.base >= (cleaned_to or 0))
        every = sum(s.bytes for s in closed)
        return dirty / every if every else 0.0


@dataclass
class CleanerWords:
    """What the cleaner's threads said since the broker started.

    Attributes:
        started: when its threads started, as the log has it; empty when it does not say.
        cleaned: how many logs were cleaned.
        last: the time of the last one.
        given_up: topic partition to the reason, of logs it will not clean before a restart.
        dead: what the thread that ended said; empty while all live.
    """

    started: str = ""
    cleaned: int = 0
    last: str = ""
    given_up: dict[str, str] = field(default_factory=dict)
    dead: str = ""


def is_folder_of(folder: Path, cluster_id: str, broker: int) -> bool:
    """Whether `folder` is that broker's log folder, and not one of the same name elsewhere."""
    found = dict(
        line.strip().split("=", 1) for line in _lines(folder / "meta.properties") if "=" in line
    )
    ours = found.get("node.id", found.get("broker.id"))
    return found.get("cluster.id") == cluster_id and ours == str(broker)


def read_checkpoint(folder: Path) -> dict[tuple[str, int], int] | None:
    """The first offset that was not cleaned, by topic and partition; None without such a file.

    The file has a version, a count and that many lines of topic, partition and offset.
    """
    lines = _lines(folder / _CHECKPOINT)
    if len(lines) < 2 or lines[0].strip() != _CHECKPOINT_VERSION:
        return None
    found: dict[tuple[str, int], int] = {}
    for line in lines[2:]:
        match line.split():
            case [topic, partition, offset] if partition.isdigit() and offset.isdigit():
                found[topic, int(partition)] = int(offset)
    # It is replaced, not written to: a shorter one is not Kafka's.
    return found if lines[1].strip() == str(len(found)) else None


def read_log(folder: Path, topic: str, partition: int) -> LogOnDisk | None:
    """The segments of a topic partition; None when its folder is not there."""
    files = folder / f"{topic}-{partition}"
    try:
        names = [path for path in files.iterdir() if path.suffix == ".log" and path.stem.isdigit()]
    except OSError:
        return None
    return LogOnDisk(tuple(sorted(_sized(names), key=lambda s: s.base)))


def cleaner_words(folder: Path) -> CleanerWords | None:
    """What the cleaner said in the log beside the log folder; None when there is none."""
    files = [folder.parent / name for name in _LOGS]
    lines = [line for path in files for line in _lines(path, _LOG_BYTES_MAX)]
    return _heard(lines) if lines else None


_THREAD = r"\[kafka-log-cleaner-thread-\d+\]: "
_TIME = re.compile(r"\[([^\],]+)")
_STARTS = re.compile(r"Starting the log cleaner")
_CLEANED = re.compile(r"Log cleaner thread \d+ cleaned log (\S+)")
_GAVE_UP = re.compile(_THREAD + r".*Marking its partition \((\S+)\) as uncleanable")
_DIED = re.compile(r"ERROR " + _THREAD + r"Error due to")
_REASON = re.compile(r"^[\w.$]+(?:Exception|Error)(?:: (.*))?$")


def _heard(lines: Sequence[str]) -> CleanerWords:
    words, time = CleanerWords(), ""
    for n, line in enumerate(lines):
        stamp = _TIME.match(line)
        time = stamp.group(1) if stamp else time
        if _STARTS.search(line):
            words = CleanerWords(started=time)  # what was said before was another process
        elif _CLEANED.search(line):
            words.cleaned, words.last = words.cleaned + 1, time
        elif gave_up := _GAVE_UP.search(line):
            words.given_up[gave_up.group(1)] = f"{time}: {_reason(lines[n + 1 : n + 2])}"
        elif _DIED.search(line):
            words.dead = f"{time}: {_reason(lines[n + 1 : n + 2])}"
    return words


def _reason(after: Iterable[str]) -> str:
    """The exception in the line after, without its class when it says something."""
    line = next(iter(after), "").strip()
    found = _REASON.match(line)
    return (found.group(1) or line) if found else "no reason is given"


def _sized(paths: Iterable[Path]) -> list[Segment]:
    found = []
    for path in paths:
        try:
            found.append(Segment(int(path.stem), path.stat().st_size))
        except OSError:  # the cleaner has just replaced it
            continue
    return found


def _lines(path: Path, bytes_max: int = 1 << 20) -> list[str]:
    """The lines at a file's end; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - bytes_max))
            return file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
