"""Query servers beside a local deployment: processes and their record.

`<home>/deploy/<name>/servers.json` says of which revision they are, where each listens and which
process it is, so that any process can find, end and start them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
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
    """Owns the servers of one deployment, and their copies in the folder `serve` beside its files.

    Args:
        home: of the job.
        name: of its deployment.
    """

    def __init__(self, home: Path, name: str) -> None:
        self._home = home.absolute()
        self._folder = self._home / "deploy" / name
        self._file = self._folder / "servers.json"

    @property
    def addresses(self) -> tuple[str, ...]:
        """By number; empty when there are none."""
        return tuple(self._record().get("addresses", ()))

    @property
    def revision(self) -> int:
        """The one that they serve; 0 when there are none."""
        return int(self._record().get("revision", 0))

    def begin(self, revision: int, count: int) -> None:
        """Starts so many for a revision, each state partition on two of them.

        They take the place of those before, on the same addresses if they are as many.
        """
        addresses = self.addresses
        self.end(delete_stores=False)
        if len(addresses) != count:
            addresses = tuple(f"http://{HOST}:{free_port()}" for _ in range(count))
        self._write({"revision": revision, "addresses": addresses, "pids": [""] * count})
        self.start_missing()

    def await_ready(self, timeout_s: float, tell: Callable[[str], None]) -> None:
        """Returns when all have restored what they hold.

        Raises:
            HoldfastError: not in time.
        """
        tell(f"waiting for {len(self.addresses)} query servers")
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
            self._write(record)
        return [f"server {number}" for number in missing]

    def ready(self) -> bool:
        """Does every one answer, and has it restored what it holds?"""
        told = [fetch_status(f"{address}/healthcheck", timeout_s=2.0) for address in self.addresses]
        return all(one is not None and bool(one.get("isHealthy")) for one in told)

    def told(self) -> list[dict[str, object]]:
        """Each one's address, and whether it runs."""
        alive = {member.name for member in self.members()}
        numbered = enumerate(self.addresses)
        return [{"url": url, "running": f"server {number}" in alive} for number, url in numbered]

    def end(self, *, delete_stores: bool = True) -> None:
        """Ends them; their stores are copies and can be restored."""
        for member in self.members():
            created = float(identity_of(member.pid).partition("@")[2] or 0)
            end_process(member.pid, created, _STOP_S)
        self._file.unlink(missing_ok=True)
        if delete_stores:
            shutil.rmtree(self._folder / "serve", ignore_errors=True)

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
        identity = identity_of(process.pid)
        # What is killed is to be gone, and not a zombie for as long as this process lives.
        threading.Thread(target=process.wait, name=f"server {number}", daemon=True).start()
        return identity

    def _command(self, number: int) -> list[str]:
        files, revision = self._files, self.revision
        command = [sys.executable, "-m", "holdfast.cli.main", "serve"]
        command += [str(self._folder / f"revision-{revision}.sql"), "--home", str(self._home)]
        if files.config:
            command += ["--config", str(self._folder / f"revision-{revision}.yaml")]
        command += [part for text in files.overrides for part in ("--set", text)]
        command += ["--set", f"serve.dir={self._folder / 'serve'}"]
        command += ["--servers", str(len(self.addresses)), "--server-id", str(number)]
        command += ["--listen", self.addresses[number].removeprefix("http://")]
        return [*command, "--copies", "2", "--peers", ",".join(self.addresses)]

    @property
    def _files(self) -> JobFiles:
        return Revisions(self._folder).files(self.revision)

    def _write(self, record: dict[str, Any]) -> None:
        kept = {name: record[name] for name in ("revision", "addresses", "pids")}
        write_json(self._file, _VERSION, kept)

    def _record(self) -> dict[str, Any]:
        found = read_json(self._file)
        return found if found is not None and found.get("version") == _VERSION else {}


def _pid(identity: str) -> int:
    return int(identity.partition("@")[0])
