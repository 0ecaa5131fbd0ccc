"""Answers SELECT in a session: by a query server that is there, or by one of the session's own."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from holdfast.cli.servers.near import near, tables_of
from holdfast.cli.shell.results import show_lines, show_table, told_waiting
from holdfast.config.commands import HOLDFAST, module_command
from holdfast.errors import HoldfastError, InvalidStatement, Refused
from holdfast.local.probe import HOST, free_port
from holdfast.sql.parse.statements import SelectQuery
from holdfast.types.words import nearest

__all__ = ["Answers", "Served"]

_START_S = 120.0
_POLL_S = 0.3
_STOP_S = 30.0
_SCAN = "ksql.query.pull.table.scan.enabled"


@dataclass(frozen=True)
class Served:
    """The needs of a session's own server.

    Attributes:
        home: the job's; the server's files are in a folder of it.
        options: of the session's command, as `holdfast serve` takes them.
        servers: addresses that the user gave; with any, no server is started.
        token: for these.
    """

    home: Path
    options: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    token: str = ""


class Answers:
    """Owns the session's own server, which starts at the first SELECT that needs it.

    Args:
        script: the session's statements, as a file of them.
        names: the script's streams and tables.
        job: the application id of the job that runs a query of the script.
    """

    def __init__(
        self,
        served: Served,
        script: Callable[[], str],
        names: Callable[[], Collection[str]],
        job: Callable[[], str],
    ) -> None:
        self._served = served
        self._script = script
        self._names = names
        self._job = job
        self._folder = served.home / "sql"
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    def select(self, query: SelectQuery, properties: Mapping[str, str]) -> None:
        """Show the rows of a query; those of a push query until its LIMIT or Ctrl-C.

        Raises:
            HoldfastError: no server answers, or the query is refused.
        """
        from holdfast.client import Client

        servers = self._served.servers or (self._server_of(query.select.source.text),)
        given = {_SCAN: "true"} | dict(properties)
        with Client(servers, token=self._served.token, retry_s=10.0) as client:
            if not query.select.changes:
                show_table(client, query.text, given)
                return
            click.echo(told_waiting(given), err=True)
            show_lines(client.changes(query.text, properties=given))

    def close(self) -> None:
        """End the session's own server; its stores are copies, and are removed."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process = None
        shutil.rmtree(self._own_folder, ignore_errors=True)

    def _server_of(self, table: str) -> str:
        """The address of a server of this table."""
        if self._process is None:
            for url in near(self._served.home):
                if table in tables_of(url):
                    return url
        self._check(table)
        if self._process is None:
            self._start()
        self._await(table)
        return self._url

    def _check(self, table: str) -> None:
        """Refuse a table for which a server of the session's script would wait in vain."""
        names = self._names()
        if names and table not in names:
            like = nearest(table, names)
            raise InvalidStatement(
                f"{table} does not exist.",
                cause="neither the session's statements have it, nor a query server that answers",
                action=f"did you mean {like}?" if like else "`SHOW TABLES;` lists what does",
            )

    @property
    def _own_folder(self) -> Path:
        return self._folder / self._url.rpartition(":")[2]

    def _start(self) -> None:
        script = self._script()
        if not script:
            raise Refused(
                "No query server answers for this table, and the session has no statements.",
                action="begin with the job's file, `holdfast sql FILE.sql`, and a server of it is "
                "started; or name one: --server URL",
            )
        self._url = f"http://{HOST}:{free_port()}"
        self._own_folder.mkdir(parents=True)
        self._write(script)
        command = module_command(HOLDFAST, "serve", str(self._file))
        command += ["--listen", self._url.removeprefix("http://")]
        command += ["--home", str(self._served.home), *self._served.options]
        command += ["--set", f"application.id={self._job()}"]
        command += ["--set", f"serve.dir={self._own_folder / 'stores'}"]
        click.echo(f"Starting a query server for this session; its log: {self._log}", err=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def _file(self) -> Path:
        return self._own_folder / "session.sql"

    @property
    def _log(self) -> Path:
        return self._own_folder / "serve.log"

    def _write(self, script: str) -> None:
        """Give the server the statements; it reads them again when they change."""
        if not self._file.exists() or self._file.read_text(encoding="utf-8") != script:
            self._file.write_text(script, encoding="utf-8")

    def _await(self, table: str) -> None:
        self._write(self._script())
        deadline = time.monotonic() + _START_S
        assert self._process is not None
        while table not in tables_of(self._url, ready=True):
            if self._process.poll() is not None or time.monotonic() > deadline:
                last = self._log.read_text(encoding="utf-8", errors="replace")[-1_000:]
                self.close()
                raise HoldfastError(
                    f"The session's query server does not serve {table}.",
                    cause="its topic is not there: the job that writes it has never run, or has "
                    f"another application.id than {self._job()}. The server said last:\n{last}",
                    action="run the job first (`holdfast run`, `holdfast deploy`), or name it: "
                    "--set application.id=NAME",
                )
            time.sleep(_POLL_S)
