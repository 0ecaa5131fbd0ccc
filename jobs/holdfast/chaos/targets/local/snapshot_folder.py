"""A folder of this machine that holds a job's snapshots: it can be away for a while."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.chaos.faults.snapshot_faults import Snapshots, SnapshotTarget
from holdfast.chaos.faults.target import Landing, Target, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.errors import Retriable
from holdfast.types.components import SNAPSHOTS

__all__ = ["SnapshotFolderTarget", "folder_of"]

_AWAY = ".away"


def folder_of(uri: str) -> Path | None:
    """The folder that a `snapshot.uri` names; None if it is on no disk of this machine."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file") or not parts.path:
        return None
    return Path(unquote(parts.path) if parts.scheme else uri)


class SnapshotFolderTarget(SnapshotTarget):
    """A target that can damage the job's snapshots, and take their folder away.

    Args:
        root: the folder that `snapshot.uri` names.
    """

    def __init__(self, inner: Target, snapshots: Snapshots, root: Path) -> None:
        super().__init__(inner, snapshots)
        self._root = root
        self._away = root.with_name(root.name + _AWAY)

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        found = super().faults
        return {**found, SNAPSHOTS: found[SNAPSHOTS] | {Fault.CUT_OFF}}

    def strike(self, victim: Victim, fault: Fault) -> str:
        """As every target of snapshots; or puts a file in the folder's place.

        Raises:
            Retriable: there is nothing to hit, or the folder is away already.
            Refused: the fault is not one for snapshots.
        """
        if (victim.component, fault) != (SNAPSHOTS, Fault.CUT_OFF):
            return super().strike(victim, fault)
        if self._away.exists() or not self._root.is_dir():
            raise Retriable(f"{self._root} is away already.")
        self._root.rename(self._away)
        self._root.touch()
        return f"{self._root} is a file, its folder is {self._away.name}"

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Whether files have other contents than their names say, or the folder is away."""
        if (victim.component, fault) != (SNAPSHOTS, Fault.CUT_OFF):
            return super().landed(victim, fault)
        away = self._root.is_file() and self._away.is_dir()
        return Landing(away, f"{self._root} is {'' if away else 'not '}a file")

    def heal(self, victim: Victim, fault: Fault) -> None:
        """Puts the folder back; damaged files stay damaged."""
        super().heal(victim, fault)
        if (victim.component, fault) == (SNAPSHOTS, Fault.CUT_OFF):
            self._put_back()

    def heal_all(self) -> list[str]:
        return super().heal_all() + self._put_back()

    def _put_back(self) -> list[str]:
        if not self._away.is_dir():
            return []
        if self._root.is_file():
            self._root.unlink()
        self._away.rename(self._root)
        return [f"snapshots are back in {self._root}"]
