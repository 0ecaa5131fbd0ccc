"""User-defined aggregates, registered from Python.

    from holdfast import aggregate

    @aggregate("GEO_MEAN", args=["DOUBLE"], returns="DOUBLE")
    class GeoMean:
        def init(self): return [0.0, 0]
        def update(self, state, x): return [state[0] + math.log(x), state[1] + 1]
        def merge(self, a, b): return [a[0] + b[0], a[1] + b[1]]
        def finish(self, state): return math.exp(state[0] / state[1]) if state[1] else None

Each batch is folded into a partial with `init` and `update`, then merged with the stored
state.  State is whatever msgpack can write: numbers, text, bytes, lists and maps.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgpack
import pyarrow as pa

from holdfast.errors import FunctionFailed, InvalidConfig
from holdfast.tasks.aggregates.base import Aggregate, AggregateFunction, Literal, Partial
from holdfast.tasks.aggregates.of_records import listed, records
from holdfast.tasks.pack.folds import Folding
from holdfast.types.columns.schema import Base, SqlType
from holdfast.types.statements.topology import AggregateCall

__all__ = ["UserAggregate", "aggregate", "load_functions", "loaded_files", "registered"]

_REGISTERED: dict[str, UserFunction] = {}


class UserAggregate(Protocol):
    """The interface of a registered class."""

    def init(self) -> Any: ...
    def update(self, state: Any, *args: Any) -> Any: ...
    def merge(self, a: Any, b: Any) -> Any: ...
    def finish(self, state: Any) -> Any: ...


class _UserCall(Aggregate):
    def __init__(self, call: AggregateCall, body: UserAggregate) -> None:
        self._fields = [pa.field(f"a{i}", t.arrow()) for i, t in enumerate(call.arg_types)]
        kind = pa.list_(pa.struct(self._fields))
        self._partial = Partial(kind, Folding.LIST, self._records)
        self._call = call
        self._body = body

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (self._partial,)

    def _records(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        return listed(records(arguments, self._fields, rows))

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.binary(),)

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        pairs = zip(old[0].to_pylist(), partial[0].to_pylist(), strict=True)
        return (pa.array([self._merge_one(a, b or []) for a, b in pairs], pa.binary()),)

    def _merge_one(self, stored: bytes | None, records: list[dict[str, Any]]) -> bytes:
        try:
            state = self._body.init()
            for record in records:
                state = self._body.update(state, *record.values())
            if stored is not None:
                state = self._body.merge(msgpack.unpackb(stored), state)
            return bytes(msgpack.packb(state))
        except Exception as error:
            raise self._failed(error) from error

    def combine(
        self, first: Sequence[pa.Array], second: Sequence[pa.Array]
    ) -> tuple[pa.Array, ...]:
        pairs = zip(first[0].to_pylist(), second[0].to_pylist(), strict=True)
        return (pa.array([self._combine_one(a, b) for a, b in pairs], pa.binary()),)

    def _combine_one(self, first: bytes | None, second: bytes | None) -> bytes | None:
        if first is None or second is None:
            return first if second is None else second
        try:
            merged = self._body.merge(msgpack.unpackb(first), msgpack.unpackb(second))
            return bytes(msgpack.packb(merged))
        except Exception as error:
            raise self._failed(error) from error

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        try:
            values = [
                None if s is None else self._body.finish(msgpack.unpackb(s))
                for s in state[0].to_pylist()
            ]
            return pa.array(values, self._call.type.arrow())
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> FunctionFailed:
        return FunctionFailed(
            f"The user-defined aggregate {self._call.function} raised "
            f"{type(error).__name__}: {error}",
            cause="the function does not handle a value it was given, or returned a wrong type",
            action="fix the function and start the job again; the batch was not committed",
        )


# A number fits into these without being asked to, as in ksqlDB.
_WIDER = {
    Base.BIGINT: frozenset({Base.INTEGER}),
    Base.DOUBLE: frozenset({Base.INTEGER, Base.BIGINT, Base.DECIMAL}),
}


class UserFunction(AggregateFunction):
    """A registered class as an entry of the registry."""

    listed = True

    def __init__(
        self, name: str, args: tuple[SqlType, ...], returns: SqlType, body: UserAggregate
    ) -> None:
        self.name = name
        self._args = args
        self._returns = returns
        self._body = body

    def passed_as(self, args: Sequence[SqlType]) -> Sequence[SqlType]:
        if len(args) != len(self._args):
            return args
        pairs = zip(args, self._args, strict=True)
        return [
            wanted if given.base in _WIDER.get(wanted.base, ()) else given
            for given, wanted in pairs
        ]

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if tuple(args) != self._args:
            wanted = ", ".join(str(a) for a in self._args)
            given = ", ".join(str(a) for a in args)
            raise ValueError(f"{self.name} takes ({wanted}), not ({given})")
        return self._returns

    def bind(self, call: AggregateCall) -> Aggregate:
        return _UserCall(call, self._body)


def aggregate(
    name: str, *, args: Sequence[str | SqlType], returns: str | SqlType
) -> Callable[[type[UserAggregate]], type[UserAggregate]]:
    """Registers a class as the SQL aggregate `name` (case-insensitive)."""

    def register(body: type[UserAggregate]) -> type[UserAggregate]:
        function = UserFunction(name.upper(), tuple(_type(a) for a in args), _type(returns), body())
        _REGISTERED[function.name] = function
        return body

    return register


def _type(given: str | SqlType) -> SqlType:
    return given if isinstance(given, SqlType) else SqlType(Base(given.upper()))


def registered() -> dict[str, UserFunction]:
    """The aggregates registered so far, by upper-case name."""
    return dict(_REGISTERED)


def load_functions(paths: Sequence[str]) -> dict[str, UserFunction]:
    """Runs each Python file once and returns all registered aggregates.

    Raises:
        InvalidConfig: a file is missing or raises.
    """
    for path in paths:
        _load(path)
    return registered()


_LOADED: dict[str, str] = {}  # resolved path -> path as given


def loaded_files() -> tuple[str, ...]:
    """The Python files that `load_functions` has run in this process, by the paths given.

    A path may resolve to a different place in another pod.
    """
    return tuple(_LOADED.values())


def _load(path: str) -> None:
    resolved = str(Path(path).resolve())
    if resolved in _LOADED:
        return
    spec = importlib.util.spec_from_file_location(f"holdfast_functions_{len(_LOADED)}", resolved)
    try:
        if spec is None or spec.loader is None:
            raise ImportError("not a Python file")  # noqa: TRY301 - one message for both
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except Exception as error:
        raise InvalidConfig(
            f"The functions file {path} could not be loaded: {type(error).__name__}: {error}",
            action="correct the property 'functions' or the file",
        ) from error
    _LOADED[resolved] = path
