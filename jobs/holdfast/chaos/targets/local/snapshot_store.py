"""Faults of a job's snapshots in a folder of this machine: adds the component `snapshot-store`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.chaos.faults.target import Landing, Target, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.faults.wrapped import WrappedTarget
from holdfast.errors import Refused, Retriable
from holdfast.types.components import EXECUTOR, SNAPSHOTS

__all__ = ["SnapshotTarget", "folder_of"]

_FAULTS = frozenset({Fault.DAMAGE_SNAPSHOT, Fault.CUT_OFF})
_AWAY = ".away"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def folder_of(uri: str) -> Path | None:
    """The folder that a `snapshot.uri` names; None if it is on no disk of this machine."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file") or not parts.path:
        return None
    return Path(unquote(parts.path) if parts.scheme else uri)


class SnapshotTarget(WrappedTarget):
    """A target that can hit the job's snapshots as well.

    Damage shows only when a store is lost, so an executor is killed and its stores are removed in
    the same fault.

    Args:
        inner: the target where the job runs; handles all other components.
        root: the folder that `snapshot.uri` names.
        application_id: the job, whose snapshots alone are hit.
    """

    def __init__(self, inner: Target, root: Path, application_id: str) -> None:
        super().__init__(inner, SNAPSHOTS)
        self._root = root
        self._job = root / application_id
        self._away = root.with_name(root.name + _AWAY)
        self._lost: dict[str, Victim] = {}  # by victim: the executor that lost its volume with it
        self._damaged: dict[str, list[Path]] = {}

    @property
    def faults(self) -> Mapping[str, frozenset[Fault]]:
        """The inner target's faults, and the faults of snapshots."""
        return {**self._inner.faults, SNAPSHOTS: _FAULTS}

    def victims(self, component: str) -> list[Victim]:
        """The job's snapshots, as they are now; other components from the inner target."""
        if component != SNAPSHOTS:
            return self._inner.victims(component)
        newest = sorted(self._newest())
        return [Victim(SNAPSHOTS, "snapshots", _named(newest))] if newest else []

    def strike(self, victim: Victim, fault: Fault) -> str:
        """Changes a byte in a file of each newest snapshot, or takes the folder away.

        Raises:
            Retriable: there is no snapshot, or no executor to hit.
            Refused: the fault is not one for snapshots.
        """
        if victim.component != SNAPSHOTS:
            return self._inner.strike(victim, fault)
        if fault is Fault.DAMAGE_SNAPSHOT:
            return self._damage(victim)
        if fault is not Fault.CUT_OFF:
            raise Refused(f"{fault.value} cannot be done to snapshots.")
        if self._away.exists() or not self._root.is_dir():
            raise Retriable(f"{self._root} is away already.")
        self._root.rename(self._away)
        self._root.touch()
        return f"{self._root} is a file, its folder is {self._away.name}"

    def landed(self, victim: Victim, fault: Fault) -> Landing:
        """Whether the files have other contents than their names say, or the folder is away."""
        if victim.component != SNAPSHOTS:
            return self._inner.landed(victim, fault)
        if fault is Fault.CUT_OFF:
            away = self._root.is_file() and self._away.is_dir()
            return Landing(away, f"{self._root} is {'' if away else 'not '}a file")
        wrong = [path for path in self._damaged.get(victim.identity, ()) if _is_wrong(path)]
        lost = self._lost.get(victim.identity)
        if lost is None or not wrong:
            return Landing(False, "no file was changed")
        volume = self._inner.landed(lost, Fault.LOSE_VOLUME)
        return Landing(volume.landed, f"{len(wrong)} files changed; {volume.evidence}")

    def heal(self, victim: Victim, fault: Fault) -> None:
        """Puts the folder back; damaged files stay damaged."""
        super().heal(victim, fault)
        if victim.component == SNAPSHOTS and fault is Fault.CUT_OFF:
            self._put_back()

    def heal_all(self) -> list[str]:
        return self._inner.heal_all() + self._put_back()

    def _damage(self, victim: Victim) -> str:
        executors = self._inner.victims(EXECUTOR)
        if not executors:
            raise Retriable("There is no executor whose volume could be lost.")
        # Nothing is uploaded between the change and the end of the executors that could repair it.
        changed = [path for manifest in self._newest() if (path := _changed(manifest)) is not None]
        if not changed:
            raise Retriable("No snapshot has a file with rows yet.")
        did = self._inner.strike(executors[0], Fault.LOSE_VOLUME)
        self._lost[victim.identity], self._damaged[victim.identity] = executors[0], changed
        return f"a byte of {len(changed)} files changed; {did}"

    def _newest(self) -> Iterator[Path]:
        """The manifest of the furthest snapshot of each state partition."""
        for folder in self._job.glob("*/*/manifests"):
            manifests = sorted(folder.glob("*.json"))
            if manifests:
                yield manifests[-1]

    def _put_back(self) -> list[str]:
        if not self._away.is_dir():
            return []
        if self._root.is_file():
            self._root.unlink()
        self._away.rename(self._root)
        return [f"snapshots are back in {self._root}"]


def _named(manifests: Sequence[Path]) -> str:
    told = "\n".join(map(str, manifests)).encode()
    return hashlib.sha256(told).hexdigest()[:16]


def _changed(manifest: Path) -> Path | None:
    """The largest file of a snapshot, once a byte in its middle is another one."""
    try:
        told = json.loads(manifest.read_bytes())
        file = max(told["files"], key=lambda each: int(each["size"]))
    except (OSError, ValueError, KeyError):
        return None
    path = manifest.parents[1] / "files" / str(file["sha256"])
    if not _SHA256.fullmatch(path.name) or not path.is_file() or not path.stat().st_size:
        return None
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    return path


def _is_wrong(path: Path) -> bool:
    return not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != path.name
