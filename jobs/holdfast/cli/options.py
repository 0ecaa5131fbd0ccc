"""What several commands share: their options, and settings and a Topology made from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from holdfast.config.load import (
    Origin,
    application_id_of,
    build_settings,
    from_environment,
    from_overrides,
    from_yaml,
)
from holdfast.config.settings import Settings
from holdfast.errors import InvalidStatement
from holdfast.local.broker import LocalKafka

if TYPE_CHECKING:
    from holdfast.types.topology import Topology

__all__ = ["Job", "job_options", "load_job", "load_settings"]

_F = TypeVar("_F", bound=Callable[..., object])


@dataclass(frozen=True)
class Job:
    """What an SQL file and its options mean."""

    topology: Topology
    settings: Settings


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
        click.option(
            "--home",
            metavar="DIR",
            help="Folder of all local files: Kafka, state, logs.  [default: .holdfast]",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def load_settings(
    config: Path | None,
    overrides: Sequence[str],
    home: str | None,
    *,
    application_id: str = "holdfast",
    statements: Origin | None = None,
) -> Settings:
    """Settings from all sources.

    Where nobody names a broker, the local one of the same home is taken if it runs.

    Args:
        application_id: the default of that property.
        statements: the SET statements of an SQL file.

    Raises:
        InvalidConfig: naming every problem.
    """
    origins = [from_yaml(config)] if config else []
    origins.append(from_environment(os.environ))
    origins.extend([statements] if statements else [])
    origins.append(from_overrides(overrides))
    origins.extend([Origin("--home", {"home": home})] if home else [])
    settings = build_settings(origins, application_id)
    named = any(key.endswith("bootstrap.servers") for o in origins for key in o.values)
    local = None if named else LocalKafka(Path(settings.home)).status()
    return replace(settings, bootstrap_servers=local.bootstrap_servers) if local else settings


def load_job(
    sql_file: Path, config: Path | None, overrides: Sequence[str], home: str | None
) -> Job:
    """Read an SQL file, its settings and its functions, and plan it.

    Raises:
        InvalidStatement: the file cannot be read or its SQL is wrong.
        InvalidConfig: a property is wrong.
    """
    from holdfast.sql import compile_text
    from holdfast.tasks.aggregates.user import load_functions

    text = _read(sql_file)
    settings = load_settings(
        config,
        overrides,
        home,
        application_id=application_id_of(sql_file),
        statements=Origin(f"SET in {sql_file}", _set_properties(text)),
    )
    functions = load_functions(settings.functions)
    return Job(compile_text(text, extra_aggregates=functions), settings)


def _set_properties(text: str) -> dict[str, object]:
    """What SET gives; needed before planning, for it may name the functions planned with."""
    from holdfast.sql.parse import parse
    from holdfast.sql.script import Script
    from holdfast.sql.statements import SetProperty, UnsetProperty

    found: dict[str, object] = {}
    for statement in parse(Script(text)):
        if isinstance(statement, SetProperty):
            found[statement.key] = statement.value
        elif isinstance(statement, UnsetProperty):
            found.pop(statement.key, None)
    return found


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
