"""Registers Python functions with a Spark session under the names that its SQL calls."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from holdfast.tasks.aggregates.user import load_functions, loaded_files
from holdfast.tasks.functions.base import Types
from holdfast.tasks.functions.names import DUCK, split_name
from holdfast.tasks.functions.registry import arrow_function
from holdfast.types.expressions import Expression
from holdfast.types.topology import Query

__all__ = ["register_calls", "register_functions"]

_KNOWN: dict[str, set[str]] = {}


def register_functions(session: SparkSession, query: Query) -> None:
    """Registers the Python functions that a query's Spark SQL calls, each once per session.

    Executors find user-defined functions in the files that this process has loaded.
    """
    sides = range(len(query.sources))
    register_calls(session, [each for side in sides for each in query.over_records(side)])


def register_calls(session: SparkSession, expressions: Iterable[Expression]) -> None:
    """Registers the Python functions that expressions call, each once per session."""
    known = _KNOWN.setdefault(session._jsparkSession.sessionUUID(), set())
    for name in {name for each in expressions for name in each.functions} - known:
        _, result, _ = split_name(name)
        call = _Call(name, loaded_files())
        session.udf.register(name, arrow_udf(call.columns, result.spark()))
        known.add(name)


class _Call:
    """The callable that an executor runs; it looks the function up by name in the executor."""

    def __init__(self, name: str, files: tuple[str, ...]) -> None:
        self._name = name
        self._files = files

    def columns(self, *columns: pa.Array) -> pa.Array:
        function, result, args = split_name(self._name)
        if function == DUCK:
            from holdfast.tasks.functions.in_duckdb import duck  # DuckDB is not in every job

            return duck(Types(result, args), list(columns))
        _loaded(self._files)
        return arrow_function(self._name)(*columns)


@cache
def _loaded(files: tuple[str, ...]) -> None:
    load_functions(files)
