"""All scalar functions by name: ksqlDB's, Spark's own that are useful beside them, the user's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from holdfast.sql.functions.collections import COLLECTIONS
from holdfast.sql.functions.data import DATA
from holdfast.sql.functions.numeric import NUMERIC
from holdfast.sql.functions.signatures import Overload, fn, py
from holdfast.sql.functions.text import TEXT
from holdfast.sql.functions.time import TIME
from holdfast.tasks.functions.user import UserScalar, user_functions
from holdfast.types.columns.schema import SqlType

__all__ = ["catalog", "function_names", "lookup_function"]


def _catalog() -> dict[str, tuple[Overload, ...]]:
    by_name: dict[str, list[Overload]] = defaultdict(list)
    for overload in (*TEXT, *NUMERIC, *TIME, *COLLECTIONS, *DATA):
        by_name[overload.name].append(overload)
    return {name: tuple(overloads) for name, overloads in by_name.items()}


_CATALOG = _catalog()


def catalog() -> Mapping[str, tuple[Overload, ...]]:
    """All functions that are built in, by upper-case name."""
    return _CATALOG


def lookup_function(name: str) -> tuple[Overload, ...]:
    """The overloads of a scalar function by its upper-case name; empty when there is none."""
    users = user_functions().get(name)
    return _CATALOG.get(name) or ((_user(users),) if users else ())


def function_names() -> list[str]:
    """All names, for "did you mean" and the documentation."""
    return sorted({*_CATALOG, *user_functions()})


def _pattern(sql_type: SqlType) -> str:
    """A type as signatures have it."""
    element = sql_type.element
    return sql_type.base.value if element is None else f"{sql_type.base}<{_pattern(element)}>"


def _user(function: UserScalar) -> Overload:
    args = ", ".join(_pattern(a) for a in function.args)
    signature = f"{function.name}({args}) -> {_pattern(function.returns)}"
    call = py(function.name)
    return fn(
        signature, call, call, lambda _given: function.returns,
        deterministic=function.deterministic,
    )  # fmt: skip
