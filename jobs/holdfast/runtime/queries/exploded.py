"""Table functions: explode several arrays into rows in parallel."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, expr

from holdfast.types.topology import NamedExpression

__all__ = ["exploded"]

_ROW = "__exploded"


def exploded(frame: DataFrame, arrays: Sequence[NamedExpression]) -> DataFrame:
    """One row per element of the longest array, one column per array; shorter arrays give nulls.

    A record whose arrays are all empty or NULL gives no row.  Rows keep their order.
    """
    if not arrays:
        return frame
    names = [f"{_ROW}_{i}" for i in range(len(arrays))]
    made = {n: expr(_present(a)) for n, a in zip(names, arrays, strict=True)}
    zipped = frame.withColumns(made).withColumn(
        _ROW, expr(f"explode(arrays_zip({', '.join(names)}))")
    )
    columns = {a.name: col(f"{_ROW}.{n}") for n, a in zip(names, arrays, strict=True)}
    return zipped.withColumns(columns)


def _present(array: NamedExpression) -> str:
    whole = array.expression.type.spark()
    return f"coalesce(CAST({array.sql} AS {whole}), CAST(array() AS {whole}))"
