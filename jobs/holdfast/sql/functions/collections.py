"""ksqlDB's functions over arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.sql.expressions.engines import DUCKDB
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.functions.signatures import Call, Overload, either, fill, fn, py, too_large
from holdfast.types.columns.schema import DOUBLE, STRING, Base, Column, SqlType

__all__ = ["COLLECTIONS", "joined"]


def _entries_type(given: Sequence[SqlType]) -> SqlType:
    value = given[0].element or STRING
    entry = SqlType(Base.STRUCT, fields=(Column("K", STRING), Column("V", value)))
    return SqlType(Base.ARRAY, element=entry)


def _entries(call: Call) -> str:
    map_, sort = call.args[0].sql, call.args[1].sql
    if call.engine is DUCKDB:
        made = "lambda __e: struct_pack(K := __e.key, V := __e.value)"
        entries = f"list_transform(map_entries({map_}), {made})"
        ordered = f"list_sort({entries})"
    else:
        entries = f"transform(map_entries({map_}), e -> named_struct('K', e.key, 'V', e.value))"
        ordered = f"array_sort({entries}, {_BY_KEY})"
    return f"CASE WHEN {sort} THEN {ordered} WHEN NOT {sort} THEN {entries} END"


_BY_KEY = "(a, b) -> CASE WHEN a.K < b.K THEN -1 WHEN a.K > b.K THEN 1 ELSE 0 END"


def _sort(call: Call) -> str:
    """Nulls last in both directions; an unknown direction gives NULL."""
    array = call.args[0].sql
    if call.engine is DUCKDB:
        up, down = (f"list_sort({array}, '{d}', 'NULLS LAST')" for d in ("ASC", "DESC"))
    else:
        up, down = f"array_sort({array})", f"sort_array({array}, false)"
    if len(call.args) == 1:
        return up
    direction = f"upper({call.args[1].sql})"
    return (
        f"CASE WHEN {direction} IN ('ASC', 'ASCENDING') THEN {up} "
        f"WHEN {direction} IN ('DESC', 'DESCENDING') THEN {down} END"
    )


_JOINED = (Base.BOOLEAN, Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.DECIMAL, Base.STRING)


_DELIMITER_MAX = 16


def _join(call: Call) -> str | None:
    if len(call.args) > 1 and len(str(call.constant(1) or " " * _DELIMITER_MAX)) >= _DELIMITER_MAX:
        return None  # one for each element may be too much
    return joined(call)


def joined(call: Call) -> str | None:
    """ARRAY_JOIN in Spark SQL, whatever the delimiter."""
    array, element = call.args[0].sql, call.args[0].type and call.args[0].type.element
    if element is None or element.base not in _JOINED:
        return None
    texts = array if element.base is Base.STRING else f"CAST({array} AS ARRAY<STRING>)"
    delimiter = call.args[1].sql if len(call.args) > 1 else "','"
    return f"array_join({texts}, coalesce({delimiter}, ''), 'null')"


def _join_python(call: Call) -> str:
    comma = Typed(STRING, "','", constant=(",",))
    return py("ARRAY_JOIN")(replace(call, args=(call.args[0], *(call.args[1:] or (comma,)))))


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
    made = f"WHEN {towards} THEN CAST({series} AS {call.engine.type_name(call.result)}) END"
    if call.engine is not DUCKDB:
        return f"CASE {made}"
    refused = too_large(call, f"abs({end} - {start})", _SERIES_MAX)
    return f"CASE WHEN NOT {short} THEN {refused} {made}"


_SERIES_MAX = 1_000_000
# A slice that reaches over an end of the array is NULL, one without a bound begins or ends there.
_FROM, _TO = "coalesce({1}, 1)", "coalesce({2}, size({0}))"
_INSIDE = f"{_FROM} >= 1 AND {_TO} <= size({{0}}) AND {_FROM} <= {_TO} + 1"


def _ordered(rendering: str | Callable[[Call], str]) -> Callable[[Call], str]:
    """Spark's own way over what has an order; maps have none, and the result is NULL as in Java."""

    def ordered(call: Call) -> str:
        if "MAP" in str(call.args[0].type):
            return f"CAST(NULL AS {call.engine.type_name(call.result)})"
        return fill(rendering, call) if isinstance(rendering, str) else rendering(call)

    return ordered


def _unless_maps(template: str, name: str) -> Callable[[Call], str]:
    """Spark's own way, where Spark can tell the elements apart: maps it cannot."""

    def rendering(call: Call) -> str:
        element = call.args[0].type and call.args[0].type.element
        maps = element is None or "MAP" in str(element)
        return py(name)(call) if maps else fill(template, call)

    return rendering


