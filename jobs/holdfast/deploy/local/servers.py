"""Query servers beside a local deployment: each is supervised like the driver.

`<home>/deploy/<name>/servers.json` holds their revision and addresses; `server-<number>` beside it
holds the record of each one's supervisor.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.config.commands import HOLDFAST, module_command
from holdfast.deploy.deployment import fetch_status
from holdfast.deploy.local.processes import Member
from holdfast.deploy.local.revisions import Revisions
from holdfast.deploy.local.supervised import Supervised
from holdfast.errors import HoldfastError
from holdfast.local.probe import HOST, free_ports
from holdfast.state.files import read_json, write_json
from holdfast.types.components import SERVER
from holdfast.types.words import counted

__all__ = ["COPIES", "LocalServers"]

COPIES = 2
"""The number of servers that hold each state partition, if there are as many."""

_VERSION = 2
_POLL_S = 0.2


class LocalServers:
    """Owns the servers of one deployment, and their copies in the folder `serve` beside its files.

    Args:
        home: the job's home.
        name: the deployment's name.
    """

    def __init__(self, home: Path, name: str) -> None:
        self._home = home.absolute()
        self._folder = self._home / "deploy" / name
        self._file = self._folder / "servers.json"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses by number; empty without servers."""
        return tuple(self._record().get("addresses", ()))

    @property
    def revision(self) -> int:
        """The revision that they serve; 0 without servers."""
        return int(self._record().get("revision", 0))

    def begin(self, revision: int, count: int) -> None:
        """Starts `count` servers for a revision.

        They replace the earlier ones, on the same addresses if there are as many.
        """
        addresses = self.addresses
        self.end(delete_stores=False)
        if len(addresses) != count:
            addresses = tuple(f"http://{HOST}:{port}" for port in free_ports(count))
        record = {"revision": revision, "addresses": addresses}
        write_json(self._file, _VERSION, record)
        folder = Revisions(self._folder).files(revision).folder
        for number, server in enumerate(self._all()):
            server.start(revision, self._command(number), folder)

    def await_ready(self, timeout_s: float, tell: Callable[[str], None]) -> None:
        """Returns when all servers have restored what they hold.

        Raises:
            HoldfastError: not in time, or one of them was refused.
        """
        tell(f"waiting for {counted(len(self.addresses), 'query server')}")
        deadline = time.monotonic() + timeout_s
        while not self.ready():
            records = (server.record for server in self._all())
            if why := next((r.reason for r in records if r and r.state == "refused"), ""):
                raise HoldfastError(f"A query server was refused: {why}")
            if time.monotonic() >= deadline:
                raise HoldfastError(
                    f"The query servers are not ready after {timeout_s:.0f} s.",
                    action=f"read {self._folder}/server-*.log.",
                )
            time.sleep(_POLL_S)

    def members(self) -> list[Member]:
        """The living servers, by number."""
        pids = enumerate(server.pid for server in self._all())
        return [Member(SERVER, f"server {number}", pid) for number, pid in pids if pid]

    def ready(self) -> bool:
        """Whether every server answers and has restored what it holds."""
        told = [fetch_status(f"{address}/healthcheck", timeout_s=2.0) for address in self.addresses]
        return all(one is not None and one.get("serverState") == "READY" for one in told)

    def told(self) -> list[dict[str, object]]:
        """Each server's address, process (0: none), number of restarts, and the reason for them."""
        return [
            {
                "url": url,
                "running": bool(server.pid),
                "pid": server.pid,
                "restarts": max(0, record.starts - 1) if record is not None else 0,
                "reason": record.reason if record is not None else "",
            }
            for url, server in zip(self.addresses, self._all(), strict=True)
            for record in (server.record,)
        ]

    def end(self, *, delete_stores: bool = True) -> None:
        """Ends the servers; their stores are copies and can be restored."""
        for server in self._all():
            server.stop()
            server.forget()
        self._file.unlink(missing_ok=True)
        if delete_stores:
            shutil.rmtree(self._folder / "serve", ignore_errors=True)

    def _all(self) -> list[Supervised]:
        names = (f"server-{number}" for number in range(len(self.addresses)))
        return [Supervised(self._folder / name, self._folder / f"{name}.log") for name in names]

    def _command(self, number: int) -> list[str]:
        revision = self.revision
        files = Revisions(self._folder).files(revision)
        command = module_command(HOLDFAST, "serve")
        command += [str(self._folder / f"revision-{revision}.sql"), "--home", str(self._home)]
        if files.config:
            command += ["--config", str(self._folder / f"revision-{revision}.yaml")]
        command += [part for text in files.overrides for part in ("--set", text)]
        command += ["--set", f"serve.dir={self._folder / 'serve'}"]
        command += ["--servers", str(len(self.addresses)), "--server-id", str(number)]
        command += ["--listen", self.addresses[number].removeprefix("http://")]
        return [*command, "--copies", str(COPIES), "--peers", ",".join(self.addresses)]

    def _record(self) -> dict[str, Any]:
        found = read_json(self._file)
        return found if found is not None and found.get("version") == _VERSION else {}
