"""Query servers that may be on this machine: the deployments', and one at the usual address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["USUAL", "near", "server_for", "tables_of"]

_READ = re.compile(r"""\b(?:FROM|JOIN)\s+[`"]?(\w+)""")  # a column may be called as a table is

USUAL = "http://127.0.0.1:8088"
"""The address at which `holdfast serve` answers."""


def near(home: Path) -> Sequence[str]:
    """The addresses of servers that may be there; the usual one is the last."""
    from holdfast.deploy.local.target import all_deployments

    told = [deployed.details.get("servers", ()) for deployed in all_deployments(home)]
    return [*(str(server["url"]) for of in told for server in of), USUAL]


def server_for(sql: str, there: Sequence[str]) -> str:
    """The first address whose server reads a table or stream of the statement.

    Without any it is the first one: its server tells why, or that it is not there.
    """
    read = set(_READ.findall(sql.upper()))
    for url in there:
        if read & {name.upper() for name in tables_of(url)}:
            return url
    return there[0]


def tables_of(url: str, *, ready: bool = False) -> set[str]:
    """The tables and streams that a server reads; none if it does not answer.

    Args:
        ready: only if it has restored its stores.
    """
    import httpx

    with suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
        health = httpx.get(f"{url}/healthcheck", trust_env=False, timeout=2.0)
        if ready and health.status_code != httpx.codes.OK:
            return set()
        told = httpx.get(f"{url}/v1/tables", trust_env=False, timeout=2.0).json()
        streams = (u["name"] for u in told["unserved"] if u["kind"] == "STREAM")
        return {*(table["name"] for table in told["tables"]), *streams}
    return set()
