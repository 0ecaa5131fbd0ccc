"""Shared by several commands: options, and the settings and Topology made from them."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import click
import orjson

from holdfast.config.load import (
    Origin,
    application_id_of,
    build_settings,
    from_environment,
    from_overrides,
    from_yaml,
)
from holdfast.config.no_broker import or_no_broker
from holdfast.config.secrets import is_secret, names_file
from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, InvalidConfig, InvalidStatement
from holdfast.local.broker import LocalKafka
from holdfast.local.probe import HOST
from holdfast.local.registry import LocalRegistry

if TYPE_CHECKING:
    from holdfast.types.statements.topology import Topology

__all__ = [
    "Job",
    "Sql",
    "home_option",
    "job_options",
    "json_errors",
    "json_option",
    "load_job",
    "load_settings",
    "named_job",
    "named_properties",
    "sigterm_interrupts",
    "sql_options",
]

_F = TypeVar("_F", bound=Callable[..., object])
_R = TypeVar("_R")


@dataclass(frozen=True)
class Sql:
    """Statements in a file, or given on the command line (`file` is None then)."""

    file: Path | None = None
    given: str = ""

    @property
    def name(self) -> str:
        """The name in messages."""
        return str(self.file) if self.file is not None else "--sql"

    def text(self) -> str:
        """The statements.

        Raises:
            InvalidStatement: the file cannot be read.
        """
        return _read(self.file) if self.file is not None else self.given


@dataclass(frozen=True)
class Job:
    """The job that an SQL file and its options describe."""

    topology: Topology
    settings: Settings


def sql_options(function: Callable[..., _R]) -> Callable[..., _R]:
    """Adds SQL_FILE and --sql to a command, as `sql`; exactly one of them must be given."""

    @click.argument("sql_file", required=False, type=click.Path(path_type=Path))
    @click.option("--sql", "sql_text", metavar="TEXT", help="The statements, instead of SQL_FILE.")
    @functools.wraps(function)
    def command(*args: object, sql_file: Path | None, sql_text: str | None, **kwargs: object) -> _R:
        if (sql_file is None) == (sql_text is None):
            raise click.UsageError("Give either SQL_FILE or --sql TEXT.")
        return function(*args, sql=Sql(sql_file, sql_text or ""), **kwargs)

    return command


def job_options(function: _F) -> _F:
    """Adds --config, --set and --home to a command, as `config`, `overrides` and `home`."""
    options = (
        click.option(
            "--config",
            type=click.Path(path_type=Path),
            help="YAML file of properties.",
        ),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set a property; may be repeated. `holdfast config` lists them.",
        ),
        home_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def home_option(function: _F) -> _F:
    """Adds --home to a command."""
    option = click.option(
        "--home",
        metavar="DIR",
        help="Folder of all local files: Kafka, state, logs.  [default: .holdfast]",
    )
    return option(function)


def json_option(function: _F) -> _F:
    """Adds --json to a command, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")(
        function
    )


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Handle SIGTERM as Ctrl-C, which undoes temporary changes."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def json_errors(as_json: bool) -> Iterator[None]:
    """With --json, also print an error as JSON before it ends the command."""
    try:
        yield
    except HoldfastError as error:
        if as_json:
            parts = {"fact": error.fact, "cause": error.cause, "action": error.action}
            told = {"ok": False, "error": {"kind": type(error).__name__, **parts}}
            click.echo(orjson.dumps(told).decode())
        raise


def load_settings(
    config: Path | None,
    overrides: Sequence[str],
    home: str | None,
    *,
    application_id: str = "holdfast",
    statements: Origin | None = None,
) -> Settings:
    """Settings from all sources.

    If no broker is named, the local one of the same home is used if it runs; if no schema registry
    is, that of the same home if its schemas are kept by the job's broker.

    Args:
        application_id: the default of `application.id`.
        statements: the SET statements of an SQL file.

    Raises:
        InvalidConfig: names every problem.
    """
    origins = [from_yaml(config)] if config else []
    origins.append(from_environment(os.environ))
    origins.extend([statements] if statements else [])
    origins.append(from_overrides(overrides))
    origins.extend([Origin("--home", {"home": home})] if home else [])
    settings = build_settings(origins, application_id)
    named = {key for origin in origins for key in origin.values}
    if not _has(named, "bootstrap.servers"):
        settings = _with_local_kafka(settings)
    return settings if _has(named, "schema.registry.url") else _with_local_registry(settings)


