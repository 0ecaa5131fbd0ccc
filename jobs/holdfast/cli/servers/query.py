"""`holdfast query`: sends a pull or push query to query servers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from holdfast.cli.servers.near import USUAL, near, server_for
from holdfast.cli.statements.options import home_option, load_settings

__all__ = ["command"]

_SCAN = "ksql.query.pull.table.scan.enabled"


@click.command("query")
@click.argument("sql")
@click.option(
    "--server",
    "servers",
    multiple=True,
    envvar="HOLDFAST_CLI_SERVERS",
    metavar="URL",
    help="Address of a query server; may be repeated: the next is used if one does not answer.  "
    f"[default: of the home's deployments the one with the table, or {USUAL}]",
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
@home_option
@click.option("--json", "as_json", is_flag=True, help="A JSON object per row.")
def command(
    sql: str,
    servers: tuple[str, ...],
    token_file: Path | None,
    ca: str | None,
    properties: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Run SQL, one SELECT; with EMIT CHANGES its rows are shown as they change, until Ctrl-C.

    Without LIMIT the first 1,000 rows are shown; --json gives all of them.
    """
    import ssl

    from holdfast.cli.shell.results import show_lines, show_table, told_waiting
    from holdfast.client import Client

    token = token_file.read_text(encoding="utf-8").strip() if token_file else ""
    verify = ssl.create_default_context(cafile=ca) if ca else True
    servers = servers or (server_for(sql, near(Path(load_settings(None, (), home).home))),)
    given = {_SCAN: "true"} | dict(_pair(text) for text in properties)
    with Client(servers, token=token, verify=verify, retry_s=5.0) as client:
        if "EMIT" in sql.upper().split():
            click.echo(told_waiting(given), err=True)
            with suppress(KeyboardInterrupt):
                show_lines(client.changes(sql, properties=given))
        elif as_json:
            with suppress(KeyboardInterrupt):
                show_lines(client.query(sql, properties=given))
        else:
            show_table(client, sql, given)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text} is not NAME=VALUE.")
    return name.strip(), value.strip()
