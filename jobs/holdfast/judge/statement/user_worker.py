"""The process that runs users' aggregates for the judge.

It loads the users' files with a registry of its own, and calls `init`, `update` and `finish` only:
`merge`, batches and stored states are the engine's, so that a wrong `merge` shows as a difference.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.types.schema import Base, SqlType

__all__ = ["Declared", "serve"]

Declared = tuple[str, tuple[SqlType, ...], SqlType]
"""An aggregate's name, and the types of its arguments and its result."""

_REGISTRY = "holdfast.tasks.aggregates.user"  # what the users' files import `aggregate` from


def serve(pipe: Connection, files: Sequence[str]) -> None:
    """Load the files, say what they declare, and answer calls until the pipe is closed.

    A call is (name, groups), each group its records in two orders; the answer is a list of values,
    or a text that says what went wrong.
    """
    try:
        bodies, declared = _loaded(files)
    except Exception as error:  # noqa: BLE001 - the judge tells it
        pipe.send(f"the functions' file cannot be loaded: {type(error).__name__}: {error}")
        return
    pipe.send(declared)
    while True:
        try:
            name, groups = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send([_value(name, bodies[name], *orders) for orders in groups])
        except Exception as error:  # noqa: BLE001 - the judge tells it
            pipe.send(f"{name} raised {type(error).__name__}: {error}")


def _loaded(files: Sequence[str]) -> tuple[dict[str, Any], list[Declared]]:
    """The aggregates' bodies, and their declarations."""
    bodies: dict[str, Any] = {}
    declared: list[Declared] = []

    def aggregate(
        name: str, *, args: Sequence[str | SqlType], returns: str | SqlType
    ) -> Callable[[type], type]:
        def register(body: type) -> type:
            bodies[name.upper()] = body()
            declared.append((name.upper(), tuple(map(_type, args)), _type(returns)))
            return body

        return register

    registry = ModuleType(_REGISTRY)
    registry.__dict__["aggregate"] = aggregate
    sys.modules[_REGISTRY] = registry
    for number, file in enumerate(files):
        spec = importlib.util.spec_from_file_location(f"judged_functions_{number}", Path(file))
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is not a Python file")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return bodies, declared


def _type(given: str | SqlType) -> SqlType:
    return given if isinstance(given, SqlType) else SqlType(Base(given.upper()))


_Records = Sequence[dict[str, Any]]


def _value(name: str, body: Any, records: _Records | None, others: _Records | None) -> Any:
    """The aggregate over a group's records.

    Raises:
        ValueError: it is another one in the other order.
    """
    found, again = (_folded(body, each or ()) for each in (records, others))
    if not _alike(found, again):
        raise ValueError(f"{name} depends on the order of records, which is unknown here")
    return found


def _folded(body: Any, records: _Records) -> Any:
    state = body.init()
    for record in records:
        state = body.update(state, *record.values())
    return body.finish(state)


def _alike(one: Any, two: Any) -> bool:
    """Whether values are equal but for the last digits of doubles."""
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9) or (math.isnan(one) and math.isnan(two))
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_alike, one, two))
    return bool(one == two)
