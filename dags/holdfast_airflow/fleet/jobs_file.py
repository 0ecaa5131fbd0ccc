"""The jobs that YAML files declare, with every problem named at once.

    defaults: {namespace: sales}
    jobs:
      movies: {sql_file: sql/movies.sql, executors: 3, owner: sales, compaction: "0 4 * * 0"}

A job's keys are the params of `deploy_state_table`, and `owner`, `chaos`, `chaos_confirm`,
`compaction`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # no stubs in Airflow's environment
from airflow.sdk.exceptions import ParamValidationError

from holdfast_airflow.params import deploy_params
from holdfast_airflow.request import InvalidRequest, Request

__all__ = ["FleetFiles", "Job", "read_fleet"]

_JOBS, _DEFAULTS = "jobs", "defaults"
_OWNER, _SCHEDULES = "owner", ("chaos", "compaction")
_CONFIRM = "chaos_confirm"
_OTHERS = (_OWNER, *_SCHEDULES, _CONFIRM)
# They say how to deploy, and not what: another limit is no other job.
_LIMITS = ("deploy_timeout_minutes", "catch_up_timeout_minutes", "lock_timeout_minutes")


@dataclass(frozen=True)
class Job:
    """One declared job.

    Attributes:
        params: those of `deploy_state_table` that its file gives.
        digest: of the job with all of its params and statements.
        place: what is needed to find it: its target with the namespace, or the home folder.
        chaos: schedule of its chaos runs, cron; empty for none.
        compaction: schedule of its compaction; empty for none.
        chaos_confirm: its name again, as chaos asks for outside of a development namespace.
    """

    name: str
    params: Mapping[str, Any]
    digest: str
    place: Mapping[str, Any]
    owner: str = ""
    chaos: str = ""
    compaction: str = ""
    chaos_confirm: str = ""


@dataclass
class FleetFiles:
    """The declared jobs, as far as they make sense, and what is wrong with the others."""

    jobs: list[Job] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_fleet(path: Path) -> FleetFiles:
    """Reads a file, or all `*.yaml` and `*.yml` of a folder (a mounted ConfigMap is one)."""
    found, declared = FleetFiles(), dict[str, str]()
    for file in _files(path, found.problems):
        document = _loaded(file, found.problems)
        if document is None:
            continue
        _refuse_unknown(document, (_JOBS, _DEFAULTS), file.name, found.problems)
        jobs, defaults = document.get(_JOBS) or {}, document.get(_DEFAULTS) or {}
        if not isinstance(jobs, dict) or not isinstance(defaults, dict):
            found.problems.append(f"{file.name}: `jobs` and `defaults` hold keys and values")
            continue
        for name, given in jobs.items():
            if name in declared:
                found.problems.append(f"{file.name}: {name} is declared in {declared[name]}, too")
            elif not isinstance(given, dict | None):
                found.problems.append(f"{file.name}: {name} holds no keys and values")
            else:
                declared[name] = file.name
                _take(str(name), {**defaults, **(given or {})}, file.name, found)
    return found


def _files(path: Path, problems: list[str]) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        problems.append(f"{path}: there is no such file or folder")
        return []
    found = sorted(p for p in path.iterdir() if p.suffix in {".yaml", ".yml"})
    if not found:  # so is the folder of a ConfigMap that does not exist
        problems.append(f"{path}: there is no *.yaml in it; is its ConfigMap there, if it has one?")
    return found


def _loaded(file: Path, problems: list[str]) -> dict[str, Any] | None:
    try:
        found = yaml.load(file.read_text(encoding="utf-8"), _OnceLoader)  # noqa: S506 - safe, too
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problems.append(f"{file.name}: {error}")
        return None
    if found is None or isinstance(found, dict):
        return found or {}
    problems.append(f"{file.name}: it holds a {type(found).__name__}, not `jobs:`")
    return None


class _OnceLoader(yaml.SafeLoader):  # type: ignore[misc]  # the same
    """A safe loader that refuses a key that is given twice: the first one would be forgotten."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise yaml.constructor.ConstructorError(
                problem=f"{', '.join(twice)} is given twice", problem_mark=node.start_mark
            )
        return dict(super().construct_mapping(node, deep))


def _take(name: str, given: dict[str, Any], file: str, found: FleetFiles) -> None:
    where = f"{file}: {name}"
    params = deploy_params()
    known = [key for key in params if key != "name"]
    problems: list[str] = []
    _refuse_unknown(given, [*known, *_OTHERS], where, problems)
    asked = {key: value for key, value in given.items() if key in known}
    problems += [f"{where}: {text}" for text in _unfit({**asked, "name": name}, params)]
    problems += [f"{where}: {text}" for text in _unfit_others(name, given)]
    filled = {key: param.value for key, param in params.items() if key != "name"}
    if not problems:
        try:
            found.jobs.append(_job(name, {**filled, **asked}, asked, given))
        except InvalidRequest as error:
            problems.append(f"{where}: {error}")
    found.problems += problems


def _job(name: str, full: dict[str, Any], asked: dict[str, Any], given: dict[str, Any]) -> Job:
    request = Request.of({**full, "name": name})
    what = {key: value for key, value in full.items() if key not in {*_LIMITS, "sql_file"}}
    text = json.dumps({**what, "sql": request.sql}, sort_keys=True)
    others = {key: str(given.get(key) or "") for key in _OTHERS}
    # The namespace, image and brokers of a local job are nobody's.
    place = {"target": request.target, "namespace": request.namespace, "home": full["home"]}
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Job(name, asked, digest, place, **others)


def _unfit(asked: Mapping[str, Any], params: Mapping[str, Any]) -> Iterator[str]:
    for key, value in asked.items():
        try:
            params[key].resolve(value)
        except (ParamValidationError, ValueError, TypeError) as error:
            yield f"{key}: {str(error).splitlines()[0]}"


def _unfit_others(name: str, given: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(given.get(_OWNER, ""), str):
        yield f"{_OWNER}: {given[_OWNER]!r} is no text"
    for key in _SCHEDULES:
        value = given.get(key)
        if value is not None and not _is_schedule(value):
            yield f'{key}: {value!r} is no schedule; write for example "0 4 * * 0"'
    if given.get(_CONFIRM) not in (None, "", name):
        yield f"{_CONFIRM}: {given[_CONFIRM]!r} is not the job's name, {name}"


def _is_schedule(value: object) -> bool:
    # Only a fleet needs it, and every DAG is parsed again and again.
    from croniter import croniter  # type: ignore[import-untyped]  # the same

    return isinstance(value, str) and bool(croniter.is_valid(value))


def _refuse_unknown(
    given: Mapping[Any, Any], known: Iterable[str], where: str, problems: list[str]
) -> None:
    known = list(known)
    for key in given:
        if key in known:
            continue
        near = difflib.get_close_matches(str(key).lower(), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
        problems.append(f"{where}: there is no key {key!r}; {hint}")
