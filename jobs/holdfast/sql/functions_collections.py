"""ksqlDB's functions over arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.sql.engines import DUCKDB
from holdfast.sql.functions import Call, Overload, fn
from holdfast.types.schema import STRING, Base, Column, SqlType

__all__ = ["COLLECTIONS"]


def _entries_type(given: Sequence[SqlType]) -> SqlType:
    value = given[0].element or STRING
    entry = SqlType(Base.STRUCT, fields=(Column("K", STRING), Column("V", value)))
    return SqlType(Base.ARRAY, element=entry)


def _entries(call: Call) -> str | None:
    map_, sort = call.args[0].sql, call.constant(1)
    if not isinstance(sort, bool):
        return None
    entries = f"transform(map_entries({map_}), e -> named_struct('K', e.key, 'V', e.value))"
    return f"array_sort({entries}, {_BY_KEY})" if sort else entries


_BY_KEY = "(a, b) -> CASE WHEN a.K < b.K THEN -1 WHEN a.K > b.K THEN 1 ELSE 0 END"


def _sort(call: Call) -> str | None:
    array = call.args[0].sql
    direction = str(call.constant(1) or "ASC").upper() if len(call.args) > 1 else "ASC"
    if direction not in ("ASC", "DESC"):
        return None
    if call.engine is DUCKDB:
        return f"list_sort({array}, '{direction}', 'NULLS LAST')"
    # array_sort puts nulls last, sort_array(…, false) does for descending order.
    return f"array_sort({array})" if direction == "ASC" else f"sort_array({array}, false)"


def _join(call: Call) -> str | None:
    array = call.args[0].sql
    delimiter = call.args[1].sql if len(call.args) > 1 else "','"
    if call.engine is not DUCKDB:
        return f"array_join({array}, {delimiter}, 'null')"
    if len(call.args) > 1 and call.constant(1) is None:
        return None  # DuckDB joins with constants only
    texts = f"list_transform({array}, lambda e: coalesce(CAST(e AS VARCHAR), 'null'))"
    return f"array_to_string({texts}, {delimiter})"


def _series(call: Call) -> str:
    start, end = call.args[0].sql, call.args[1].sql
    down = f"CASE WHEN {start} <= {end} THEN 1 ELSE -1 END"
    step = call.args[2].sql if len(call.args) > 2 else down
    if call.engine is DUCKDB:
        series = f"generate_series({start}, {end}, {step})"
    else:
        series = f"sequence({start}, {end}, {step})"
    # Spark fails its job where the step leads away from the end, and on arrays without bounds.
    short = f"abs({end} - {start}) <= {_SERIES_MAX}"
    towards = f"sign({step}) * sign({end} - {start}) >= 0 AND {step} <> 0 AND {short}"
    return f"CASE WHEN {towards} THEN CAST({series} AS {call.engine.type_name(call.result)}) END"


_SERIES_MAX = 1_000_000

COLLECTIONS: tuple[Overload, ...] = (
    fn(
        "ARRAY_CONCAT(ARRAY<T>, ARRAY<T>) -> ARRAY<T>",
        "CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} ELSE concat({0}, {1}) END",
        "list_concat({0}, {1})",
    ),
    fn(
        "ARRAY_CONTAINS(ARRAY<T>, T) -> BOOLEAN",
        "coalesce(exists({0}, e -> e <=> {1}), false)",
        "coalesce(list_contains({0}, {1}), false)",
    ),
    fn("ARRAY_DISTINCT(ARRAY<T>) -> ARRAY<T>", "array_distinct({0})"),
    fn("ARRAY_EXCEPT(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", "array_except({0}, {1})"),
    fn("ARRAY_INTERSECT(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", "array_intersect({0}, {1})"),
    fn("ARRAY_JOIN(ARRAY<T>) -> STRING", _join, _join),
    fn("ARRAY_JOIN(ARRAY<T>, STRING) -> STRING", _join, _join),
    fn(
        "ARRAY_LENGTH(ARRAY<T>) -> INTEGER",
        "array_size({0})",
        "CAST(len({0}) AS INTEGER)",
    ),
    fn("ARRAY_MAX(ARRAY<T>) -> T", "array_max({0})", "list_max({0})"),
    fn("ARRAY_MIN(ARRAY<T>) -> T", "array_min({0})", "list_min({0})"),
    fn(
        "ARRAY_REMOVE(ARRAY<T>, T) -> ARRAY<T>",
        "filter({0}, e -> NOT (e <=> {1}))",
        "list_filter({0}, lambda e: e IS DISTINCT FROM {1})",
    ),
    fn("ARRAY_SORT(ARRAY<T>) -> ARRAY<T>", _sort, _sort),
    fn("ARRAY_SORT(ARRAY<T>, STRING) -> ARRAY<T>", _sort, _sort),
    fn("ARRAY_UNION(ARRAY<T>, ARRAY<T>) -> ARRAY<T>", "array_union({0}, {1})"),
    fn(
        "AS_MAP(ARRAY<STRING>, ARRAY<T>) -> MAP<T>",
        "CASE WHEN size({0}) = size({1}) AND NOT exists({0}, e -> e IS NULL) "
        "THEN map_from_arrays({0}, {1}) END",
        "map({0}, {1})",
    ),
    fn("ENTRIES(MAP<T>, BOOLEAN) -> ARRAY<T>", _entries, result=_entries_type),
    fn("GENERATE_SERIES(INTEGER, INTEGER) -> ARRAY<INTEGER>", _series, _series),
    fn("GENERATE_SERIES(BIGINT, BIGINT) -> ARRAY<BIGINT>", _series, _series),
    fn("GENERATE_SERIES(INTEGER, INTEGER, INTEGER) -> ARRAY<INTEGER>", _series, _series),
    fn("GENERATE_SERIES(BIGINT, BIGINT, INTEGER) -> ARRAY<BIGINT>", _series, _series),
    fn("MAP_KEYS(MAP<T>) -> ARRAY<STRING>", "map_keys({0})", "map_keys({0})"),
    fn("MAP_VALUES(MAP<T>) -> ARRAY<T>", "map_values({0})", "map_values({0})"),
    fn(
        "MAP_UNION(MAP<T>, MAP<T>) -> MAP<T>",
        "CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} ELSE map_concat({0}, {1}) END",
        "CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} ELSE map_concat({0}, {1}) END",
    ),
    fn(
        "SLICE(ARRAY<T>, INTEGER, INTEGER) -> ARRAY<T>",
        "CASE WHEN {1} > 0 THEN slice({0}, {1}, greatest({2} - {1} + 1, 0)) END",
        "CASE WHEN {1} > 0 THEN list_slice({0}, {1}, {2}) END",
    ),
    # Spark's own, by its names.
    fn("SIZE(ARRAY<T>) -> INTEGER", "array_size({0})", "CAST(len({0}) AS INTEGER)"),
    fn("SIZE(MAP<T>) -> INTEGER", "size({0})", "CAST(cardinality({0}) AS INTEGER)"),
    fn("ARRAY_POSITION(ARRAY<T>, T) -> BIGINT", "array_position({0}, {1})"),
    fn("ARRAYS_OVERLAP(ARRAY<T>, ARRAY<T>) -> BOOLEAN", "arrays_overlap({0}, {1})"),
    fn("FLATTEN(ARRAY<ARRAY<T>>) -> ARRAY<T>", "flatten({0})", "flatten({0})"),
)
