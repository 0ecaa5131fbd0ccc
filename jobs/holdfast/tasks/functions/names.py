"""The SQL name of a Python function, which encodes its argument and result types.

`hf_split__asss` is SPLIT, from two STRINGs to an ARRAY<STRING>.  The name alone is enough to
register the function: an executor needs no catalog of calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.types.columns.schema import Base, Column, SqlType

__all__ = ["DUCK", "calls_in", "split_name", "sql_name"]

# The function that evaluates DuckDB SQL, its first argument, over its other arguments.
DUCK = "DUCK"
_CALL = re.compile(r"\bhf_[a-z0-9_]+(?=\()")
_SIMPLE = {
    "b": Base.BOOLEAN, "i": Base.INTEGER, "l": Base.BIGINT, "d": Base.DOUBLE, "s": Base.STRING,
    "y": Base.BYTES, "t": Base.DATE, "h": Base.TIME, "z": Base.TIMESTAMP,
}  # fmt: skip
_LETTERS = {base: letter for letter, base in _SIMPLE.items()}


def sql_name(function: str, result: SqlType, args: Sequence[SqlType]) -> str:
    """The engines' name for `function` over these types."""
    return f"hf_{function.lower()}__{''.join(_encode(t) for t in (result, *args))}"


def split_name(name: str) -> tuple[str, SqlType, tuple[SqlType, ...]]:
    """The function (upper-case), its result type and its argument types.

    Raises:
        ValueError: `name` was not made by `sql_name`.
    """
    function, _, code = name.removeprefix("hf_").rpartition("__")
    types: list[SqlType] = []
    while code:
        sql_type, code = _decode(code)
        types.append(sql_type)
    if not types:
        raise ValueError(f"{name} says no types")
    return function.upper(), types[0], tuple(types[1:])


def calls_in(text: str) -> list[str]:
    """The names of all Python functions that an expression calls, each once."""
    return [name for name in dict.fromkeys(_CALL.findall(text)) if _is_name(name)]


def _is_name(name: str) -> bool:
    # A literal may contain text that looks like a call.
    try:
        split_name(name)
    except ValueError:
        return False
    return True


def _encode(sql_type: SqlType) -> str:
    if sql_type.base is Base.DECIMAL:
        return f"c{sql_type.precision}x{sql_type.scale}x"
    if sql_type.base is Base.STRUCT:
        fields = (f"{f.name.encode().hex()}x{_encode(f.type)}" for f in sql_type.fields)
        return f"r{len(sql_type.fields)}x{''.join(fields)}"
    if sql_type.element is not None and sql_type.base is Base.ARRAY:
        return f"a{_encode(sql_type.element)}"
    if sql_type.element is not None and sql_type.base is Base.MAP:
        return f"m{_encode(sql_type.map_key)}{_encode(sql_type.element)}"
    return _LETTERS[sql_type.base]


def _decode(code: str) -> tuple[SqlType, str]:
    letter, rest = code[:1], code[1:]
    if letter == "c":
        precision, scale, rest = rest.split("x", 2)
        return SqlType(Base.DECIMAL, precision=int(precision), scale=int(scale)), rest
    if letter == "a":
        element, rest = _decode(rest)
        return SqlType(Base.ARRAY, element=element), rest
    if letter == "m":
        key, rest = _decode(rest)
        element, rest = _decode(rest)
        return SqlType(Base.MAP, element=element, key=key), rest
    if letter == "r":
        count, _, rest = rest.partition("x")
        fields: list[Column] = []
        for _ in range(int(count)):
            name, _, rest = rest.partition("x")
            sql_type, rest = _decode(rest)
            fields.append(Column(bytes.fromhex(name).decode(), sql_type))
        return SqlType(Base.STRUCT, fields=tuple(fields)), rest
    if letter not in _SIMPLE:
        raise ValueError(f"no type is written {code}")
    return SqlType(_SIMPLE[letter]), rest
