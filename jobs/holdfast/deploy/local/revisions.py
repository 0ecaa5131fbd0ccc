"""The revisions of a local deployment: small durable files in its folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from holdfast.errors import Refused
from holdfast.state.files import read_json, write_json

__all__ = ["JobFiles", "Outcome", "Revisions", "snapshot_uri_of", "state_dir_of"]

_VERSION = 1


class Outcome(StrEnum):
    """pending -> deployed -> superseded, or pending -> failed."""

    PENDING = "pending"
    DEPLOYED = "deployed"
    SUPERSEDED = "superseded"
    FAILED = "failed"


@dataclass(frozen=True)
class JobFiles:
    """Everything that a driver is started with.

    Attributes:
        sql: the statements.
        config: text of the YAML file of properties, empty without one; it may hold passwords.
        overrides: `key=value`, in order.
        folder: the folder of the command; relative paths in properties start there.
        state_dir: the folder of the job's stores.
        servers: number of query servers beside it.
        snapshot_uri: the job's `snapshot.uri`; empty also in revisions of earlier versions.
    """

    application_id: str
    sql: str
    config: str = field(repr=False)
    overrides: tuple[str, ...]
    folder: str
    state_dir: str
    servers: int = 0
    snapshot_uri: str = ""


@dataclass(frozen=True)
class _Index:
    current: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)


class Revisions:
    """Owns the revisions: which there are, their outcomes, and the current one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "deployment.json"

    @property
    def current(self) -> int:
        """The current revision, 0 without one."""
        return self._read().current

    def outcome(self, revision: int) -> Outcome | None:
        found = self._read().outcomes.get(str(revision))
        return Outcome(found) if found else None

    def add(self, files: JobFiles) -> int:
        """Stores a new revision, still pending; returns its number."""
        index = self._read()
        revision = max((int(n) for n in index.outcomes), default=0) + 1
        # An older pending revision belongs to a command that was killed.
        known = {
            n: Outcome.FAILED if o == Outcome.PENDING else o for n, o in index.outcomes.items()
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        for old in self._folder.glob("revision-*"):
            old.chmod(0o600)  # an older version made it readable for everybody
        write_json(self._path(revision), _VERSION, asdict(files), private=True)
        self._write(index.current, known | {str(revision): Outcome.PENDING})
        return revision

    def files(self, revision: int) -> JobFiles:
        """The files of a revision.

        Raises:
            Refused: the revision is missing.
        """
        found = read_json(self._path(revision))
        if found is None or found.pop("version", None) != _VERSION:
            raise Refused(
                f"Revision {revision} in {self._folder} cannot be read.",
                cause="its file was deleted, or a newer Holdfast wrote it",
                action="deploy the statements again",
            )
        return JobFiles(**{**found, "overrides": tuple(found["overrides"])})

    def deployed(self, revision: int) -> None:
        """Marks the revision as current and the one before as superseded."""
        index = self._read()
        outcomes = {
            n: Outcome.SUPERSEDED if o == Outcome.DEPLOYED else o for n, o in index.outcomes.items()
        }
        self._write(revision, outcomes | {str(revision): Outcome.DEPLOYED})

    def failed(self, revision: int) -> None:
        index = self._read()
        self._write(index.current, index.outcomes | {str(revision): Outcome.FAILED})

    def previous(self) -> int:
        """The newest superseded revision before the current one, 0 without one."""
        index = self._read()
        good = [int(n) for n, o in index.outcomes.items() if o == Outcome.SUPERSEDED]
        return max((n for n in good if n < index.current), default=0)

    def pending(self) -> int:
        """The revision of a `deploy` that did not finish, 0 without one."""
        found = [int(n) for n, o in self._read().outcomes.items() if o == Outcome.PENDING]
        return max(found, default=0)

    def forget(self) -> None:
        """Removes all revisions."""
        for file in (self._file, *self._folder.glob("revision-*.*")):
            file.unlink(missing_ok=True)

    def _path(self, revision: int) -> Path:
        return self._folder / f"revision-{revision}.json"

    def _read(self) -> _Index:
        found = read_json(self._file)
        if found is None:
            return _Index()
        return _Index(int(found["current"]), dict(found["outcomes"]))

    def _write(self, current: int, outcomes: dict[str, str]) -> None:
        index = _Index(current, {n: str(o) for n, o in outcomes.items()})
        write_json(self._file, _VERSION, asdict(index))


def state_dir_of(home: Path, name: str) -> Path:
    """The folder of the stores of the deployment `name`.

    Raises:
        Refused: it is not deployed.
    """
    revisions = Revisions(home / "deploy" / name)
    if not revisions.current:
        raise Refused(
            f"There is no deployment {name} in {home}.",
            action="deploy it first (`holdfast deploy`); --home names another folder",
        )
    return Path(revisions.files(revisions.current).state_dir)


def snapshot_uri_of(home: Path, name: str) -> str:
    """The `snapshot.uri` of the deployment `name`; empty if it has none, or is not deployed."""
    revisions = Revisions(home / "deploy" / name)
    return revisions.files(revisions.current).snapshot_uri if revisions.current else ""