def _has(named: Iterable[str], key: str) -> bool:
    """Whether the property is among these, be it with a prefix of ksqlDB's."""
    return any(each.endswith(key) for each in named)


def _with_local_kafka(settings: Settings) -> Settings:
    local = LocalKafka(Path(settings.home)).status()
    if local is None:
        return or_no_broker(settings)
    return replace(settings, bootstrap_servers=local.bootstrap_servers)


def _with_local_registry(settings: Settings) -> Settings:
    """Ids mean something beside the records that name them only, hence the same Kafka."""
    local = LocalRegistry(Path(settings.home)).status()
    servers = settings.bootstrap_servers.replace("localhost:", f"{HOST}:")
    if local is None or local.bootstrap_servers != servers:
        return settings
    return replace(settings, registry=replace(settings.registry, url=local.url))


def named_properties(config: Path | None, overrides: Sequence[str]) -> dict[str, object]:
    """Properties from the YAML file, the environment and --set, without the SQL file's SET.

    Secrets in the environment belong to this process only and are left out.

    Raises:
        InvalidConfig: the file cannot be read, or an override has no `=`.
    """
    own = from_environment(os.environ)
    public = {k: v for k, v in own.values.items() if not (is_secret(k) or names_file(k))}
    origins = [from_yaml(config)] if config else []
    origins += [replace(own, values=public), from_overrides(overrides)]
    return {key: value for origin in origins for key, value in origin.values.items()}


def named_job(config: Path | None, overrides: Sequence[str]) -> str | None:
    """The `application.id` among `named_properties`; None: nothing names it.

    Raises:
        InvalidConfig: see `named_properties`.
    """
    named = named_properties(config, overrides).get("application.id")
    return None if named is None else str(named)


def load_job(
    sql: Sql | Path,
    config: Path | None,
    overrides: Sequence[str],
    home: str | None,
    *,
    name: str | None = None,
) -> Job:
    """Read statements, their settings and their functions, and plan them.

    Args:
        name: the default of `application.id`; without it the file's name, or the name of the first
            table or stream that the statements of --sql make.

    Raises:
        InvalidStatement: the file cannot be read or its SQL is wrong.
        InvalidConfig: a property is wrong, or nothing names the job.
    """
    from holdfast.sql import compile_text
    from holdfast.tasks.aggregates.user import load_functions
    from holdfast.transport.registry import registry_of
    from holdfast.types.statements.internal_topics import for_application

    sql = sql if isinstance(sql, Sql) else Sql(sql)
    text = sql.text()
    default = name or (application_id_of(sql.file) if sql.file is not None else _first(text))
    statements = Origin(f"SET in {sql.name}", _set_properties(text), of_statements=True)
    settings = load_settings(config, overrides, home, application_id=default, statements=statements)
    if not settings.application_id:
        raise InvalidConfig(
            "Statements given with --sql make no table or stream to call the job by.",
            action="add CREATE TABLE … AS SELECT, or --set application.id=NAME",
        )
    functions = load_functions(settings.functions)
    topology = compile_text(
        text, extra_aggregates=functions, schemas=registry_of(settings.registry.client())
    )
    return Job(for_application(topology, settings.application_id), settings)


def _set_properties(text: str) -> dict[str, object]:
    """Properties of SET; needed before planning, since they may name the users' functions."""
    from holdfast.sql.parse.script import Script
    from holdfast.sql.parse.statements import SetProperty, UnsetProperty
    from holdfast.sql.parse.text import parse

    found: dict[str, object] = {}
    for statement in parse(Script(text)):
        if isinstance(statement, SetProperty):
            found[statement.key] = statement.value
        elif isinstance(statement, UnsetProperty):
            found.pop(statement.key, None)
    return found


def _first(text: str) -> str:
    """The name of the first table or stream that a query makes, in lower case; empty: none does."""
    from holdfast.sql.parse.script import Script
    from holdfast.sql.parse.statements import CreateAs
    from holdfast.sql.parse.text import parse

    made = (s.name.text.lower() for s in parse(Script(text)) if isinstance(s, CreateAs))
    return next(made, "")


def _read(sql_file: Path) -> str:
    try:
        return sql_file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidStatement(
            f"{sql_file} cannot be read: {error.strerror}.",
            action="Give the path of a file of statements.",
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidStatement(
            f"{sql_file} is not UTF-8 text (byte {error.start}).",
            action="Save it as UTF-8.",
        ) from error
