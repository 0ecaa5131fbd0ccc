"""The snapshots of one state partition in the place that `snapshot.uri` names.

    <uri>/<application>/<query>/<state partition>/files/<sha256>          a file of a store
                                                  manifests/<offset>.<topic id>.json

Files have their digests for names: one that the archive has already is not uploaded again.  Several
writers may work at once, for example a stopped process that goes on later.  No lock is needed:

    a writer    uploads the files that no manifest names yet, then the manifest that names them; it
                has not looked at the archive for longer than half of `_UNNAMED_S` when it does so
    a cleaner   removes manifests first, and a file only after it has seen it for `_UNNAMED_S`
                without a manifest that names it

What is left to go wrong costs a snapshot, not a row: every file is checked when it is read.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import SnapshotDamaged, SnapshotsUnavailable
from holdfast.state.files import error_kind
from holdfast.state.snapshots.manifest import Manifest, SnapshotFile
from holdfast.state.snapshots.places import needs_folders, opened, unavailable
from holdfast.types.ids import query_of

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

__all__ = ["Archive", "archived_partitions", "archived_state"]

_LOG = logging.getLogger(__name__)
_PIECE = 4 << 20  # bytes read or written at once
_FETCHES = 4  # files at a time
_UNNAMED_S = 600.0
_MANIFEST = re.compile(r"(\d{20})\.([A-Za-z0-9_=-]+)\.json")
_IN_NAMES = str.maketrans("/+", "_-")  # topic ids are base64; names have its URL-safe alphabet


@dataclass(frozen=True)
class _Listed:
    """A manifest in a listing: what its name tells; `topic_id` as in names."""

    name: str
    offset: int
    topic_id: str


class Archive:
    """Owns the snapshots of one store, in this process.

    Every method raises `SnapshotsUnavailable` if the place does not answer.

    Args:
        uri: the value of `snapshot.uri`.
        store: the owner of the rows, see `store_name`; it is the folder below the URI, too.
    """

    def __init__(self, uri: str, store: str) -> None:
        self._uri = uri
        self._store = store
        self._sums: dict[tuple[int, int, int, int], str] = {}  # of files of the volume
        self._looked = float("-inf")
        self._uploaded: set[str] = set()  # since the last manifest
        self._unnamed: dict[tuple[str, int], float] = {}  # files with their times, and since when

    @property
    def _system(self) -> FileSystem:
        return opened(self._uri)[0]

    @property
    def _path(self) -> str:
        return f"{opened(self._uri)[1]}/{self._store}"

    # -- reading -----------------------------------------------------------------------------

    def snapshots(self, topic_id: str) -> Iterator[Manifest]:
        """The snapshots that belong to this changelog topic, the furthest first.

        Leaves out those whose manifests cannot be read, and says so in the log.
        """
        yield from self._readable(_of_topic(self._manifests(), topic_id))

    def newest(self) -> Manifest | None:
        """The last snapshot that was taken, for readers who do not know the changelog topic.

        Leaves out those whose manifests cannot be read, as `snapshots` does.
        """
        everything = self._manifests()
        topics = {one.topic_id for one in everything}
        furthest = (next(self._readable(_of_topic(everything, t)), None) for t in topics)
        return max((m for m in furthest if m), key=lambda m: m.taken_ms, default=None)

    def _readable(self, manifests: Sequence[_Listed]) -> Iterator[Manifest]:
        for listed in manifests:
            try:
                yield self._manifest(listed)
            except SnapshotDamaged as error:
                _LOG.warning("A snapshot of %s is passed over: %s", self._store, error)

    def _manifest(self, listed: _Listed) -> Manifest:
        path = f"{self._path}/manifests/{listed.name}"
        return Manifest.from_bytes(b"".join(self._pieces(path)), path)

    def fetch(self, manifest: Manifest, folder: Path, told: Callable[[int], None]) -> None:
        """Downloads all files of a snapshot into a new folder, and checks each.

        Args:
            told: called with the number of bytes of each piece, from several threads; what it
                raises ends the download.

        Raises:
            SnapshotDamaged: a file is missing, or has another content than the manifest says.
            VolumeFull: no space for it.
        """
        with _on_volume(folder):
            folder.mkdir(parents=True)
        with ThreadPoolExecutor(_FETCHES) as pool:
            fetches = [
                pool.submit(self._fetch, file, folder / file.name, told) for file in manifest.files
            ]
            try:
                for fetch in fetches:
                    fetch.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _fetch(self, file: SnapshotFile, path: Path, told: Callable[[int], None]) -> None:
        found, size = hashlib.sha256(), 0
        with _on_volume(path), path.open("wb") as copy:
            for piece in self._pieces(f"{self._path}/files/{file.sha256}"):
                told(len(piece))
                found.update(piece)
                size += len(piece)
                copy.write(piece)
        if (size, found.hexdigest()) != (file.size, file.sha256):
            raise SnapshotDamaged(
                f"The file {file.name} of a snapshot of {self._store} has {size} bytes and the "
                f"SHA-256 {found.hexdigest()}; its manifest says {file.size} and {file.sha256}.",
                cause="it was damaged or replaced in the archive, or on the way.",
                action="none: an older snapshot or the changelog is used.",
            )

    def _pieces(self, path: str) -> Iterator[bytes]:
        with _missing_is_damage(path), unavailable(path):
            stream = self._system.open_input_stream(path)
        with stream:
            while True:
                with unavailable(path):
                    piece = stream.read(_PIECE)
                if not piece:
                    return
                yield piece

    # -- writing -----------------------------------------------------------------------------

    def files_of(self, folder: Path) -> tuple[SnapshotFile, ...]:
        """The files of a copied store, with their digests.

        A file that did not change since the last call is not read again.
        """
        sums, files = {}, []
        with _on_volume(folder):
            for path in sorted(folder.iterdir()):
                told = path.stat()
                key = told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns
                sums[key] = self._sums.get(key) or _digest(path)
                files.append(SnapshotFile(path.name, told.st_size, sums[key]))
        self._sums = sums
        return tuple(files)

    def upload(self, folder: Path, files: Sequence[SnapshotFile]) -> int:
        """Uploads those files that no snapshot has yet; returns how many bytes they have."""
        self._looked = time.monotonic()
        held, known = self._held(), self._named() | self._uploaded
        size = {name: info.size if name in known else -1 for name, info in held.items()}
        lacking = {f.sha256: f for f in files if size.get(f.sha256) != f.size}
        for file in lacking.values():
            self._put(f"files/{file.sha256}", _read(folder / file.name))
            self._uploaded.add(file.sha256)
        return sum(file.size for file in lacking.values())

    def name(self, manifest: Manifest) -> bool:
        """Writes the manifest; False: its files may be gone by now, so upload what is lacking."""
        if time.monotonic() - self._looked > _UNNAMED_S / 2:
            return False
        position = manifest.position
        name = f"{position.offset:020d}.{position.topic_id.translate(_IN_NAMES)}.json"
        self._put(f"manifests/{name}", iter([manifest.to_bytes()]))
        self._uploaded.clear()
        return True

    def _put(self, name: str, pieces: Iterator[bytes]) -> None:
        path = f"{self._path}/{name}"
        with unavailable(path):
            if needs_folders(self._system):
                self._system.create_dir(path.rpartition("/")[0], recursive=True)
            with self._system.open_output_stream(path) as stream:
                for piece in pieces:
                    stream.write(piece)

    # -- retention ---------------------------------------------------------------------------

    def retain(self, topic_id: str, count: int) -> None:
        """Removes all but the `count` furthest snapshots, and files that no manifest names.

        Snapshots of another changelog topic, as before it was made again, are kept until there are
        as many of this one.
        """
        everything = self._manifests()
        kept = _of_topic(everything, topic_id)[:count]
        for one in everything if len(kept) == count else ():
            if one not in kept:
                self._remove(f"manifests/{one.name}")
        try:
            self._clean()
        except SnapshotDamaged as error:
            _LOG.warning("%s: no file of a snapshot is removed: %s", self._store, error.fact)

    def _clean(self) -> None:
        """Removes the files that no manifest has named for a while."""
        now, named = time.monotonic(), self._named(strict=True)
        unnamed = [(n, info.mtime_ns or 0) for n, info in self._held().items() if n not in named]
        self._unnamed = {file: self._unnamed.get(file, now) for file in unnamed}
        for file, since in list(self._unnamed.items()):
            if now - since >= _UNNAMED_S:
                self._remove(f"files/{file[0]}")
                del self._unnamed[file]

    def _named(self, *, strict: bool = False) -> set[str]:
        """The files that manifests name; `strict`: all manifests must be readable."""
        named: set[str] = set()
        for one in self._manifests():
            try:
                named |= {file.sha256 for file in self._manifest(one).files}
            except SnapshotDamaged:
                if strict:
                    raise
        return named

    def _remove(self, name: str) -> None:
        path = f"{self._path}/{name}"
        with unavailable(path), suppress(FileNotFoundError):  # another cleaner was faster
            self._system.delete_file(path)

    # -- listings ----------------------------------------------------------------------------

    def _held(self) -> dict[str, FileInfo]:
        """Size and time of each file in the archive, by its digest."""
        return {info.base_name: info for info in self._list("files")}

    def _manifests(self) -> list[_Listed]:
        names = (_MANIFEST.fullmatch(info.base_name) for info in self._list("manifests"))
        return [_Listed(name[0], int(name[1]), name[2]) for name in names if name is not None]

    def _list(self, folder: str) -> list[FileInfo]:
        from pyarrow.fs import FileSelector

        path = f"{self._path}/{folder}"
        with unavailable(path):
            found = self._system.get_file_info(FileSelector(path, allow_not_found=True))
        return [info for info in found if info.is_file]


def archived_state(uri: str, application_id: str, query_id: str) -> str:
    """The `types.ids.state_name` of a query's last generation that has a folder in the archive.

    Only owners take snapshots, so a copy that was given up has none.

    Raises:
        SnapshotsUnavailable: the place does not answer.
    """
    mine = (name for name in _folders(uri, application_id) if query_of(name) == query_id)
    return max(mine, key=lambda name: (len(name), name), default=query_id)


def archived_partitions(uri: str, application_id: str, state_name: str) -> list[int]:
    """The state partitions of a state that have a folder in the archive, sorted.

    Raises:
        SnapshotsUnavailable: the place does not answer.
    """
    names = _folders(uri, f"{application_id}/{state_name}")
    return sorted(int(name) for name in names if name.isdecimal())


def _folders(uri: str, below: str) -> list[str]:
    from pyarrow.fs import FileSelector

    path = f"{opened(uri)[1]}/{below}"
    with unavailable(path):
        found = opened(uri)[0].get_file_info(FileSelector(path, allow_not_found=True))
    return [info.base_name for info in found if not info.is_file]


def _of_topic(listed: Sequence[_Listed], topic_id: str) -> list[_Listed]:
    """Those of this changelog topic, the furthest first."""
    mine = [one for one in listed if one.topic_id == topic_id.translate(_IN_NAMES)]
    return sorted(mine, key=lambda one: one.offset, reverse=True)


def _read(path: Path) -> Iterator[bytes]:
    with _on_volume(path), path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _missing_is_damage(path: str) -> Iterator[None]:
    try:
        yield
    except SnapshotsUnavailable as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise SnapshotDamaged(
            f"A file of a snapshot is missing: {path}.",
            cause="it was removed by somebody, or its snapshot was given up meanwhile.",
            action="none: an older snapshot or the changelog is used.",
        ) from error


@contextmanager
def _on_volume(path: Path) -> Iterator[None]:
    """Translates errors of the executor's own volume."""
    try:
        yield
    except OSError as error:
        raise error_kind(error)(
            f"A snapshot's files could not be written to {path} or read there: {error}.",
            action="give the volume space and permissions; no commit is lost.",
        ) from error
