"""`holdfast query`: sends a pull or push query to query servers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.types.freshness import heard_ms, silent_s

if TYPE_CHECKING:
    from holdfast.client import Partition, Result, Row

__all__ = ["command"]

_RESET = "auto.offset.reset"


@click.command("query")
@click.argument("sql")
@click.option(
    "--server",
    "servers",
    multiple=True,
    default=("http://127.0.0.1:8088",),
    show_default=True,
    envvar="HOLDFAST_CLI_SERVERS",
    metavar="URL",
    help="Address of a query server; may be repeated: the next is used if one does not answer.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    envvar="HOLDFAST_CLI_TOKEN_FILE",
    help="A file with the token of `holdfast token`.",
)
@click.option(
    "--ca", type=click.Path(exists=True), help="CA certificates for the servers' certificates."
)
@click.option(
    "--set", "properties", multiple=True, metavar="NAME=VALUE",
    help="A property of the query, such as auto.offset.reset=earliest.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="A JSON object per row.")
def command(
    sql: str,
    servers: tuple[str, ...],
    token_file: Path | None,
    ca: str | None,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run SQL, one SELECT; with EMIT CHANGES its rows are shown as they change, until Ctrl-C."""
    import ssl

    from holdfast.client import Client

    token = token_file.read_text(encoding="utf-8").strip() if token_file else ""
    verify = ssl.create_default_context(cafile=ca) if ca else True
    given = dict(_pair(text) for text in properties)
    with Client(servers, token=token, verify=verify, retry_s=5.0) as client:
        if "EMIT" in sql.upper().split():
            _tell_waiting(given)
            _show_lines(client.changes(sql, properties=given))
        elif as_json:
            _show_lines(client.query(sql, properties=given))
        else:
            _show_table(client.query(sql, properties=given))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text} is not NAME=VALUE.")
    return name.strip(), value.strip()


def _tell_waiting(properties: Mapping[str, str]) -> None:
    """Say why nothing may be shown for a while."""
    told = "Waiting for changes; Ctrl-C ends it."
    if properties.get(_RESET) != "earliest":
        told += f" Rows that are there already are left out: --set {_RESET}=earliest shows them."
    click.echo(told, err=True)


def _show_lines(rows: Iterable[Row]) -> None:
    import orjson

    with suppress(KeyboardInterrupt):
        for row in rows:
            told = dict(row) | ({"gone": True} if row.gone else {})
            click.echo(orjson.dumps(told, default=str))


def _show_table(result: Result) -> None:
    from rich.console import Console

    from holdfast.cli.shell.show import grid

    table = grid()
    for name in result.columns:
        table.add_column(name, overflow="fold")
    for row in result:
        table.add_row(*("NULL" if value is None else str(value) for value in row.in_order))
    Console(markup=False, highlight=False).print(table)
    click.echo(f"{len(result):,} rows, {_told_lag(result.partitions.values())}", err=True)


def _told_lag(partitions: Collection[Partition]) -> str:
    """How far the answer lags behind the table, as far as the servers know."""
    behind = f"{sum(p.lag for p in partitions):,} changes behind"
    silent = silent_s(heard_ms(p.checked_ms for p in partitions))
    if not silent:
        return behind
    return (
        f"how far behind is unknown: the servers have heard nothing from Kafka for {silent:,.0f} s "
        f"({behind} then)"
    )
