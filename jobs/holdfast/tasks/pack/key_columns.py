"""State keys of whole columns; `tasks.evaluate.keys` says how they are laid out.

Stores and changelogs hold keys that Spark's `to_json` wrote, and the hash partition of a key is
that of its bytes.  So these are the very bytes that Spark writes: Jackson's escapes, no nulls in
objects, decimals with exponents, Base64 in lines, and doubles as Java 17 prints them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.as_numbers import as_numbers
from holdfast.tasks.evaluate.java_doubles import java_double
from holdfast.types.columns.schema import Base, SqlType

__all__ = ["state_keys"]

_BIG_ENDIAN = {Base.INTEGER: ">i4", Base.BIGINT: ">i8"}
_PLAIN = (Base.BOOLEAN, Base.INTEGER, Base.BIGINT, Base.DATE, Base.TIME, Base.TIMESTAMP)
_QUOTED = (Base.STRING, Base.DECIMAL, Base.BYTES)
_BASE64_LINE = 76  # characters
_Writer: TypeAlias = Callable[[Any], str]


def state_keys(
    columns: Sequence[pa.Array], kinds: Sequence[SqlType], *, parts_may_miss: bool = False
) -> pa.Array:
    """The state keys of rows of key columns, as a BINARY array.

    Args:
        columns: arrays of one length, one or more, each of the Arrow type of its kind.
        kinds: none is a MAP or has one inside.
        parts_may_miss: a row without some of the parts has a key, as in a table; it is null only
            if all parts are.  Otherwise it is null if any part is.
    """
    first = kinds[0].base
    if len(columns) == 1 and first is Base.STRING:
        return columns[0].cast(pa.binary())
    if len(columns) == 1 and first in _BIG_ENDIAN:
        return _big_endian(columns[0], first)
    objects = _partial if parts_may_miss and any(c.null_count for c in columns) else _complete
    return objects(columns, kinds).cast(pa.binary())


def _big_endian(column: pa.Array, base: Base) -> pa.Array:
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(_BIG_ENDIAN[base])
    width = numbers.itemsize
    offsets = np.arange(0, (len(column) + 1) * width, width, dtype=np.int32)
    is_null = column.is_null() if column.null_count else None
    valid = pc.invert(is_null) if is_null is not None else None
    mask = valid.buffers()[1] if valid is not None else None
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(numbers.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(column), buffers)


def _complete(columns: Sequence[pa.Array], kinds: Sequence[SqlType]) -> pa.Array:
    """JSON objects of all parts; null where one is null."""
    parts: list[pa.Array | str] = []
    for i, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        quote = _quote(kind)
        parts += [f'{"," if i else "{"}"k{i}":{quote}', _texts(column, kind), quote]
    return pc.binary_join_element_wise(*parts, "}", "")


def _partial(columns: Sequence[pa.Array], kinds: Sequence[SqlType]) -> pa.Array:
    """JSON objects of the parts that are there; null where all are null."""
    parts: list[pa.Array] = []
    for i, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        head, quote = f',"k{i}":', _quote(kind)
        part = pc.binary_join_element_wise(head + quote, _texts(column, kind), quote, "")
        parts.append(part.fill_null(""))  # Arrow's own way to skip nulls loses rows of nothing else
    inside = pc.binary_join_element_wise(*parts, "")
    present = pc.if_else(pc.equal(inside, ""), pa.scalar(None, pa.string()), inside)
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(present, 1), "}", "")


def _quote(kind: SqlType) -> str:
    return '"' if kind.base in _QUOTED else ""


def _texts(column: pa.Array, kind: SqlType) -> pa.Array:
    """Each value as JSON, without the quotes of `_quote`."""
    if kind.base is Base.STRING:
        return _escaped(column)
    if kind.base in _PLAIN:
        return as_numbers(column).cast(pa.string())
    if kind.base is Base.DECIMAL:
        return column.cast(pa.string())  # Arrow writes exponents where Java does
    write = _lines if kind.base is Base.BYTES else _writer(kind)
    values = as_numbers(column).to_pylist()
    return pa.array([None if v is None else write(v) for v in values], pa.string())


# As written by Jackson, Spark's JSON library.
_ESCAPES = {c: f"\\u{c:04X}" for c in range(32)}
_ESCAPES |= {
    ord(c): escaped
    for c, escaped in zip(
        '\b\t\n\f\r"\\', ("\\b", "\\t", "\\n", "\\f", "\\r", '\\"', "\\\\"), strict=True
    )
}


def _escaped(column: pa.Array) -> pa.Array:
    """Text escaped for JSON, without quotes."""
    if not pc.any(pc.match_substring_regex(column, r'["\\\x00-\x1f]')).as_py():
        return column
    written = [None if v is None else v.translate(_ESCAPES) for v in column.to_pylist()]
    return pa.array(written, pa.string())


def _lines(data: bytes) -> str:
    """Base64 in lines, escaped for JSON."""
    text = base64.b64encode(data).decode()
    return "\\r\\n".join(text[at : at + _BASE64_LINE] for at in range(0, len(text), _BASE64_LINE))


def _writer(kind: SqlType) -> _Writer:
    """A function that writes values of `as_numbers` as JSON; it takes no None."""
    if kind.base is Base.ARRAY and kind.element is not None:
        return _array_writer(_writer(kind.element))
    if kind.base is Base.STRUCT:
        return _struct_writer({f.name: _writer(f.type) for f in kind.fields})
    return _WRITERS[kind.base]


def _array_writer(write: _Writer) -> _Writer:
    def written(values: Sequence[Any]) -> str:
        return "[" + ",".join("null" if v is None else write(v) for v in values) + "]"

    return written


def _struct_writer(writers: dict[str, _Writer]) -> _Writer:
    heads = {name: f"{_text(name)}:" for name in writers}

    def written(value: dict[str, Any]) -> str:
        there = (name for name in writers if value[name] is not None)
        return "{" + ",".join(heads[name] + writers[name](value[name]) for name in there) + "}"

    return written


def _text(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _double(value: float) -> str:
    return java_double(value) if value - value == 0 else f'"{java_double(value)}"'


def _decimal(value: Decimal) -> str:
    return f'"{value}"'


def _bytes(value: bytes) -> str:
    return f'"{_lines(value)}"'


def _boolean(value: bool) -> str:
    return "true" if value else "false"


_WRITERS: dict[Base, _Writer] = {
    **dict.fromkeys(_PLAIN, str),
    Base.BOOLEAN: _boolean,
    Base.DOUBLE: _double,
    Base.DECIMAL: _decimal,
    Base.STRING: _text,
    Base.BYTES: _bytes,
}
