"""The process that runs users' functions and aggregates for the judge.

It loads the users' files with a registry of its own.  Of an aggregate it calls `init`, `update` and
`finish` only: `merge`, batches and stored states are the engine's, so that a wrong `merge` shows as
a difference.
"""

from __future__ import annotations

import copy
import importlib.util
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.types.columns.schema import Base, SqlType

__all__ = ["Declared", "serve"]

# What the users' files import `aggregate` and `function` from.
_OF_AGGREGATES = "holdfast.tasks.aggregates.user"
_OF_FUNCTIONS = "holdfast.tasks.functions.user"
_SYNONYMS = {"INT": Base.INTEGER, "VARCHAR": Base.STRING}
_DECIMAL = re.compile(r"DECIMAL *\( *(\d+) *, *(\d+) *\)")


@dataclass(frozen=True)
class Declared:
    """A declaration of a users' file.

    Attributes:
        scalar: whether it is a function of one row's values; otherwise it is an aggregate.
        deterministic: whether a scalar function says that its result depends on nothing else.
    """

    name: str
    args: tuple[SqlType, ...]
    returns: SqlType
    scalar: bool = False
    deterministic: bool = False


Body = Callable[[Sequence[Any]], list[Any]]
"""Computes the values of a call's rows or groups."""


def serve(pipe: Connection, files: Sequence[str]) -> None:
    """Load the files, say what they declare, and answer calls until the pipe is closed.

    A call is (name, groups) for an aggregate, each group its records in two orders, and
    (name, rows) for a scalar function; the answer is a list of values, or a text that says what
    went wrong.
    """
    try:
        bodies, declared = _loaded(files)
    except Exception as error:  # noqa: BLE001 - the judge tells it
        pipe.send(f"the functions' file cannot be loaded: {type(error).__name__}: {error}")
        return
    pipe.send(declared)
    while True:
        try:
            name, asked = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(bodies[name](asked))
        except Exception as error:  # noqa: BLE001 - the judge tells it
            pipe.send(f"{name} raised {type(error).__name__}: {error}")


def _loaded(files: Sequence[str]) -> tuple[dict[str, Body], list[Declared]]:
    """The functions' bodies, and their declarations."""
    bodies: dict[str, Body] = {}
    declared: dict[tuple[str, bool], Declared] = {}

    def aggregate(
        name: str, *, args: Sequence[str | SqlType], returns: str | SqlType
    ) -> Callable[[type], type]:
        def register(body: type) -> type:
            found = Declared(name.upper(), tuple(map(_type, args)), _type(returns))
            declared[found.name, found.scalar] = found
            bodies[found.name] = _aggregate(found.name, body())
            return body

        return register

    def function(
        name: str,
        *,
        args: Sequence[str | SqlType],
        returns: str | SqlType,
        nulls: bool = False,
        deterministic: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(body: Callable[..., Any]) -> Callable[..., Any]:
            kinds = tuple(map(_type, args))
            found = Declared(name.upper(), kinds, _type(returns), True, deterministic)
            declared[found.name, found.scalar] = found
            bodies[found.name] = _scalar(body, nulls=nulls)
            return body

        return register

    _replace(_OF_AGGREGATES, aggregate)
    _replace(_OF_FUNCTIONS, function)
    for number, file in enumerate(files):
        spec = importlib.util.spec_from_file_location(f"judged_functions_{number}", Path(file))
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is not a Python file")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    if len(bodies) < len(declared):
        raise ValueError("an aggregate and a function have the same name")
    return bodies, list(declared.values())


def _replace(module: str, registering: Callable[..., Any]) -> None:
    """Put a registry of the judge's own in the place of the engine's."""
    registry = ModuleType(module)
    registry.__dict__[registering.__name__] = registering
    sys.modules[module] = registry


def _type(given: str | SqlType) -> SqlType:
    """A type from its text."""
    if isinstance(given, SqlType):
        return given
    text = given.strip().upper()
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return SqlType(Base.DECIMAL, precision=int(decimal[1]), scale=int(decimal[2]))
    name, bracket, inner = text.partition("<")
    if bracket:
        element = inner.removesuffix(">")
        if name == Base.MAP:
            element = element.partition(",")[2]
        return SqlType(Base(name), element=_type(element))
    return SqlType(_SYNONYMS.get(text) or Base(text))


def _scalar(body: Callable[..., Any], *, nulls: bool) -> Body:
    """A scalar function over rows; what it raises is a NULL, as in ksqlDB."""

    def value(row: Sequence[Any]) -> Any:
        if None in row and not nulls:
            return None
        try:
            return body(*row)
        except Exception:  # noqa: BLE001 - a failed call is NULL
            return None

    def values(rows: Sequence[Any]) -> list[Any]:
        found = [value(row) for row in copy.deepcopy(rows)]  # a body may change its arguments
        again = [value(row) for row in reversed(rows)][::-1]
        if not _alike(found, again):
            raise ValueError("the same arguments gave two results")
        return found

    return values


def _aggregate(name: str, body: Any) -> Body:
    def values(groups: Sequence[Any]) -> list[Any]:
        return [_value(name, body, *orders) for orders in groups]

    return values


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
