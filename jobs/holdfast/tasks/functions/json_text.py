"""Functions over JSON text, with numbers kept as they were written."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from holdfast.tasks.evaluate.java_doubles import java_double
from holdfast.tasks.functions.base import PythonFunction, Types
from holdfast.types.columns.schema import Base, SqlType

__all__ = ["JSON_TEXT"]

_STEP = re.compile(r'\.([\w:@]+)|\["((?:[^"\\]|\\["\\])*)"\]|\[(\w+)\]')
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MISSING = object()


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_constant)


def _parse(text: str) -> Any:
    """The first JSON value of the text, `_MISSING` for an empty text."""
    start = text.lstrip(" \t\r\n")
    return _DECODER.raw_decode(start)[0] if start else _MISSING


def _write(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_string(k)}:{_write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        text = java_double(value)
        return text if value - value == 0 else f'"{text}"'
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _write(value)


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[str, ...]:
    """The names and indexes of a path such as $.a["b c"][0].

    Raises:
        ValueError: the path is invalid.
    """
    if not path.startswith("$"):
        raise ValueError(path)
    steps: list[str] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(path)
        name, quoted, index = found.groups()
        steps.append(name or index or re.sub(r"\\(.)", r"\1", quoted or ""))
        at = found.end()
    return tuple(steps)


def _extract(text: str, path: str) -> str | None:
    steps = _steps(path)
    node = _parse(text)
    for step in steps:
        if isinstance(node, list) and step.isdigit():
            node = node[int(step)] if int(step) < len(node) else _MISSING
        else:
            node = node.get(step, _MISSING) if isinstance(node, dict) else _MISSING
    return None if node is _MISSING else _plain(node)


def _is_json(text: str | None) -> bool:
    try:
        return text is not None and _parse(text) is not _MISSING
    except ValueError:
        return False


def _contains(types: Types, text: str | None, value: Any) -> bool:
    """Whether a JSON array contains a scalar equal to the value and of its kind."""
    try:
        items = _parse(text or "")
    except ValueError:
        return False
    fits = _KINDS.get(types.args[1].base, lambda item: item is None)
    return isinstance(items, list) and any(
        item is None if value is None else fits(item) and item == value for item in items
    )


def _whole(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool)


_KINDS: dict[Base, Callable[[Any], bool]] = {
    Base.INTEGER: _whole,
    Base.BIGINT: _whole,
    Base.DOUBLE: lambda item: isinstance(item, Decimal),
    Base.STRING: lambda item: isinstance(item, str),
    Base.BOOLEAN: lambda item: isinstance(item, bool),
}


def _json_contains(types: Types, text: str | None, value: Any) -> bool:
    if isinstance(value, float):
        value = Decimal(repr(value))
    return _contains(types, text, value)


def _length(text: str) -> int | None:
    items = _parse(text)
    return len(items) if isinstance(items, list) else None


def _items(text: str) -> list[str]:
    items = _parse(text)
    if not isinstance(items, list):
        raise TypeError("no array")
    return [_write(item) for item in items]


def _keys(text: str) -> list[str] | None:
    found = _parse(text)
    return list(found) if isinstance(found, dict) else None


def _records(text: str) -> dict[str, str] | None:
    found = _parse(text)
    return {k: _plain(v) for k, v in found.items()} if isinstance(found, dict) else None


def _concat(*texts: str) -> str | None:
    nodes = [_parse(t) for t in texts]
    if any(n is _MISSING for n in nodes):
        return None
    if all(isinstance(n, dict) for n in nodes):
        return _write({k: v for n in nodes for k, v in n.items()})
    if len(nodes) == 1:
        return _write(nodes[0])
    return _write([item for n in nodes for item in (n if isinstance(n, list) else [n])])


def _to_json(types: Types, value: Any) -> str:
    return _write(_prepared(value, types.args[0]))


def _prepared(value: Any, sql_type: SqlType) -> Any:
    """A value as ksqlDB writes it: names in order, times as text, bytes as base64."""
    if value is None:
        return None
    if sql_type.base in _TEXTS:
        return _TEXTS[sql_type.base](value)
    if sql_type.base is Base.ARRAY and sql_type.element is not None:
        return [_prepared(v, sql_type.element) for v in value]
    if sql_type.base is Base.MAP and sql_type.element is not None:
        element = sql_type.element
        return {str(k): _prepared(v, element) for k, v in sorted(value.items())}
    if sql_type.base is Base.STRUCT:
        fields = sorted(sql_type.fields, key=lambda f: f.name)
        return {f.name: _prepared(value[f.name], f.type) for f in fields}
    return value


def _moment(ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


def _time(ms: int) -> str:
    """A time in whole seconds; zero seconds are left out."""
    return (_EPOCH + timedelta(milliseconds=ms)).strftime("%H:%M:%S").removesuffix(":00")


_TEXTS: Mapping[Base, Callable[[Any], str]] = {
    Base.TIME: _time,
    Base.DATE: lambda days: (_EPOCH + timedelta(days=days)).date().isoformat(),
    Base.TIMESTAMP: _moment,
    Base.BYTES: lambda raw: base64.b64encode(raw).decode(),
}

JSON_TEXT = (
    PythonFunction("EXTRACTJSONFIELD", _extract),
    PythonFunction("IS_JSON_STRING", _is_json, nulls=True),
    PythonFunction("JSON_ARRAY_CONTAINS", _json_contains, nulls=True, typed=True),
    PythonFunction("JSON_ARRAY_LENGTH", _length),
    PythonFunction("JSON_CONCAT", _concat),
    PythonFunction("JSON_ITEMS", _items),
    PythonFunction("JSON_KEYS", _keys),
    PythonFunction("JSON_RECORDS", _records),
    PythonFunction("TO_JSON_STRING", _to_json, nulls=True, typed=True),
)
