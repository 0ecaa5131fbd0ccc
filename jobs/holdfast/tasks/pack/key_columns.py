"""State keys of whole columns, without Spark: equal to `tasks.evaluate.keys.state_key_sql`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.types.schema import Base, SqlType

__all__ = ["ESCAPES", "KEY_TYPES", "state_keys"]

KEY_TYPES = (Base.STRING, Base.INTEGER, Base.BIGINT)  # column types that `state_keys` takes
_BIG_ENDIAN = {Base.INTEGER: ">i4", Base.BIGINT: ">i8"}


def state_keys(columns: Sequence[pa.Array], kinds: Sequence[SqlType]) -> pa.Array:
    """The result of `state_key_sql` for STRING, INTEGER and BIGINT columns, as a BINARY array."""
    if len(columns) == 1:
        return _of_one(columns[0], kinds[0])
    parts: list[pa.Array | str] = []
    for i, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        text = kind.base is Base.STRING
        quote = '"' if text else ""
        value = _escaped(column) if text else column.cast(pa.string())
        parts += [f'{"," if i else "{"}"k{i}":{quote}', value, quote]
    return pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary())


# As written by Jackson, Spark's JSON library.
ESCAPES = {c: f"\\u{c:04X}" for c in range(32)}
ESCAPES |= {
    ord(c): escaped
    for c, escaped in zip(
        '\b\t\n\f\r"\\', ("\\b", "\\t", "\\n", "\\f", "\\r", '\\"', "\\\\"), strict=True
    )
}


def _escaped(column: pa.Array) -> pa.Array:
    """Text escaped for JSON, without quotes."""
    if not pc.any(pc.match_substring_regex(column, r'["\\\x00-\x1f]')).as_py():
        return column
    written = [None if v is None else v.translate(ESCAPES) for v in column.to_pylist()]
    return pa.array(written, pa.string())


def _of_one(column: pa.Array, kind: SqlType) -> pa.Array:
    if kind.base is Base.STRING:
        return column.cast(pa.binary())
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(_BIG_ENDIAN[kind.base])
    width = numbers.itemsize
    offsets = np.arange(0, (len(column) + 1) * width, width, dtype=np.int32)
    is_null = column.is_null() if column.null_count else None
    valid = pc.invert(is_null) if is_null is not None else None
    mask = valid.buffers()[1] if valid is not None else None
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(numbers.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(column), buffers)
