"""`holdfast sql`: plans statements as they are typed, saves them as a file, and asks servers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.statements.options import job_options, load_settings, named_properties
from holdfast.errors import HoldfastError, InvalidStatement

if TYPE_CHECKING:
    from holdfast.cli.shell.session import Session

__all__ = ["command"]

_HELP = """\
Statements end with a semicolon.  No job runs here: what creates, drops or sets something is
planned at once and kept in the session's script.
  SELECT ... [EMIT CHANGES];  answered by a query server, if need be by one of the session's own
  SHOW STREAMS | TABLES | QUERIES | TOPICS | FUNCTIONS | PROPERTIES | TYPES | VARIABLES;
  DESCRIBE name [EXTENDED];   EXPLAIN query or statement;   PRINT topic [FROM BEGINNING] [LIMIT n];
  RUN SCRIPT 'file';   PAUSE | RESUME | TERMINATE query or ALL: an order to the job that runs it;
Commands:
  script          print the session's script
  save FILE       write it to FILE, for `holdfast run FILE`
  help            print this
  exit            end (also Ctrl-D)"""


@click.command("sql")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("-e", "--execute", "text", metavar="TEXT", help="Execute these statements, then end.")
@click.option(
    "--server",
    "servers",
    multiple=True,
    envvar="HOLDFAST_CLI_SERVERS",
    metavar="URL",
    help="A query server that answers SELECT. By default one that is there on this machine, else "
    "one is started for the session.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    envvar="HOLDFAST_CLI_TOKEN_FILE",
    help="A file with the token of `holdfast token`, for --server.",
)
@job_options
def command(
    files: Sequence[Path],
    text: str | None,
    servers: tuple[str, ...],
    token_file: Path | None,
    config: Path | None,
    overrides: Sequence[str],
    home: str | None,
) -> int:
    """Open a session: type statements, inspect streams, tables, plans and topics, query tables.

    FILES are run first, as with RUN SCRIPT. Without a terminal, statements are read from standard
    input; the first wrong one ends the session with status 2.
    """
    from holdfast.cli.look.view import console
    from holdfast.cli.shell.answers import Served
    from holdfast.cli.shell.broker import Broker
    from holdfast.cli.shell.session import Session
    from holdfast.tasks.aggregates.user import load_functions
    from holdfast.transport.registry import registry_of

    settings = load_settings(config, overrides, home)
    session = Session(
        console(),
        Broker(settings.client, schemas=registry_of(settings.registry.client())),
        load_functions(settings.functions),
        named_properties(config, overrides),
        Served(
            Path(settings.home).absolute(),
            _options(config, overrides, settings.bootstrap_servers),
            servers,
            token_file.read_text(encoding="utf-8").strip() if token_file else "",
        ),
    )
    try:
        for file in files:
            session.run(_read(file))
        if text is not None:
            session.run(text)
        elif sys.stdin.isatty():
            _talk(session, Path(settings.home) / "sql_history")
        else:
            session.run(sys.stdin.read())
    finally:
        session.close()
    return 0


def _options(config: Path | None, overrides: Sequence[str], servers: str) -> tuple[str, ...]:
    """The same options for `holdfast serve`."""
    file = () if config is None else ("--config", str(config))
    given = [text for text in overrides if not text.startswith("application.id")]
    named = [f"bootstrap.servers={servers}"] if servers else []
    return (*file, *(part for text in (*named, *given) for part in ("--set", text)))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidStatement(
            f"{file} cannot be read: {error}.", action="Give the path of a file of statements."
        ) from error


def _talk(session: Session, past: Path) -> None:
    from holdfast.cli.shell.prompt import COMMANDS, Completion, history, typed

    click.echo("holdfast sql: statements end with ; and `help` tells more.")
    with history(past, Completion(session)):
        for text in typed():
            words = text.split(maxsplit=1)
            if words[0].lower().rstrip(";") in ("exit", "quit"):
                return
            try:
                if words[0].lower() in COMMANDS:
                    _obey(session, words)
                else:
                    session.run(text)
            except KeyboardInterrupt:
                click.echo("Stopped.", err=True)
            except HoldfastError as error:
                click.secho(str(error), fg="red", err=True)


def _obey(session: Session, words: Sequence[str]) -> None:
    name, file = words[0].lower(), words[1].strip().strip("';") if len(words) > 1 else ""
    if name == "script":
        click.echo(session.script, nl=False)
    elif name == "save" and file:
        try:
            Path(file).write_text(session.script, encoding="utf-8")
        except OSError as error:
            raise InvalidStatement(f"{file} cannot be written: {error}.") from error
        click.echo(f"The script is in {file}: `holdfast run {file}` runs it.")
    else:
        click.echo(_HELP)
