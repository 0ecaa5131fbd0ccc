"""Functions over arrays and maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from holdfast.tasks.evaluate.java_doubles import java_double
from holdfast.tasks.functions.base import PythonFunction
from holdfast.tasks.functions.limits import room, room_for

__all__ = ["COLLECTIONS"]

_CUBE_MAX = 20


def _key(value: Any) -> Any:
    """A hashable stand-in for a value, also a nested one; equal for equal values."""
    if isinstance(value, list):
        return ("[", *map(_key, value))
    if isinstance(value, dict):
        return ("{", frozenset((k, _key(v)) for k, v in value.items()))
    return type(value).__name__, "NaN" if value != value else value  # noqa: PLR0124 - a NaN


def _distinct(values: Iterable[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(_key(value), value)
    return list(found.values())


def _except(left: list[Any], right: list[Any]) -> list[Any]:
    without = {_key(v) for v in right}
    return [v for v in _distinct(left) if _key(v) not in without]


def _intersect(left: list[Any], right: list[Any]) -> list[Any]:
    both = {_key(v) for v in right}
    return [v for v in _distinct(left) if _key(v) in both]


def _union(left: list[Any], right: list[Any]) -> list[Any]:
    return _distinct([*left, *right])


def _join(values: list[Any], delimiter: str | None) -> str:
    texts = [_text(v) for v in values]
    room(sum(map(len, texts)) + len(texts) * len(delimiter or ""))
    return (delimiter or "").join(texts)


def _text(value: Any) -> str:
    """An element as Java prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (int, str)):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not joined")


def _split_to_map(text: str, entries: str, pair: str) -> dict[str, str] | None:
    if not entries or not pair or entries == pair:
        return None
    found = (e.split(pair) for e in text.split(entries) if pair in e)
    return {key: value for key, value, *_ in found}


def _cube(values: list[Any]) -> list[list[Any]]:
    """All combinations of the values and nulls; a value that is null already counts once."""
    count = len(values)
    if count > _CUBE_MAX:
        raise ValueError(f"{count} columns; at most {_CUBE_MAX}")
    room_for(count << sum(v is not None for v in values))
    here = sum(1 << (count - 1 - i) for i, v in enumerate(values) if v is not None)
    masks = (mask for mask in range(1 << count) if mask & here == mask)
    return [[v if m & (1 << (count - 1 - i)) else None for i, v in enumerate(values)]
            for m in masks]  # fmt: skip


def _series(start: int, end: int, step: int | None = None) -> list[int]:
    step = (1 if end > start else -1) if step is None else step
    if step == 0 or (end - start) * step < 0 or abs((end - start) // step) > _SERIES_MAX:
        raise ValueError("the step leads away from the end, or is too small")
    return list(range(start, end + (1 if step > 0 else -1), step))


_SERIES_MAX = 1_000_000


def _java_entries(map_: dict[str, Any]) -> list[dict[str, Any]]:
    """A map's entries in the order of Java's HashMap of this many entries."""
    slots = 1
    while slots * 0.75 < len(map_):
        slots *= 2
    keys = sorted(map_, key=lambda k: _java_hash(k) & (slots - 1))
    return [{"key": k, "value": map_[k]} for k in keys]


def _java_hash(text: str) -> int:
    code = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code ^ code >> 16


def _first_extreme(beats: Callable[[float, float], bool]) -> Callable[[list[Any]], float | None]:
    """The greatest or least DOUBLE, the first of equal ones; NaN is the greatest."""

    def extreme(values: list[Any]) -> float | None:
        found: float | None = None
        for value in values:
            if value is not None and (found is None or beats(value, found)):
                found = value
        return found

    return extreme


def _is_more(a: float, b: float) -> bool:
    return a > b or (math.isnan(a) and not math.isnan(b))


def _as_map(keys: list[str], values: list[Any]) -> dict[str, Any] | None:
    """A key's last value counts; keys without one have NULL."""
    if None in keys:
        return None
    return dict(zip_longest(keys, values[: len(keys)]))


def _map_of(entries: list[dict[str, Any]]) -> dict[Any, Any]:
    made = {entry["K"]: entry["V"] for entry in entries}
    if None in made:
        raise ValueError("a map has no NULL key")
    return made


def _contains(values: list[Any] | None, value: Any) -> bool:
    return values is not None and _key(value) in {_key(v) for v in values}


def _remove(values: list[Any] | None, value: Any) -> list[Any] | None:
    return None if values is None else [v for v in values if _key(v) != _key(value)]


COLLECTIONS = (
    PythonFunction("AS_MAP", _as_map),
    PythonFunction("ARRAY_CONTAINS", _contains, nulls=True),
    PythonFunction("ARRAY_DISTINCT", _distinct),
    PythonFunction("ARRAY_EXCEPT", _except),
    PythonFunction("ARRAY_INTERSECT", _intersect),
    PythonFunction("ARRAY_JOIN", lambda a, d: None if a is None else _join(a, d), nulls=True),
    PythonFunction("ARRAY_MAX", _first_extreme(_is_more)),
    PythonFunction("ARRAY_MIN", _first_extreme(lambda a, b: _is_more(b, a))),
    PythonFunction("ARRAY_REMOVE", _remove, nulls=True),
    PythonFunction("ARRAY_UNION", _union),
    PythonFunction("CUBE", _cube),
    PythonFunction("GENERATE_SERIES", _series),
    PythonFunction("JAVA_ENTRIES", _java_entries),
    PythonFunction("MAP_OF", _map_of),
    PythonFunction("NULLIF", lambda a, b: None if a == b else a, nulls=True),
    PythonFunction("SPLIT_TO_MAP", _split_to_map),
)
