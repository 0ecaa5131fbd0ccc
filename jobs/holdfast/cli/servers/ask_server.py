"""Shared by commands that query servers: their options, and reading a row of each table."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from holdfast.client import Client

__all__ = ["ask_tables", "connected", "server_options"]

_F = TypeVar("_F", bound=Callable[..., object])
_SCAN = {"ksql.query.pull.table.scan.enabled": True}
_RETRY_S = 30.0  # a new server restores its stores first


def server_options(text: str) -> Callable[[_F], _F]:
    """Adds --server, with this help, --server-token and --server-ca to a command."""

    def added(function: _F) -> _F:
        for option in (
            click.option(
                "--server-ca",
                type=click.Path(path_type=Path),
                help="CA certificates for the server's certificate.",
            ),
            click.option(
                "--server-token",
                envvar="HOLDFAST_CLI_SERVER_TOKEN",
                default="",
                help="Its token.",
            ),
            click.option("--server", metavar="URL", help=text),
        ):
            function = option(function)
        return function

    return added


def connected(servers: str | Sequence[str], token: str, ca: Path | None) -> Client:
    """A client of query servers; the caller closes it."""
    verify = ssl.create_default_context(cafile=ca) if ca is not None else True
    return Client(servers, token=token, verify=verify, retry_s=_RETRY_S)


def ask_tables(server: str, token: str, ca: Path | None) -> dict[str, int]:
    """The number of rows found in each table, at most one, by a pull query for each.

    Raises:
        NotAllowed: the token is missing or not accepted.
        Retriable: the server does not answer.
    """
    with connected(server, token, ca) as client:
        names = [table["name"] for table in client.tables()]
        return {name: len(client.query(_one_row(name), properties=_SCAN)) for name in names}


def _one_row(table: str) -> str:
    quoted = table.replace("`", "``")
    return f"SELECT * FROM `{quoted}` LIMIT 1;"
