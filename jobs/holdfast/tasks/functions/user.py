"""User-defined scalar functions, registered from Python.

    from holdfast import function

    @function("INITIALS", args=["STRING"], returns="STRING")
    def initials(name):
        return "".join(word[0] for word in name.split())

Arguments are plain Python values: dates are days since the epoch, timestamps milliseconds since
the epoch, times milliseconds of the day.  One NULL argument gives NULL without a call, unless
`nulls=True`; a call that raises gives NULL, too.  `deterministic=True` declares that the same
arguments always give the same result; a key may only use such functions.  Registering a name again
replaces the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.tasks.functions.base import PythonFunction
from holdfast.types.columns.schema import Base, SqlType

__all__ = ["UserScalar", "function", "user_functions"]

_NESTED = re.compile(r"(ARRAY|MAP)<(?:STRING *, *)?(.+)>")
_DECIMAL = re.compile(r"DECIMAL\( *(\d+) *, *(\d+) *\)")
_SYNONYMS = {"INT": Base.INTEGER, "VARCHAR": Base.STRING}
Body = TypeVar("Body", bound=Callable[..., Any])


@dataclass(frozen=True)
class UserScalar:
    """A registered function: its signature, its declared properties, and the body to call."""

    name: str
    args: tuple[SqlType, ...]
    returns: SqlType
    description: str
    python: PythonFunction
    deterministic: bool = False


_REGISTERED: dict[str, UserScalar] = {}


def function(
    name: str,
    *,
    args: Sequence[str | SqlType],
    returns: str | SqlType,
    nulls: bool = False,
    deterministic: bool = False,
) -> Callable[[Body], Body]:
    """Registers a Python function as the SQL scalar function `name` (case-insensitive).

    Raises:
        ValueError: the function takes no argument, or `name` is not a plain name.
    """
    if not args or not name.isidentifier():
        raise ValueError(f"the function {name} needs a plain name and at least one argument")

    def register(body: Body) -> Body:
        upper = name.upper()
        _REGISTERED[upper] = UserScalar(
            upper,
            tuple(_type(a) for a in args),
            _type(returns),
            ((body.__doc__ or "").strip().splitlines() or ["User-defined."])[0],
            PythonFunction(upper, body, nulls=nulls),
            deterministic,
        )
        return body

    return register


def _type(given: str | SqlType) -> SqlType:
    """A type from its text: a base type, DECIMAL(p, s), ARRAY<T> or MAP<STRING, T>."""
    if isinstance(given, SqlType):
        return given
    text = given.strip().upper()
    nested = _NESTED.fullmatch(text)
    if nested:
        return SqlType(Base(nested.group(1)), element=_type(nested.group(2)))
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        precision, scale = map(int, decimal.groups())
        return SqlType(Base.DECIMAL, precision=precision, scale=scale)
    return SqlType(_SYNONYMS.get(text) or Base(text))


def user_functions() -> dict[str, UserScalar]:
    """The functions registered so far, by upper-case name."""
    return _REGISTERED
