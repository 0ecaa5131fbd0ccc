"""Which Python functions exist, and how an engine calls one by its name in SQL."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pyarrow as pa

from holdfast.tasks.functions.base import PythonFunction, Types, evaluate
from holdfast.tasks.functions.collections import COLLECTIONS
from holdfast.tasks.functions.encodings import ENCODINGS
from holdfast.tasks.functions.hashes import HASHES
from holdfast.tasks.functions.json_text import JSON_TEXT
from holdfast.tasks.functions.names import split_name
from holdfast.tasks.functions.numbers import NUMBERS
from holdfast.tasks.functions.regular import REGULAR
from holdfast.tasks.functions.spark_text import SPARK_TEXT
from holdfast.tasks.functions.text import TEXT
from holdfast.tasks.functions.times import TIMES
from holdfast.tasks.functions.urls import URLS
from holdfast.tasks.functions.user import user_functions

__all__ = ["FUNCTIONS", "arrow_function", "lookup"]

FUNCTIONS: dict[str, PythonFunction] = {
    f.name: f
    for f in (
        *COLLECTIONS, *ENCODINGS, *HASHES, *JSON_TEXT, *NUMBERS, *REGULAR, *SPARK_TEXT, *TEXT,
        *TIMES, *URLS,
    )
}  # fmt: skip


def lookup(name: str) -> PythonFunction | None:
    """The function `name` (upper-case), built in or registered by the user."""
    found = user_functions().get(name)
    return FUNCTIONS.get(name) or (found.python if found else None)


@cache
def arrow_function(sql_name: str) -> Callable[..., pa.Array]:
    """The function behind a name of `names.sql_name`, over Arrow columns.

    Raises:
        KeyError: no such function is registered in this process.
    """
    name, result, args = split_name(sql_name)
    function = lookup(name)
    if function is None:
        raise KeyError(name)
    types = Types(result, args)

    def call(*columns: pa.Array) -> pa.Array:
        return evaluate(function, types, columns)

    return call
