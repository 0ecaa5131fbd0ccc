"""The manifest of a snapshot: which store it is of, up to where, and what its files are.

A manifest is written after all the files that it names, so a snapshot with a manifest is whole.
What it says helps to choose a snapshot and to check its files.  The position that counts is the one
in the copied store itself.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.errors import SnapshotDamaged
from holdfast.state.table_store import StorePosition

__all__ = ["Manifest", "SnapshotFile", "check_manifest"]

_VERSION = 1
# Names of RocksDB's files; anything else could leave the store's folder.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class SnapshotFile:
    """A file of a store: its name there, its size in bytes, and its SHA-256 in hexadecimal digits.

    The archive keeps it under its digest, so that a file is uploaded once however many snapshots
    have it.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """One snapshot.

    Attributes:
        store: the owner of the rows, see `store_name`.
        position: the store's position in its changelog, with the topic's id.
        taken_ms: when it was taken, in wall-clock ms.
        files: all files of the store.
    """

    store: str
    position: StorePosition
    taken_ms: int
    files: tuple[SnapshotFile, ...]

    @property
    def size(self) -> int:
        """The size of the store, in bytes."""
        return sum(file.size for file in self.files)

    def to_bytes(self) -> bytes:
        """JSON in UTF-8."""
        return json.dumps({"version": _VERSION, **asdict(self)}, separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(data: bytes, where: str) -> Manifest:
        """The inverse of `to_bytes`; `where` names the manifest in messages.

        Raises:
            SnapshotDamaged: it is no manifest of this version.
        """
        try:
            told: dict[str, Any] = json.loads(data)
            version = told.pop("version")
            position = StorePosition(**told.pop("position"))
            files = tuple(SnapshotFile(**file) for file in told.pop("files"))
            found = Manifest(**told, position=position, files=files)
            _check_version(version)
            check_manifest(found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SnapshotDamaged(
                f"The snapshot manifest {where} of {len(data)} bytes cannot be read: {error!r}.",
                cause="it was damaged, or written by a newer Holdfast.",
                action="none: an older snapshot or the changelog is used.",
            ) from error
        return found


def _check_version(version: object) -> None:
    if version != _VERSION:
        raise ValueError(f"its version is {version}")


def check_manifest(manifest: Manifest) -> None:
    """Raises `ValueError` if its files are no files of a store: whoever wrote it is not trusted."""
    names = [file.name for file in manifest.files]
    if len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
        raise ValueError("its files have other names than a store's")
    if not all(_SHA256.fullmatch(f.sha256) and f.size >= 0 for f in manifest.files):
        raise ValueError("its files have no digests")
    numbers: tuple[object, ...] = (manifest.taken_ms, manifest.position.offset)
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError("its numbers are none")
