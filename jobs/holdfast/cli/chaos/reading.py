"""The query servers that a run's sessions read from, and access to them."""

from __future__ import annotations

import functools
import os
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.chaos.faults.target import QueryServers
from holdfast.errors import Refused, Retriable

if TYPE_CHECKING:
    from holdfast.chaos.faults.target import Target
    from holdfast.chaos.reads.sessions import Access
    from holdfast.cli.chaos.options import PlanOptions
    from holdfast.types.statements.topology import Topology

__all__ = ["NOBODY", "access_options", "read_servers", "refuse_unread"]

NOBODY = "none"  # --ask none
_TOKEN = "HOLDFAST_CLI_SERVER_TOKEN"  # noqa: S105 - the variable's name, as for `holdfast smoke`
_SERVED_S, _POLL_S = 30.0, 0.2
_ACTION = (
    f"see --token-file (or the variable {_TOKEN}) and --server-ca; --ask names other servers, "
    f"and --ask {NOBODY} reads from none"
)

_R = TypeVar("_R")


def access_options(function: Callable[..., _R]) -> Callable[..., _R]:
    """Adds --token-file and --server-ca to a command, as `access`."""

    @functools.wraps(function)
    def command(token_file: Path | None, server_ca: Path | None, **given: Any) -> _R:
        from holdfast.chaos.reads.sessions import Access

        text = token_file.read_text(encoding="utf-8") if token_file else os.environ.get(_TOKEN, "")
        verify = ssl.create_default_context(cafile=server_ca) if server_ca is not None else True
        return function(access=Access(text.strip(), verify), **given)

    file = click.Path(path_type=Path, exists=True, dir_okay=False)
    token = click.option(
        "--token-file",
        type=file,
        envvar="HOLDFAST_CLI_TOKEN_FILE",
        help=f"A file with the query servers' token.  [default: what {_TOKEN} says]",
    )
    ca = click.option(
        "--server-ca", type=file, help="CA certificates for the servers' certificates."
    )
    return token(ca(command))


def read_servers(plan: PlanOptions, target: Target, *, own: bool) -> QueryServers:
    """The named servers, else the job's own; none with `--ask none`.

    Raises:
        Refused: servers should be started beside an existing job.
    """
    if plan.servers and not own:
        raise Refused(
            "--servers starts query servers beside a job of the run's own.",
            action="add --own, or name the existing servers (--ask URL,URL)",
        )
    if plan.ask == (NOBODY,):
        return QueryServers()
    return QueryServers(plan.ask) if plan.ask else target.query_servers()


def refuse_unread(servers: Sequence[str], topology: Topology, access: Access) -> None:
    """Check that every server admits the sessions and has the tables that they read.

    Raises:
        Refused: one does not.
    """
    from holdfast.chaos.reads.table_rows import asked_tables

    wanted = set(asked_tables(topology).tables)
    for server in servers:
        try:
            missing = _missing(server, wanted, access)
        except (Refused, Retriable) as error:
            fact, _, _ = error.fact.partition("\n")  # a server's own advice is for other callers
            raise Refused(
                f"The query server {server} cannot be read from: {fact}",
                cause=error.cause,
                action=_ACTION,
            ) from error
        if missing:
            raise Refused(
                f"The query server {server} shows no {', no '.join(sorted(missing))}.",
                cause="it serves another job, or the token may not read them",
                action=_ACTION,
            )


def _missing(server: str, wanted: set[str], access: Access) -> set[str]:
    """The wanted tables that a server does not show; a new server gets some time."""
    deadline = time.monotonic() + _SERVED_S
    with access.client([server], retry_s=_SERVED_S) as client:
        while True:
            missing = wanted - {str(table["name"]) for table in client.tables()}
            if not missing or time.monotonic() >= deadline:
                return missing
            time.sleep(_POLL_S)
