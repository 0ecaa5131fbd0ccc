"""Properties from all their sources into one `Settings`, with every problem named at once.

Later sources win: defaults, the YAML file, the environment, the SQL file's SET statements, --set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from holdfast.config.properties import (
    KAFKA_PREFIX,
    KAFKA_RESERVED,
    KSQL_PREFIX,
    PROPERTIES,
)
from holdfast.config.secrets import FILE, from_file, is_secret, names_file, redacted
from holdfast.config.settings import Settings
from holdfast.config.sql_properties import refused_in_sql
from holdfast.config.statement_properties import LIMIT
from holdfast.errors import InvalidConfig
from holdfast.types.words import nearest

__all__ = [
    "ENVIRONMENT_PREFIX",
    "Origin",
    "application_id_of",
    "build_settings",
    "from_environment",
    "from_overrides",
    "from_yaml",
]

ENVIRONMENT_PREFIX = "HOLDFAST_"
# Read elsewhere: by the local Kafka and Spark, the command line itself, the tests, the DAGs,
# the executors, the lease of the driver.
_OTHERS = (
    "LOCAL_", "CLASS_ARCHIVE", "CLI_", "TEST_", "COMMAND", "IMAGE", "NAMESPACE", "SQL_FOLDER",
    "STATUS_URL", "NODE_NAME", "DRIVER_NAME",
)  # fmt: skip
_KSQL, _REGISTRY = "ksql.", "schema.registry."
_NOT_PROPERTIES = tuple(f"{ENVIRONMENT_PREFIX}{name}" for name in _OTHERS)


@dataclass(frozen=True)
class Origin:
    """The properties of one source; `name` is its name in messages ("the file x.yaml").

    `of_statements`: they come from SET.  `public`: others can read them, as on a command line.
    """

    name: str
    values: Mapping[str, object] = field(repr=False)
    of_statements: bool = False
    public: bool = False


@dataclass
class _Collected:
    """The merged sources; owns the list of problems."""

    fields: dict[tuple[str, ...], object] = field(default_factory=dict)
    kafka: dict[str, str] = field(default_factory=dict, repr=False)
    problems: list[str] = field(default_factory=list)


def application_id_of(sql_file: Path) -> str:
    """The default `application.id`: the file's name without its suffix, in legal characters."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", sql_file.stem).strip("-.") or "holdfast"


