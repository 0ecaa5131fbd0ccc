"""`python -m holdfast.cli.in_pod.snapshots WHAT FILE …`: the newest snapshots of a job, as JSON.

Chaos runs it in an executor's pod, which reaches the place of the snapshots and has the
credentials.  FILE is the job's YAML file of properties.  WHAT is

    list             the manifest of the newest snapshot of each state partition
    damage           changes a byte of the largest file of each of them; which files these are
    wrong FILE …     those of these files whose contents are not what their names say
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from holdfast.cli.statements.options import load_settings
from holdfast.errors import SnapshotDamaged
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.snapshots.places import opened, unavailable

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["JobSnapshots", "main"]

_MANIFEST = re.compile(r"(.*/[0-9]+)/manifests/[^/]+\.json")


class JobSnapshots:
    """The snapshots of a job in the place that `snapshot.uri` names.

    Every method raises `SnapshotsUnavailable` if the place does not answer.
    """

    def __init__(self, uri: str, application_id: str) -> None:
        self._uri = uri
        self._application_id = application_id

    @property
    def _system(self) -> FileSystem:
        return opened(self._uri)[0]

    def newest(self) -> list[str]:
        """The path of the furthest manifest of each state partition, sorted."""
        from pyarrow.fs import FileSelector

        path = f"{opened(self._uri)[1]}/{self._application_id}"
        with unavailable(path):
            everything = FileSelector(path, allow_not_found=True, recursive=True)
            paths = sorted(info.path for info in self._system.get_file_info(everything))
        matches = filter(None, map(_MANIFEST.fullmatch, paths))
        return sorted({match[1]: match[0] for match in matches}.values())

    def damage(self) -> list[str]:
        """Changes a byte in the middle of a file of each newest snapshot; the files' paths.

        A file that is damaged already stays as it is: the same change would repair it.
        """
        changed = sorted(set(self._largest()))
        for path in changed:
            data = bytearray(self._read(path))
            if hashlib.sha256(data).hexdigest() != Path(path).name:
                continue
            data[len(data) // 2] ^= 1
            with unavailable(path), self._system.open_output_stream(path) as stream:
                stream.write(bytes(data))
        return changed

    def wrong(self, paths: Sequence[str]) -> list[str]:
        """Those of these files that are gone, or have another digest than their name."""
        from pyarrow.fs import FileType

        with unavailable(self._uri):
            infos = self._system.get_file_info(list(paths))
        gone = {info.path for info in infos if info.type is not FileType.File}
        return [path for path in paths if path in gone or self._digest(path) != Path(path).name]

    def _largest(self) -> Iterator[str]:
        for path in self.newest():
            try:
                manifest = Manifest.from_bytes(self._read(path), path)
            except SnapshotDamaged:
                continue
            files = [file for file in manifest.files if file.size]
            if files:
                folder = path.rsplit("/", 2)[0]
                yield f"{folder}/files/{max(files, key=lambda file: file.size).sha256}"

    def _digest(self, path: str) -> str:
        return hashlib.sha256(self._read(path)).hexdigest()

    def _read(self, path: str) -> bytes:
        with unavailable(path), self._system.open_input_stream(path) as stream:
            return bytes(stream.read())


def main(what: str, properties: Path, *paths: str) -> None:
    """Does it, and prints the answer.

    Raises:
        SnapshotsUnavailable: the place does not answer.
    """
    settings = load_settings(properties, (), None)
    snapshots = JobSnapshots(settings.snapshots.uri, settings.application_id)
    answers: Mapping[str, Callable[[], object]] = {
        "list": snapshots.newest,
        "damage": snapshots.damage,
        "wrong": lambda: snapshots.wrong(paths),
    }
    print(orjson.dumps(answers[what]()).decode())  # noqa: T201 - chaos reads it


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
