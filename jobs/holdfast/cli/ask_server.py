"""Asks a query server for a row of each of its tables: does serving work, end to end?"""

from __future__ import annotations

import ssl
from pathlib import Path

from holdfast.client import Client

__all__ = ["ask_tables"]

_SCAN = {"ksql.query.pull.table.scan.enabled": True}
_RETRY_S = 30.0  # a server that was just started restores first


def ask_tables(server: str, token: str, ca: Path | None) -> dict[str, int]:
    """Rows found of each table, at most one, by a pull query each.

    Raises:
        NotAllowed: the server wants a token, or another one.
        Retriable: it does not answer.
    """
    verify = ssl.create_default_context(cafile=ca) if ca is not None else True
    with Client(server, token=token, verify=verify, retry_s=_RETRY_S) as client:
        names = [table["name"] for table in client.tables()]
        return {name: len(client.query(_one_row(name), properties=_SCAN)) for name in names}


def _one_row(table: str) -> str:
    quoted = table.replace("`", "``")
    return f"SELECT * FROM `{quoted}` LIMIT 1;"
