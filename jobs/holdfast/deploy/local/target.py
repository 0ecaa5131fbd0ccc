"""Target `local`: a job as a supervised process of this machine, in `<home>/deploy/<name>`.

A new revision replaces the old one: the old driver is stopped and the new one started; if that
does not become ready, the old one is started again.  Query servers beside it answer meanwhile.
"""

from __future__ import annotations

import fcntl
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from holdfast.config.commands import HOLDFAST, module_command
from holdfast.deploy.deployment import (
    Deployment,
    DeploymentState,
    await_ready,
    driver_facts,
    fetch_status,
    refuse_other_revision,
)
from holdfast.deploy.local.revisions import JobFiles, Revisions
from holdfast.deploy.local.servers import LocalServers
from holdfast.deploy.local.supervised import Supervised
from holdfast.deploy.local.supervisor import SupervisorRecord
from holdfast.errors import Refused
from holdfast.local.processes import is_running
from holdfast.state.files import private_file
from holdfast.types.status import JobStatus, status_path

__all__ = ["LocalDeployment", "all_deployments"]

TARGET = "local"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,41}[a-z0-9])?")
_START_S = 10.0
_DEATHS_MAX = 3  # before it was first ready

_Tell = Callable[[str], None]


def all_deployments(home: Path) -> list[Deployment]:
    """Every local deployment of a home, by name."""
    folders = sorted((home / "deploy").glob("*/deployment.json"))
    return [LocalDeployment(home, file.parent.name).status() for file in folders]


