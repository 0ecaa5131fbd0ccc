"""`holdfast token`: creates a token for a client of query servers."""

from __future__ import annotations

import json
from pathlib import Path

import click

__all__ = ["command"]


@click.command("token")
@click.argument("name")
@click.option(
    "--read",
    multiple=True,
    metavar="PATTERN",
    help="Tables that the client may read, such as 'MOVIE_*'; may be repeated.",
)
@click.option("--peer", is_flag=True, help="The token is for another query server.")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Add the entry to this file, as `holdfast serve --tokens` reads it.",
)
def command(name: str, read: tuple[str, ...], peer: bool, path: Path | None) -> None:
    """Create a token for NAME and print it. Only its SHA-256 is stored, so keep the token.

    Without --file the entry is printed as well, on standard error. Servers read the file again when
    it changes; to revoke a token, delete its entry.
    """
    from holdfast.serve.http.guard.access import Access, new_token, token_hash

    token = new_token()
    fields = {"name": name, "token_sha256": token_hash(token), "read": list(read)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
    entry = "\n".join(["[[client]]", *lines, *(["peer = true"] if peer else []), ""])
    if path is None:
        click.echo(entry, err=True)
    else:
        before = ""
        if path.exists():
            Access(path)  # refuses a malformed file before writing to it
            before = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n"
        path.touch(mode=0o600)
        path.write_text(before + entry, encoding="utf-8")
    click.echo(token)
