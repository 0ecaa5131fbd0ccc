"""The files of one release: what a job of it had written, as records and as a broker's data.

releases/<release>/job.sql          the statements
releases/<release>/functions.py     the user's aggregate
releases/<release>/records.msgpack.xz   every record of every topic, see `Written`
releases/<release>/broker.tar.xz    the broker's data after the first part of the input
releases/<release>/stores.tar.xz    the executors' volumes at that moment
"""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from holdfast.sql import compile_text
from holdfast.tasks.aggregates.user import load_functions
from holdfast.types.statements.internal_topics import for_application
from holdfast.types.statements.topology import Topology

__all__ = [
    "APPLICATION",
    "FOLDER",
    "KEPT",
    "RELEASES",
    "STATE_PARTITIONS",
    "Record",
    "Written",
    "compiled",
    "load_aggregates",
    "pack_folder",
    "topology_of",
    "unpack_folder",
]

FOLDER = Path(__file__).parent / "releases"
RELEASES = sorted(path.name for path in FOLDER.iterdir()) if FOLDER.is_dir() else []
APPLICATION = "upgraded"
STATE_PARTITIONS = 2
# The queries whose stores are kept; the others' are made of their changelogs.
KEPT = (
    "ctas_by_string",
    "ctas_by_struct",
    "ctas_in_tens",
    "ctas_lists",
    "ctas_sessions",
    "csas_lived",
)

_COMPACTED = {"0.1.0": ("GROWN", "HOUSED", "RULED")}  # `write` has prevented it since


class Record(NamedTuple):
    """One record; `headers` in order."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True)
class Written:
    """The records of all topics after both parts of the input.

    Attributes:
        topics: by topic and topic partition, in the order of their offsets.
        first_ends: by topic, the end offset of each partition after the first part.
        ids: the topic ids of that broker.
        compacted: the sinks of which the broker has removed superseded records meanwhile.
    """

    topics: Mapping[str, Sequence[Sequence[Record]]]
    first_ends: Mapping[str, Sequence[int]]
    ids: Mapping[str, str]
    compacted: Collection[str] = ()

    @staticmethod
    def of(release: str) -> Written:
        """The saved records of a release."""
        told = msgpack.unpackb(
            lzma.decompress((FOLDER / release / "records.msgpack.xz").read_bytes())
        )
        topics = {
            t: [[Record(*r) for r in p] for p in found] for t, found in told["topics"].items()
        }
        return Written(topics, told["first_ends"], told["ids"], _COMPACTED.get(release, ()))

    def save(self, folder: Path) -> None:
        """Writes `records.msgpack.xz`; the same bytes for the same records."""
        told: dict[str, Any] = {
            "topics": self.topics, "first_ends": self.first_ends, "ids": self.ids
        }  # fmt: skip
        packed: bytes = msgpack.packb(told)
        (folder / "records.msgpack.xz").write_bytes(lzma.compress(packed, preset=9))


@cache
def load_aggregates(release: str) -> None:
    """Registers the user's aggregate in this process."""
    load_functions([str(FOLDER / release / "functions.py")])


def topology_of(release: str) -> Topology:
    """The statements of a release as the planner of this version understands them."""
    load_aggregates(release)
    return compiled((FOLDER / release / "job.sql").read_text(encoding="utf-8"))


def compiled(text: str) -> Topology:
    """The statements with the internal topics of the application."""
    return for_application(compile_text(text), APPLICATION)


def pack_folder(folder: Path, to: Path, wanted: Callable[[str], bool] = lambda _: True) -> None:
    """Writes a folder's files as a tar.xz, without their owners and times.

    `wanted` is asked for each file and folder; its names begin with "./".
    """

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if not wanted(info.name):
            return None
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(to, "w:xz", preset=9) as tar:
        tar.add(folder, arcname=".", filter=plain)


def unpack_folder(packed: Path, to: Path) -> None:
    """The inverse of `pack_folder`."""
    with tarfile.open(packed) as tar:
        # As an attribute, because Python 3.11.0 to 3.11.3 (Debian 12) know no such argument.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(to)