class LocalDeployment:
    """Owns one deployment's folder.  Every method may be called from any process.

    Args:
        home: the job's home, which holds its local files.
        name: lower-case letters, digits and dashes, as a Helm release.
    """

    def __init__(self, home: Path, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise Refused(
                f"{name!r} is no name of a deployment.",
                action="take at most 43 lower-case letters, digits and dashes, as for a Helm "
                "release, beginning and ending with a letter or digit",
            )
        self._home = home.absolute()
        self._name = name
        self._folder = self._home / "deploy" / name
        self._revisions = Revisions(self._folder)
        self._servers = LocalServers(self._home, name)
        self.log = self._folder / "driver.log"
        self._process = Supervised(self._folder, self.log)

    # -- reading -----------------------------------------------------------------------------

    def status(self) -> Deployment:
        """The present state of the deployment."""
        record = self._process.record
        # A first revision under deployment counts already: it may be refused, or die.
        revision = self._revisions.current or self._revisions.pending()
        if not revision and not self._process.runs:
            last = f"; the last attempt: {record.reason}" if record and record.reason else ""
            return Deployment(self._name, TARGET, reason=f"it is not deployed{last}")
        return self._seen(record, revision)

    def _seen(self, record: SupervisorRecord | None, revision: int) -> Deployment:
        found = Deployment(self._name, TARGET, revision, DeploymentState.STARTING)
        if record is None:
            stopped = DeploymentState.STOPPED
            return replace(found, state=stopped, reason="nothing has run it yet")
        found = replace(found, revision=record.revision, details=self._details(record))
        if record.state == "refused":
            return replace(found, state=DeploymentState.REFUSED, reason=record.reason)
        if not self._process.runs:
            reason = record.reason or "its supervisor does not run; deploy it again"
            return replace(found, state=DeploymentState.STOPPED, reason=reason)
        if record.state != "running" or not self._process.pid:
            return replace(found, state=DeploymentState.RESTARTING, reason=record.reason)
        status = self._driver_status(record)
        url = status.metrics_url if status is not None else ""
        told = fetch_status(url.removesuffix("metrics") + "status") if url else None
        found = replace(found, metrics_url=url, **driver_facts(told))
        if not found.ready and record.reason and record.starts > 1:
            return replace(found, reason=f"{found.reason} (before that, {record.reason})")
        return found

    def _details(self, record: SupervisorRecord) -> dict[str, object]:
        files = self._revisions.files(record.revision)
        return {
            "application_id": files.application_id,
            "supervisor_pid": record.pid,
            "driver_pid": record.driver_pid,
            "starts": record.starts,
            "last_end": record.reason if record.starts > 1 else "",
            "log": str(self.log),
            "servers": self._servers.told(),
        }

    def _driver_status(self, record: SupervisorRecord) -> JobStatus | None:
        """The status that the present driver wrote; its predecessor's file does not count."""
        application_id = self._revisions.files(record.revision).application_id
        status = JobStatus.read(status_path(self._home, application_id))
        return status if status is not None and status.pid == record.driver_pid else None

    # -- changing ----------------------------------------------------------------------------

    def deploy(
        self,
        files: JobFiles,
        timeout_s: float,
        tell: _Tell,
        *,
        wait: bool,
        take_over: bool = False,
    ) -> Deployment:
        """Deploys a new revision; on failure the previous one runs again.

        Args:
            take_over: end a driver that runs the job elsewhere, rather than be refused.

        Raises:
            Refused: the job was refused, or another deployment runs it.
            HoldfastError: it did not become ready.
        """
        with self._locked():
            self._refuse_other(files.application_id)
            extra = ("--take-over",) if take_over else ()
            revision = self._revisions.add(files)
            return self._replace(revision, timeout_s, tell, extra, wait=wait)

    def rollback(
        self, timeout_s: float, tell: _Tell, *, only_from: int | None = None
    ) -> Deployment:
        """Deploys the previous revision as a new one; without one, undeploys the job.

        Args:
            only_from: the revision to be undone; None for whichever is present.

        Raises:
            Refused: it is not deployed, or another revision is present.
            HoldfastError: the previous revision did not become ready either.
        """
        self._need()
        with self._locked():
            refuse_other_revision(self._name, self._revisions.current, only_from)
            previous = self._revisions.previous()
            if not previous:
                tell(f"{self._name} has no revision before {self._revisions.current}: undeploying")
                return self._undeploy(delete_state=False)
            tell(f"{self._name}: going back to revision {previous}")
            again = self._revisions.add(self._revisions.files(previous))
            return self._replace(again, timeout_s, tell, wait=True)

    def undeploy(self, *, delete_state: bool) -> Deployment:
        """Stops the job; its topics stay, and so do its stores unless `delete_state`.

        Raises:
            Refused: it is not deployed.
        """
        self._need()
        with self._locked():
            return self._undeploy(delete_state=delete_state)

    def _undeploy(self, *, delete_state: bool) -> Deployment:
        pending = self._revisions.pending()
        files = self._revisions.files(pending or self._revisions.current)
        if pending:
            self._process.await_record(_START_S)
        self._servers.end(delete_stores=delete_state)
        self._process.stop()
        self._process.forget()
        self._revisions.forget()
        if delete_state:
            shutil.rmtree(self._home / "run" / files.application_id, ignore_errors=True)
            for volume in Path(files.state_dir).glob("*/stores"):
                shutil.rmtree(volume / files.application_id, ignore_errors=True)
        return self.status()

    def _replace(
        self,
        revision: int,
        timeout_s: float,
        tell: _Tell,
        extra: Sequence[str] = (),
        *,
        wait: bool,
    ) -> Deployment:
        before = self._revisions.current
        try:
            self._process.stop()
            self._start(revision, extra)
            if wait:
                await_ready(self.status, timeout_s, tell, _gave_up)
            self._serve(revision)
            if wait and self._servers.addresses:
                self._servers.await_ready(timeout_s, tell)
        except BaseException:  # also on Ctrl-C: the previous revision runs again
            self._revisions.failed(revision)
            self._process.stop()
            if before:
                tell(f"{self._name}: revision {revision} failed, going back to {before}")
                self._start(before)
            self._serve(before)
            raise
        self._revisions.deployed(revision)
        return self.status()

    def _serve(self, revision: int) -> None:
        """Replaces the query servers by those of a revision; none for 0."""
        count = self._revisions.files(revision).servers if revision else 0
        if not count:
            self._servers.end(delete_stores=False)
        elif self._servers.revision != revision:
            self._servers.begin(revision, count)

    def _start(self, revision: int, extra: Sequence[str] = ()) -> None:
        files = self._revisions.files(revision)
        sql = self._folder / f"revision-{revision}.sql"
        sql.write_text(files.sql, encoding="utf-8")
        run = module_command(HOLDFAST, "run", str(sql), "--home", str(self._home))
        if files.config:
            config = self._folder / f"revision-{revision}.yaml"
            with private_file(config) as file:
                file.write(files.config)
            run += ["--config", str(config)]
        run += [part for text in files.overrides for part in ("--set", text)]
        self._process.start(revision, [*run, *extra], files.folder)

    def _refuse_other(self, application_id: str) -> None:
        status = JobStatus.read(status_path(self._home, application_id))
        record = self._process.record
        ours = record is not None and status is not None and status.pid == record.driver_pid
        if status is not None and not ours and is_running(status):
            raise Refused(
                f"The job {application_id} runs already (pid {status.pid}), but not as the "
                f"deployment {self._name}.",
                cause="`holdfast run` or a deployment of another name has started it",
                action="stop it first, or give this one an application.id of its own",
            )

    def _need(self) -> None:
        if self.status().state is DeploymentState.ABSENT and not self._revisions.pending():
            raise Refused(
                f"There is no deployment {self._name} in {self._home}.",
                action="`holdfast status` lists what there is; --home names another folder",
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "change.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as busy:
                raise Refused(
                    f"Another command changes the deployment {self._name} right now.",
                    action="wait until it has ended",
                ) from busy
            yield


def _gave_up(seen: Deployment) -> bool:
    if seen.state is DeploymentState.STOPPED and seen.details:
        return True  # its supervisor has ended, and nothing restarts it
    starts = seen.details.get("starts", 0)
    died = seen.state is DeploymentState.RESTARTING
    return died and isinstance(starts, int) and starts >= _DEATHS_MAX
