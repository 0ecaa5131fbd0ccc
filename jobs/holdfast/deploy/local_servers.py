"""Query servers beside a local deployment, for those who break them: processes and their record.

`<home>/deploy/<name>/servers.json` says where each listens and which process it is, so that any
process can find, end and start them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.chaos.faults import SERVER
from holdfast.deploy.deployment import fetch_status
from holdfast.deploy.local_processes import Member, identity_of
from holdfast.deploy.revisions import JobFiles, Revisions
from holdfast.errors import HoldfastError
from holdfast.local.probe import HOST, free_port
from holdfast.local.processes import end_process
from holdfast.state.files import read_json, write_json

__all__ = ["LocalServers"]

_VERSION = 1
_STOP_S = 20.0
_POLL_S = 0.2


class LocalServers:
    """Owns the servers of one deployment, and their stores below `<home>/serve`.

    Args:
        home: of the job.
        name: of its deployment, which must be there before servers begin.
    """

    def __init__(self, home: Path, name: str) -> None:
        self._home = home.absolute()
        self._folder = self._home / "deploy" / name
        self._file = self._folder / "servers.json"
        self._started: list[subprocess.Popen[bytes]] = []  # held, or they are told to be lost

    @property
    def addresses(self) -> tuple[str, ...]:
        """By number; empty when there are none."""
        return tuple(self._record().get("addresses", ()))

    def begin(self, count: int, timeout_s: float, tell: Callable[[str], None]) -> None:
        """Starts so many, each state partition on two of them, and waits until all are ready.

        Raises:
            HoldfastError: they are not ready in time.
        """
        self.end()
        addresses = [f"http://{HOST}:{free_port()}" for _ in range(count)]
        write_json(self._file, _VERSION, {"addresses": addresses, "pids": [""] * count})
        self.start_missing()
        tell(f"waiting for {count} query servers")
        deadline = time.monotonic() + timeout_s
        while not self.ready():
            if time.monotonic() >= deadline:
                raise HoldfastError(
                    f"The query servers are not ready after {timeout_s:.0f} s.",
                    action=f"read {self._folder}/server-*.log.",
                )
            time.sleep(_POLL_S)

    def members(self) -> list[Member]:
        """Those that live, by number."""
        found = enumerate(self._record().get("pids", ()))
        return [
            Member(SERVER, f"server {number}", _pid(identity))
            for number, identity in found
            if identity and identity_of(_pid(identity)) == identity
        ]

    def start_missing(self) -> list[str]:
        """Starts those that do not live; their names."""
        alive = {member.name for member in self.members()}
        missing = [n for n in range(len(self.addresses)) if f"server {n}" not in alive]
        record = self._record()
        for number in missing:
            record["pids"][number] = self._start(number)
        if missing:
            write_json(self._file, _VERSION, {k: record[k] for k in ("addresses", "pids")})
        return [f"server {number}" for number in missing]

    def ready(self) -> bool:
        """Does every one answer, and has it restored what it holds?"""
        told = [fetch_status(f"{address}/healthcheck", timeout_s=2.0) for address in self.addresses]
        return all(one is not None and bool(one.get("isHealthy")) for one in told)

    def end(self) -> None:
        """Ends them and removes their stores."""
        for member in self.members():
            created = float(identity_of(member.pid).partition("@")[2] or 0)
            end_process(member.pid, created, _STOP_S)
        for number in range(len(self.addresses)):
            shutil.rmtree(self._home / "serve" / str(number), ignore_errors=True)
        for process in self._started:
            process.wait(_STOP_S)
        self._started.clear()
        self._file.unlink(missing_ok=True)

    def _start(self, number: int) -> str:
        """The identity of the process."""
        with (self._folder / f"server-{number}.log").open("ab") as log:
            process = subprocess.Popen(
                self._command(number),
                cwd=self._files.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        return identity_of(process.pid)

    def _command(self, number: int) -> list[str]:
        files, current = self._files, Revisions(self._folder).current
        command = [sys.executable, "-m", "holdfast.cli.main", "serve"]
        command += [str(self._folder / f"revision-{current}.sql"), "--home", str(self._home)]
        if files.config:
            command += ["--config", str(self._folder / f"revision-{current}.yaml")]
        command += [part for text in files.overrides for part in ("--set", text)]
        command += ["--servers", str(len(self.addresses)), "--server-id", str(number)]
        command += ["--listen", self.addresses[number].removeprefix("http://")]
        return [*command, "--copies", "2", "--peers", ",".join(self.addresses)]

    @property
    def _files(self) -> JobFiles:
        revisions = Revisions(self._folder)
        return revisions.files(revisions.current)

    def _record(self) -> dict[str, Any]:
        found = read_json(self._file)
        return found if found is not None and found.get("version") == _VERSION else {}


def _pid(identity: str) -> int:
    return int(identity.partition("@")[0])