def from_yaml(path: Path) -> Origin:
    """The properties of a YAML file; nested mappings are joined with dots.

    Raises:
        InvalidConfig: the file cannot be read or is not a mapping.
    """
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfig(
            f"The configuration file {path} cannot be read ({error.strerror}).",
            action="Give --config the path of a YAML file.",
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidConfig(
            f"The configuration file {path} is not YAML: {_without_content(error)}.",
            action="Write one `property: value` per line.",
        ) from None
    if loaded is None:
        loaded = {}
    if not isinstance(loaded, dict):
        raise InvalidConfig(
            f"The configuration file {path} holds a {type(loaded).__name__}, not properties.",
            action="Write one `property: value` per line.",
        )
    return Origin(f"file {path}", dict(_flatten(loaded, "")))


def _without_content(error: Exception) -> str:
    """The problem and its position; the line itself, quoted by the error, may hold a password."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "see its syntax"
    return f"{getattr(error, 'problem', None) or 'wrong'}, line {mark.line + 1}"


def _flatten(mapping: Mapping[object, object], prefix: str) -> Iterable[tuple[str, object]]:
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def from_environment(environment: Mapping[str, str]) -> Origin:
    """The properties among environment variables: HOLDFAST_STATE_PARTITIONS is state.partitions."""
    found = {
        variable[len(ENVIRONMENT_PREFIX) :].lower().replace("_", "."): value
        for variable, value in environment.items()
        if variable.startswith(ENVIRONMENT_PREFIX) and not variable.startswith(_NOT_PROPERTIES)
    }
    return Origin("environment", found)


def from_overrides(overrides: Sequence[str], example: str = "--set state.partitions=4") -> Origin:
    """The properties of `--set key=value` arguments, or of another option, as `example` shows it.

    Raises:
        InvalidConfig: an argument has no `=`.
    """
    option = example.split(maxsplit=1)[0]
    wrong = [text for text in overrides if "=" not in text]
    if wrong:
        raise InvalidConfig(
            f"{option} takes key=value, not {', '.join(map(repr, wrong))}.",
            action=f"Write for example {example}.",
        )
    pairs = (text.split("=", 1) for text in overrides)
    return Origin(option, {key.strip(): value for key, value in pairs}, public=True)


def build_settings(origins: Sequence[Origin], application_id: str) -> Settings:
    """Settings from sources in rising order of precedence.

    Args:
        origins: YAML file, environment, SET statements, --set; any may be left out.
        application_id: the default of `application.id`.

    Raises:
        InvalidConfig: the message names every unknown property and every value that does not fit.
    """
    collected = _Collected()
    for origin in origins:
        for key, value in origin.values.items():
            _take(collected, origin, _ours(key), value)
    _check_files(collected)
    _check_copies(collected)
    _check_remote(collected)
    _check_savepoint(collected)
    if collected.problems:
        raise _refusal(collected.problems)
    fields = {("application_id",): application_id, ("kafka",): collected.kafka} | collected.fields
    settings: Settings = _with(Settings(application_id=application_id), fields)
    return settings


def _ours(key: str) -> str:
    """The name of a property; ksqlDB has a prefix before some."""
    ours = key.removeprefix(_KSQL)
    return ours if ours.startswith(_REGISTRY) else key.removeprefix(KSQL_PREFIX)


def _take(collected: _Collected, source: Origin, key: str, value: object) -> None:
    origin = source.name
    if source.of_statements and (why := refused_in_sql(key)):
        collected.problems.append(f"{key} ({origin}): {why}")
        return
    if key.startswith(KAFKA_PREFIX):
        _take_kafka(collected, source, key, value)
    elif not _took_secret(collected, source, key, value):
        _take_ours(collected, source, key, value)


def _take_ours(collected: _Collected, source: Origin, key: str, value: object) -> None:
    origin, prop = source.name, PROPERTIES.get(key)
    if (LIMIT.fullmatch(key) or (prop is not None and prop.only_set)) and not source.of_statements:
        collected.problems.append(f"{key} ({origin}): for statements only; SET it in the SQL file")
        return
    if LIMIT.fullmatch(key):
        return
    if prop is None:
        guess = nearest(key, PROPERTIES)
        hint = f"did you mean {guess}?" if guess else "`holdfast config` lists what there is"
        collected.problems.append(f"{key} ({origin}): no such property; {hint}")
        return
    try:
        parsed = prop.kind.parse(value)
    except ValueError as error:
        reason = str(error) if "invalid literal" not in str(error) else f"{value!r} is no number"
        collected.problems.append(f"{key} ({origin}): {reason}; it takes: {prop.kind.allowed}")
        return
    if prop.path:
        collected.fields[prop.path] = parsed


def _took_secret(collected: _Collected, source: Origin, key: str, value: object) -> bool:
    """Whether it is a secret in a file, now read, or one given where it may not be."""
    if source.public and is_secret(key):
        collected.problems.append(f"{key} ({source.name}): {_elsewhere(key)}")
        return True
    prop = PROPERTIES.get(key.removesuffix(FILE))
    if prop is None or not names_file(key) or not is_secret(prop.name):
        return False
    collected.fields[prop.path] = from_file(prop.name, Path(str(value)))
    return True


def _take_kafka(collected: _Collected, source: Origin, key: str, value: object) -> None:
    origin, name = source.name, key.removeprefix(KAFKA_PREFIX)
    in_file = names_file(name)
    name = name.removesuffix(FILE) if in_file else name
    if name in KAFKA_RESERVED:
        collected.problems.append(f"{key} ({origin}): not yours to set; {KAFKA_RESERVED[name]}")
    elif not name or value is None or isinstance(value, list):
        shown = redacted(key, repr(value))
        collected.problems.append(f"{key} ({origin}): {shown} is not a librdkafka setting")
    elif source.public and is_secret(key):
        collected.problems.append(f"{key} ({origin}): {_elsewhere(key)}")
    elif in_file:
        collected.kafka[name] = from_file(f"{KAFKA_PREFIX}{name}", Path(str(value)))
    else:
        collected.kafka[name] = str(value).lower() if isinstance(value, bool) else str(value)


def _elsewhere(key: str) -> str:
    """How to give a secret that was given where others can read it."""
    variable = ENVIRONMENT_PREFIX + key.upper().replace(".", "_")
    return (
        "it is a secret, and every user of this machine can read a command line; give "
        f"{key}{FILE}=PATH, a file that holds it alone (mode 0600), or write it into the file of "
        f"--config, or set the environment variable {variable}"
    )


def _check_files(collected: _Collected) -> None:
    functions = collected.fields.get(("functions",), ())
    assert isinstance(functions, tuple)
    collected.problems.extend(
        f"functions: there is no file {path}" for path in functions if not Path(path).is_file()
    )
    # Executors have a working folder of their own.
    collected.fields["functions",] = tuple(str(Path(path).absolute()) for path in functions)


def _check_copies(collected: _Collected) -> None:
    backend = collected.fields.get(("state", "backend"), "rocksdb")
    if backend == "rocksdb":
        return
    if collected.fields.get(("placement", "standbys")):
        collected.problems.append(
            f"standby.replicas: state.backend={backend} has no standbys; set it to 0, or use "
            "rocksdb"
        )
    if collected.fields.get(("snapshots", "uri")):
        collected.problems.append(
            f"snapshot.uri: state.backend={backend} has no snapshots; leave it out, or use rocksdb"
        )


def _check_remote(collected: _Collected) -> None:
    fields = collected.fields
    wrong = any(problem.startswith("state.remote.uri ") for problem in collected.problems)
    named = wrong or fields.get(("state", "remote", "uri"))
    if fields.get(("state", "backend")) == "remote" and not named:
        collected.problems.append(
            "state.remote.uri: state.backend=remote needs a database; set redis://host:6379/0"
        )
    if str(fields.get(("state", "remote", "uri"))).startswith("dynamodb:"):
        collected.problems += [
            f"state.remote.{name}: DynamoDB has none; give the executors a role, or AWS_* variables"
            for field, name in (("user", "user"), ("password_file", "password.file"))
            if fields.get(("state", "remote", field))
        ]
    # Executors have a working folder of their own.
    if file := fields.get(("state", "remote", "password_file")):
        fields["state", "remote", "password_file"] = str(Path(str(file)).absolute())


def _check_savepoint(collected: _Collected) -> None:
    snapshots = collected.fields.get(("snapshots", "uri"))
    if collected.fields.get(("snapshots", "start_from")) and not snapshots:
        collected.problems.append("savepoint.from: snapshot.uri must say where the savepoint is")


def _refusal(problems: Sequence[str]) -> InvalidConfig:
    count = "1 property is" if len(problems) == 1 else f"{len(problems)} properties are"
    return InvalidConfig(
        "\n".join([f"{count} wrong:", *(f"  - {problem}" for problem in problems)]),
        action="`holdfast config` prints every property with its default and what it takes.",
    )


def _with(value: Any, fields: Mapping[tuple[str, ...], object]) -> Any:
    """A copy of a nested dataclass with the fields at these paths replaced."""
    changes: dict[str, object] = {}
    inner: dict[str, dict[tuple[str, ...], object]] = {}
    for path, new in fields.items():
        if len(path) == 1:
            changes[path[0]] = new
        else:
            inner.setdefault(path[0], {})[path[1:]] = new
    for name, parts in inner.items():
        changes[name] = _with(getattr(value, name), parts)
    return replace(value, **changes)
