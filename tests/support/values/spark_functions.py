"""Registers Python functions with a Spark session, for tests that compare it with DuckDB."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from holdfast.tasks.aggregates.user import load_functions, loaded_files
from holdfast.tasks.evaluate.outputs import evaluate_text
from holdfast.tasks.functions.base import Types
from holdfast.tasks.functions.in_duckdb import from_duckdb, to_duckdb
from holdfast.tasks.functions.names import DUCK, calls_in, split_name
from holdfast.tasks.functions.registry import arrow_function

__all__ = ["register_calls"]

_KNOWN: dict[str, set[str]] = {}


def register_calls(session: SparkSession, texts: Iterable[str]) -> None:
    """Registers the Python functions that Spark SQL calls, each once per session."""
    known = _KNOWN.setdefault(session._jsparkSession.sessionUUID(), set())
    for name in {name for text in texts for name in calls_in(text)} - known:
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
            return _duck(Types(result, args), list(columns))
        _loaded(self._files)
        return arrow_function(self._name)(*columns)


@cache
def _loaded(files: tuple[str, ...]) -> None:
    load_functions(files)


def _duck(types: Types, columns: list[pa.Array]) -> pa.Array:
    """Evaluates DuckDB SQL (the first column's only value) over the others as a0, a1 and so on."""
    text, *rest = columns
    frame = {f"a{i}": to_duckdb(c) for i, c in enumerate(rest)} or {"a0": text}
    if not len(text):
        return pa.array([], types.result.arrow())
    found = evaluate_text(text[0].as_py(), types.result, frame)
    return from_duckdb(found, types.result.arrow())