def _extreme(name: str) -> Callable[[Call], str]:
    """ARRAY_MAX or ARRAY_MIN in DuckDB, which of 0.0 and -0.0 does not take the first."""

    def rendering(call: Call) -> str:
        if call.result == DOUBLE:
            return py(f"ARRAY_{name}")(call)
        if "MAP" in str(call.result):
            return f"CAST(NULL AS {call.engine.type_name(call.result)})"
        return f"list_{name.lower()}({call.args[0].sql})"

    return rendering


# NULL, where an element that is not known might be in both.
_OVERLAP = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN list_has_any({0}, {1}) THEN true "
    "WHEN len({0}) = 0 OR len({1}) = 0 THEN false "
    "WHEN list_count({0}) = len({0}) AND list_count({1}) = len({1}) THEN false END"
)

COLLECTIONS: tuple[Overload, ...] = (
    fn(
        "ARRAY_CONCAT(ARRAY<T>, ARRAY<T>) -> ARRAY<T>",
        "CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} ELSE concat({0}, {1}) END",
        "CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} ELSE list_concat({0}, {1}) END",
    ),
    fn(
        "ARRAY_CONTAINS(ARRAY<T>, T) -> BOOLEAN",
        _unless_maps("coalesce(exists({0}, e -> e <=> {1}), false)", "ARRAY_CONTAINS"),
        "coalesce(len(list_filter({0}, lambda __e: __e IS NOT DISTINCT FROM {1})) > 0, false)",
    ),
    *(
        fn(f"{name}({params}) -> ARRAY<T>", _unless_maps(name.lower() + "({*})", name), py(name))
        for name, params in (
            ("ARRAY_DISTINCT", "ARRAY<T>"),
            ("ARRAY_EXCEPT", "ARRAY<T>, ARRAY<T>"),
            ("ARRAY_INTERSECT", "ARRAY<T>, ARRAY<T>"),
            ("ARRAY_UNION", "ARRAY<T>, ARRAY<T>"),
        )
    ),
    fn("ARRAY_JOIN(ARRAY<T>) -> STRING", either(_join, _join_python), _join_python),
    fn("ARRAY_JOIN(ARRAY<T>, STRING) -> STRING", either(_join, _join_python), _join_python),
    fn(
        "ARRAY_LENGTH(ARRAY<T>) -> INTEGER",
        "array_size({0})",
        "CAST(len({0}) AS INTEGER)",
    ),
    fn("ARRAY_MAX(ARRAY<T>) -> T", _ordered("array_max({0})"), _extreme("MAX")),
    fn("ARRAY_MIN(ARRAY<T>) -> T", _ordered("array_min({0})"), _extreme("MIN")),
    fn(
        "ARRAY_REMOVE(ARRAY<T>, T) -> ARRAY<T>",
        _unless_maps("filter({0}, e -> NOT (e <=> {1}))", "ARRAY_REMOVE"),
        "list_filter({0}, lambda __e: __e IS DISTINCT FROM {1})",
    ),
    fn("ARRAY_SORT(ARRAY<T>) -> ARRAY<T>", _ordered(_sort), _sort),
    fn("ARRAY_SORT(ARRAY<T>, STRING) -> ARRAY<T>", _ordered(_sort), _sort),
    fn(
        "AS_MAP(ARRAY<STRING>, ARRAY<T>) -> MAP<T>",
        "CASE WHEN {1} IS NOT NULL AND NOT exists({0}, e -> e IS NULL) "
        "THEN map_from_arrays({0}, transform({0}, (e, i) -> try_element_at({1}, i + 1))) END",
        py("AS_MAP"),
    ),
    fn("ENTRIES(MAP<T>, BOOLEAN) -> ARRAY<STRUCT>", _entries, _entries, _entries_type),
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
        f"CASE WHEN {_INSIDE} THEN slice({{0}}, {_FROM}, {_TO} - {_FROM} + 1) END",
        f"CASE WHEN {_INSIDE} THEN list_slice({{0}}, {_FROM}, {_TO}) END".replace("size(", "len("),
    ),
    # Spark's own, by its names.
    fn(
        "ARRAY_POSITION(ARRAY<T>, T) -> BIGINT",
        _ordered("array_position({0}, {1})"),
        _ordered(
            "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL "
            "THEN CAST(coalesce(list_position({0}, {1}), 0) AS BIGINT) END"
        ),
    ),
    fn(
        "ARRAYS_OVERLAP(ARRAY<T>, ARRAY<T>) -> BOOLEAN",
        _ordered("arrays_overlap({0}, {1})"),
        _ordered(_OVERLAP),
    ),
    fn(
        "FLATTEN(ARRAY<ARRAY<T>>) -> ARRAY<T>",
        "flatten({0})",
        "CASE WHEN list_count({0}) = len({0}) THEN flatten({0}) END",
    ),
)
