"""State keys in Spark SQL, as the first release made them, for comparison with the engine's."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.types.columns.schema import Base, SqlType
from holdfast.types.statements.expressions import NamedExpression

__all__ = ["state_key_sql"]

_NUMBERS = (Base.INTEGER, Base.BIGINT)


def state_key_sql(keys: Sequence[NamedExpression], *, parts_may_miss: bool = False) -> str:
    """Spark SQL for the state key (BINARY, null if a part is null).

    With `parts_may_miss` it is null only if all parts are, as in the rows of a table.
    """
    if len(keys) == 1 and keys[0].column.type.base in (Base.STRING, *_NUMBERS):
        return f"CAST({keys[0].expression.canonical} AS BINARY)"
    parts = ", ".join(f"{_jsonable(k)} AS k{i}" for i, k in enumerate(keys))
    joined = " OR " if parts_may_miss else " AND "
    present = joined.join(f"({k.expression.canonical}) IS NOT NULL" for k in keys)
    return f"CASE WHEN {present} THEN CAST(to_json(struct({parts})) AS BINARY) END"


_CONVERTED = {
    Base.DECIMAL: "CAST({} AS STRING)",
    Base.BYTES: "base64({})",
    Base.DATE: "unix_date({})",
    Base.TIMESTAMP: "unix_micros({})",
}


def _jsonable(key: NamedExpression) -> str:
    return _converted(key.expression.canonical, key.column.type, 0)


def _converted(sql: str, kind: SqlType, depth: int) -> str:
    """Spark SQL for a value that JSON represents exactly; `_from_json` is the inverse."""
    if kind.base is Base.ARRAY and kind.element is not None:
        name = f"e{depth}"
        element = _converted(name, kind.element, depth + 1)
        return sql if element == name else f"transform({sql}, {name} -> {element})"
    if kind.base is not Base.STRUCT:
        return _CONVERTED.get(kind.base, "{}").format(sql)
    parts = [f"({sql}).`{f.name}`" for f in kind.fields]
    values = [_converted(p, f.type, depth) for p, f in zip(parts, kind.fields, strict=True)]
    if values == parts:
        return sql
    named = ", ".join(f"{v} AS `{f.name}`" for v, f in zip(values, kind.fields, strict=True))
    return f"CASE WHEN ({sql}) IS NOT NULL THEN struct({named}) END"
