"""Savepoints: the tables of a job as of one moment, kept under a name, independent of changelogs.

    <snapshot.uri>/<application>/savepoints/<name>/savepoint.json
                                                  <attempt>/<query>/<state partition>/files/<sha256>

The document is written after all the files that it names: a savepoint with a document is whole.
It says everything that is needed to read the tables or to start another job from them.  Attempts
have folders of their own: one that was given up may still be at work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from holdfast.errors import Refused, SnapshotDamaged
from holdfast.state.changelog import CommitMarker
from holdfast.state.snapshots.manifest import Manifest, check_manifest
from holdfast.state.snapshots.places import needs_folders, opened, unavailable
from holdfast.types.ids import OffsetRange, Place

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "SavedQuery",
    "SavedSource",
    "SavedStore",
    "Savepoint",
    "SavepointPlace",
    "folder_of",
    "split_reference",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VERSION = 1
_DOCUMENT = "savepoint.json"
_FOLDER = "savepoints"


@dataclass(frozen=True)
class SavedSource:
    """The offsets of a source topic up to which a query had read it, by topic partition."""

    topic: str
    topic_id: str
    offsets: dict[int, int]


@dataclass(frozen=True)
class SavedStore:
    """The store of one state partition.

    Attributes:
        rows: counts each window.
        marker: its last commit marker, as in the changelog.
    """

    partition: int
    rows: int
    marker: str
    manifest: Manifest

    def commit(self) -> CommitMarker:
        """The last commit marker."""
        return CommitMarker.from_bytes(self.marker.encode())


@dataclass(frozen=True)
class SavedQuery:
    """One query of the job.

    Attributes:
        sink: the table or stream that it writes, and `sink_topic` its topic.
        internal: whether it only feeds another query of the same statement.
        state_partitions: P; 0 without state.
        facts: see `CommitMarker`; empty if it had committed nothing.
        sources: in the order in which the query reads them; empty if it had committed nothing.
        stores: one per state partition; empty without state, or if nothing was committed.
    """

    id: str
    statement: str
    sink: str
    sink_topic: str
    internal: bool
    stateful: bool
    state_partitions: int
    facts: str
    sources: tuple[SavedSource, ...]
    stores: tuple[SavedStore, ...]

    @property
    def rows(self) -> int:
        """Rows of all state partitions."""
        return sum(store.rows for store in self.stores)

    @property
    def bytes(self) -> int:
        """Bytes of all stores."""
        return sum(store.manifest.size for store in self.stores)

    def source(self) -> OffsetRange:
        """An empty range at the offsets."""
        ends: dict[Place, int] = {
            (source.topic, p): at for source in self.sources for p, at in source.offsets.items()
        }
        ids = {source.topic: source.topic_id for source in self.sources}
        return OffsetRange.over([source.topic for source in self.sources], ends, ends, ids)


@dataclass(frozen=True)
class Savepoint:
    """A savepoint.

    Attributes:
        name: unique among the job's.
        attempt: the attempt that made it, and the folder of its files.
        taken_ms: when the tables were frozen, in wall-clock ms.
        text: the statements of the job.
        queries: in the order of the statements.
        insertions: names of the INSERT INTO … VALUES that the job had written.
    """

    name: str
    application_id: str
    attempt: str
    taken_ms: int
    text: str
    queries: tuple[SavedQuery, ...]
    insertions: tuple[str, ...] = ()
    version: int = _VERSION

    @property
    def reference(self) -> str:
        """A name that no other savepoint has, also none of the same name made later."""
        return f"{self.application_id}/{self.name}@{self.attempt}"

    @property
    def folder(self) -> str:
        """The folder of its files, below `snapshot.uri`."""
        return folder_of(self.application_id, self.name, self.attempt)

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(query.rows for query in self.queries)

    @property
    def bytes(self) -> int:
        """Bytes of all stores."""
        return sum(query.bytes for query in self.queries)

    def query(self, query_id: str) -> SavedQuery | None:
        """The query with this id, if there is one."""
        return next((query for query in self.queries if query.id == query_id), None)


@cache
def _document() -> TypeAdapter[Savepoint]:
    from pydantic import TypeAdapter  # executors do without it

    return TypeAdapter(Savepoint)


def split_reference(text: str) -> tuple[str, str]:
    """(application id, name) of what `savepoint.from` names: `APPLICATION/NAME`.

    Raises:
        Refused: it is no such text.
    """
    application_id, slash, name = text.partition("/")
    if not slash or not application_id or not _NAME.fullmatch(name):
        raise Refused(
            f"{text!r} names no savepoint.",
            action="write APPLICATION/NAME, the job that it was made of and its name; "
            "`holdfast savepoint list APPLICATION` lists them.",
        )
    return application_id, name


def folder_of(application_id: str, name: str, attempt: str) -> str:
    """The folder of the files of an attempt, below `snapshot.uri`."""
    return f"{application_id}/{_FOLDER}/{name}/{attempt}"


def _parsed(data: bytes) -> Savepoint:
    found = _document().validate_json(data)
    if found.version != _VERSION:
        raise ValueError(f"its version is {found.version}, not {_VERSION}")
    if not _NAME.fullmatch(found.attempt):
        raise ValueError("its attempt is none")
    for query in found.queries:
        for store in query.stores:
            check_manifest(store.manifest)
    return found


class SavepointPlace:
    """Reads and writes the savepoints of one job.

    Every method raises `SnapshotsUnavailable` if the place does not answer.

    Args:
        uri: the value of `snapshot.uri`.
    """

    def __init__(self, uri: str, application_id: str) -> None:
        self.uri = uri
        self.application_id = application_id

    @cached_property
    def _path(self) -> str:
        return f"{opened(self.uri)[1]}/{self.application_id}/{_FOLDER}"

    def names(self) -> list[str]:
        """The names of all whole savepoints, sorted."""
        from pyarrow.fs import FileSelector

        with unavailable(self._path):
            found = opened(self.uri)[0].get_file_info(
                FileSelector(self._path, allow_not_found=True, recursive=False)
            )
        folders = (info.base_name for info in found if not info.is_file)
        return sorted(name for name in folders if self.has(name))

    def has(self, name: str) -> bool:
        """Whether there is a whole savepoint of this name."""
        path = self._document(name)
        with unavailable(path):
            found = opened(self.uri)[0].get_file_info(path)
        return bool(found.is_file)

    def read(self, name: str) -> Savepoint:
        """The savepoint of this name.

        Raises:
            Refused: there is none.
            SnapshotDamaged: its document cannot be read.
        """
        path = self._document(name)
        if not self.has(name):
            names = ", ".join(self.names()) or "none"
            raise Refused(
                f"{self.application_id} has no savepoint {name} in {self._path}.",
                cause="it was deleted, is not whole yet, or snapshot.uri names another place.",
                action=f"the savepoints there are: {names}.",
            )
        with unavailable(path), opened(self.uri)[0].open_input_stream(path) as stream:
            data = stream.read()
        try:
            found = _parsed(data)
        except ValueError as error:
            raise SnapshotDamaged(
                f"The savepoint {path} of {len(data)} bytes cannot be read: {error}.",
                cause="it was damaged, or written by a newer Holdfast.",
                action="take another savepoint, or use that version.",
            ) from error
        if (found.application_id, found.name) != (self.application_id, name):
            raise SnapshotDamaged(
                f"The savepoint {path} is {found.application_id}/{found.name}.",
                cause="its folder was copied to another place.",
                action="copy it to the place that it was made in, below any snapshot.uri.",
            )
        return found

    def write(self, savepoint: Savepoint) -> None:
        """Writes the document, whole or not at all; all files that it names must be there."""
        path, system = self._document(savepoint.name), opened(self.uri)[0]
        folders = needs_folders(system)
        beside = f"{path}.new" if folders else path  # object stores show nothing that is not whole
        with unavailable(path):
            if folders:
                system.create_dir(path.rpartition("/")[0], recursive=True)
            with system.open_output_stream(beside) as stream:
                stream.write(_document().dump_json(savepoint))
            if folders:
                system.move(beside, path)

    def discard(self, name: str, attempt: str) -> None:
        """Removes the files of an attempt that was given up."""
        self._remove(f"{self._folder(name)}/{attempt}")

    def delete(self, name: str) -> bool:
        """Removes a savepoint, or what unfinished attempts have left, the document first.

        False: there was nothing.
        """
        path = self._document(name)
        with unavailable(path):
            if self.has(name):
                opened(self.uri)[0].delete_file(path)
        return self._remove(self._folder(name))

    def _remove(self, folder: str) -> bool:
        from pyarrow.fs import FileType

        system = opened(self.uri)[0]
        with unavailable(folder):
            if system.get_file_info(folder).type is FileType.NotFound:
                return False
            system.delete_dir(folder)
        return True

    def _document(self, name: str) -> str:
        return f"{self._folder(name)}/{_DOCUMENT}"

    def _folder(self, name: str) -> str:
        """The folder of a savepoint; names come from commands and from the control topic."""
        if not _NAME.fullmatch(name) or set(self.application_id) <= {"."}:
            raise Refused(
                f"{self.application_id}/{name} cannot be a savepoint's name.",
                action="take letters, digits, `.`, `_` and `-`, at most 100, a letter or digit "
                "first.",
            )
        return f"{self._path}/{name}"
