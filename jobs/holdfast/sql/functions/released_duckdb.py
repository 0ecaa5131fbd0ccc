"""DuckDB's texts of functions in the first release, for fingerprints; see `sql.released`.

Where DuckDB had its own values, for text that is not ASCII, at the bounds of a type, for NaN, it
has Spark's now: before the shuffle they are in stores already.
"""

from __future__ import annotations

from holdfast.sql.functions.signatures import Rendering, py

__all__ = ["DUCKDB_BEFORE", "NOT_IN_DUCKDB"]

NOT_IN_DUCKDB = (
    "ARRAYS_OVERLAP(ARRAY<T>, ARRAY<T>)", "ARRAY_POSITION(ARRAY<T>, T)", "CRC32(STRING)",
    "HEX(BIGINT)", "HYPOT(DOUBLE, DOUBLE)", "ISNAN(DOUBLE)", "LEVENSHTEIN(STRING, STRING)",
    "PARSE_URL(STRING, STRING)", "PMOD(BIGINT, BIGINT)", "SHA2(STRING, INTEGER)",
    "SOUNDEX(STRING)", "SUBSTR(STRING, INTEGER)", "SUBSTR(STRING, INTEGER, INTEGER)",
    "SUBSTRING_INDEX(STRING, STRING, INTEGER)", "UNBASE64(STRING)", "XXHASH64(STRING)",
)  # fmt: skip

_ENTRIES = "list_transform(map_entries({0}), lambda e: struct_pack(K := e.key, V := e.value))"
DUCKDB_BEFORE: dict[str, Rendering] = {
    **{
        f"{name}(STRING)": f"{duck}({{0}})"
        for name, duck in (
            ("LCASE", "lower"),
            ("LOWER", "lower"),
            ("LTRIM", "ltrim"),
            ("REVERSE", "reverse"),
            ("RTRIM", "rtrim"),
            ("UCASE", "upper"),
            ("UPPER", "upper"),
        )
    },
    **{
        f"{name}(STRING, INTEGER)": f"{name.lower()}({{0}}, greatest({{1}}, 0))"
        for name in ("LEFT", "RIGHT")
    },
    **{f"{name}(N)": f"CAST({name.lower()}({{0}}) AS {{r}})" for name in ("CEIL", "FLOOR")},
    "ABS(N)": "abs({0})",
    "ARRAY_CONTAINS(ARRAY<T>, T)": "coalesce(len(list_filter({0}, lambda e: e IS NOT DISTINCT "
    "FROM {1})) > 0, false)",
    "ARRAY_REMOVE(ARRAY<T>, T)": "list_filter({0}, lambda e: e IS DISTINCT FROM {1})",
    "ENTRIES(MAP<T>, BOOLEAN)": "CASE WHEN {1} THEN list_sort(" + _ENTRIES + ") WHEN NOT {1} "
    "THEN " + _ENTRIES + " END",
    "ARRAY_MAX(ARRAY<T>)": "list_max({0})",
    "ARRAY_MIN(ARRAY<T>)": "list_min({0})",
    "AS_MAP(ARRAY<STRING>, ARRAY<T>)": "CASE WHEN {1} IS NOT NULL THEN map({0}, "
    "list_resize(list_slice({1}, 1, len({0})), len({0}))) END",
    "ATAN2(DOUBLE, DOUBLE)": "atan2({0}, {1})",
    "CEILING(DOUBLE)": "CAST(ceil({0}) AS BIGINT)",
    "COT(DOUBLE)": "CASE WHEN {0} = 0 THEN CAST('Infinity' AS DOUBLE) ELSE cot({0}) END",
    "DATE_ADD(DATE, INTEGER)": "({0} + {1})",
    "DATE_SUB(DATE, INTEGER)": "({0} - {1})",
    "FROM_DAYS(INTEGER)": "(DATE '1970-01-01' + {0})",
    "FROM_UNIXTIME(BIGINT)": "make_timestamp_ms({0})",
    "TO_BYTES(STRING, STRING)": py("TO_BYTES"),
    "FLATTEN(ARRAY<ARRAY<T>>)": "flatten({0})",
    "MOD(N, N)": "({0} % nullif({1}, 0))",
    "POW(DOUBLE, DOUBLE)": "power({0}, {1})",
    "ROUND(DOUBLE)": "CAST(floor({0} + CAST(0.5 AS DOUBLE)) AS BIGINT)",
    "TRUNC(DOUBLE)": "CAST(trunc({0}) AS BIGINT)",
    "UNIX_TIMESTAMP(TIMESTAMP)": "epoch_ms({0})",
}
