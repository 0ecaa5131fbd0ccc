"""Functions over JSON text, URLs and bytes, and hashes; then Spark SQL's own scalar functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.sql.expressions.engines import DUCKDB
from holdfast.sql.functions.signatures import Call, Overload, either, fn, is_whole, py, whole

__all__ = ["DATA"]

# What these give is what Java gives; other encodings, and those that no literal says, are Python's.
_TO_BYTES = {
    "hex": "CASE WHEN length({x}) % 2 = 0 THEN unhex({x}) END",
    "utf8": "encode({x}, 'UTF-8')",
    "base64": "try_to_binary({x}, 'base64')",
}
_FROM_BYTES = {
    "hex": "hex({x})",
    "utf8": "make_valid_utf8(CAST({x} AS STRING))",
    "base64": "base64({x})",
}


def _encoding(templates: dict[str, str]) -> Callable[[Call], str | None]:
    def rendering(call: Call) -> str | None:
        template = templates.get(str(call.constant(1) or "").lower())
        return template.replace("{x}", call.args[0].sql) if template else None

    return rendering


def _base64(call: Call) -> str | None:
    """TO_BYTES in DuckDB from the literal 'base64', as lenient as Spark; else None."""
    if str(call.constant(1) or "").lower() != "base64":
        return None
    return py("UNBASE64")(replace(call, args=call.args[:1]))


def _python(signature: str) -> Overload:
    """A function that is Python's in both engines, by its own name."""
    name = signature.partition("(")[0]
    return fn(signature, py(name), py(name))


def _substr(call: Call) -> str | None:
    """SUBSTR from a literal place that is not counted from the end; else None."""
    place = call.constant(1)
    if not isinstance(place, int) or place < 0:
        return None
    text, start = call.args[0].sql, max(place, 1)
    if len(call.args) == 2:
        return f"substring({text}, {start})"
    length = call.args[2].sql
    return f"substring({text}, {start}, {length} - CASE WHEN {length} < 0 THEN {length} ELSE 0 END)"


def _beginning(name: str) -> str:
    return f"{name}({{0}}, CASE WHEN {{1}} < 0 THEN 0 ELSE {{1}} END)"


def _modulo(call: Call) -> str:
    left, right = (a.sql for a in call.args)
    return (
        DUCKDB.wrapped("%", left, right, call.result)
        if is_whole(call)
        else (DUCKDB.modulo(left, right))
    )


_NUMBER = "CASE WHEN length({0}) = %d THEN CAST(conv(hex({0}), 16, -10) AS %s) END"

_JSON: tuple[Overload, ...] = (
    fn(
        "GET_JSON_OBJECT(STRING, STRING) -> STRING",
        "get_json_object({0}, {1})",
        "json_extract_string({0}, {1})",
    ),
    *(
        _python(signature)
        for signature in (
            "EXTRACTJSONFIELD(STRING, STRING) -> STRING",
            "IS_JSON_STRING(STRING) -> BOOLEAN",
            "JSON_ARRAY_CONTAINS(STRING, T) -> BOOLEAN",
            "JSON_ARRAY_LENGTH(STRING) -> INTEGER",
            "JSON_CONCAT(STRING...) -> STRING",
            "JSON_ITEMS(STRING) -> ARRAY<STRING>",
            "JSON_KEYS(STRING) -> ARRAY<STRING>",
            "JSON_RECORDS(STRING) -> MAP<STRING>",
            "TO_JSON_STRING(T) -> STRING",
        )
    ),
)

_URLS: tuple[Overload, ...] = (
    fn("URL_DECODE_PARAM(STRING) -> STRING", "try_url_decode({0})", py("URL_DECODE_PARAM")),
    fn("URL_ENCODE_PARAM(STRING) -> STRING", "url_encode({0})", py("URL_ENCODE_PARAM")),
    fn(
        "URL_EXTRACT_HOST(STRING) -> STRING",
        "try_parse_url({0}, 'HOST')",
        py("URL_EXTRACT_HOST"),
    ),
    fn(
        "URL_EXTRACT_PROTOCOL(STRING) -> STRING",
        "try_parse_url({0}, 'PROTOCOL')",
        py("URL_EXTRACT_PROTOCOL"),
    ),
    # Spark would take a + in them for a blank.
    _python("URL_EXTRACT_FRAGMENT(STRING) -> STRING"),
    _python("URL_EXTRACT_PARAMETER(STRING, STRING) -> STRING"),
    _python("URL_EXTRACT_PATH(STRING) -> STRING"),
    _python("URL_EXTRACT_PORT(STRING) -> INTEGER"),
    _python("URL_EXTRACT_QUERY(STRING) -> STRING"),
)

_BYTES: tuple[Overload, ...] = (
    fn(
        "TO_BYTES(STRING, STRING) -> BYTES",
        either(_encoding(_TO_BYTES), py("TO_BYTES")),
        either(_base64, py("TO_BYTES")),
    ),
    fn(
        "FROM_BYTES(BYTES, STRING) -> STRING",
        either(_encoding(_FROM_BYTES), py("FROM_BYTES")),
        py("FROM_BYTES"),
    ),
    _python("ENCODE(STRING, STRING, STRING) -> STRING"),
    fn("INT_FROM_BYTES(BYTES) -> INTEGER", _NUMBER % (4, "INT"), py("INT_FROM_BYTES")),
    _python("INT_FROM_BYTES(BYTES, STRING) -> INTEGER"),
    fn("BIGINT_FROM_BYTES(BYTES) -> BIGINT", _NUMBER % (8, "BIGINT"), py("BIGINT_FROM_BYTES")),
    _python("BIGINT_FROM_BYTES(BYTES, STRING) -> BIGINT"),
    _python("DOUBLE_FROM_BYTES(BYTES) -> DOUBLE"),
    _python("DOUBLE_FROM_BYTES(BYTES, STRING) -> DOUBLE"),
    fn("MD5(STRING) -> STRING", "md5({0})", "md5({0})"),
    fn("SHA1(STRING) -> STRING", "sha1({0})", "sha1({0})"),
    fn("SHA2(STRING, INTEGER) -> STRING", "sha2({0}, {1})", py("SHA2")),
    fn("CRC32(STRING) -> BIGINT", "crc32({0})", py("CRC32")),
    fn("XXHASH64(STRING) -> BIGINT", "xxhash64({0})", py("XXHASH64")),
)

_SPARK: tuple[Overload, ...] = (
    *(
        fn(f"{name}(STRING) -> STRING", f"{name.lower()}({{0}})", duck)
        for name, duck in (
            ("UPPER", py("UPPER")),
            ("LOWER", py("LOWER")),
            ("LTRIM", "ltrim({0}, ' ')"),
            ("RTRIM", "rtrim({0}, ' ')"),
            ("REVERSE", py("REVERSE")),
        )
    ),
    *(
        fn(f"{name}(STRING) -> INTEGER", "length({0})", "CAST(length({0}) AS INTEGER)")
        for name in ("LENGTH", "CHAR_LENGTH")
    ),
    *(
        fn(f"{name}(STRING, STRING) -> BOOLEAN", f"{name.lower()}({{0}}, {{1}})", f"{duck}({{*}})")
        for name, duck in (
            ("STARTSWITH", "starts_with"),
            ("ENDSWITH", "ends_with"),
            ("CONTAINS", "contains"),
        )
    ),
    fn("LEFT(STRING, INTEGER) -> STRING", "left({0}, {1})", _beginning("left")),
    fn("RIGHT(STRING, INTEGER) -> STRING", "right({0}, {1})", _beginning("right")),
    fn("TRANSLATE(STRING, STRING, STRING) -> STRING", "translate({*})", "translate({*})"),
    fn("SUBSTR(STRING, INTEGER) -> STRING", "substring({0}, {1})", either(_substr, py("SUBSTR"))),
    fn(
        "SUBSTR(STRING, INTEGER, INTEGER) -> STRING",
        "substring({0}, {1}, {2})",
        either(_substr, py("SUBSTR")),
    ),
    fn(
        "SUBSTRING_INDEX(STRING, STRING, INTEGER) -> STRING",
        "substring_index({*})",
        py("SUBSTRING_INDEX"),
    ),
    fn("ASCII(STRING) -> INTEGER", "ascii({0})", "ascii({0})"),
    fn("SOUNDEX(STRING) -> STRING", "soundex({0})", py("SOUNDEX")),
    fn(
        "LEVENSHTEIN(STRING, STRING) -> INTEGER",
        "levenshtein({0}, {1})",
        py("LEVENSHTEIN"),
    ),
    fn("BASE64(BYTES) -> STRING", "base64({0})", "to_base64({0})"),
    fn("UNBASE64(STRING) -> BYTES", "try_to_binary({0}, 'base64')", py("UNBASE64")),
    fn("HEX(BIGINT) -> STRING", "hex({0})", "hex({0})"),
    fn("HEX(STRING) -> STRING", "hex({0})", "hex({0})"),
    fn("UNHEX(STRING) -> BYTES", "unhex({0})", "unhex({0})"),
    fn("PARSE_URL(STRING, STRING) -> STRING", "try_parse_url({0}, {1})", py("PARSE_URL")),
    fn("LOG2(DOUBLE) -> DOUBLE", "log2({0})", "CASE WHEN {0} > 0 THEN log2({0}) END"),
    fn("LOG10(DOUBLE) -> DOUBLE", "log10({0})", "CASE WHEN {0} > 0 THEN log10({0}) END"),
    fn("POW(DOUBLE, DOUBLE) -> DOUBLE", "power({0}, {1})", py("POWER")),
    fn("CEILING(DOUBLE) -> BIGINT", "ceil({0})", whole("ceil({0})")),
    fn("MOD(N, N) -> N", "({0} % {1})", _modulo),
    fn("PMOD(BIGINT, BIGINT) -> BIGINT", "pmod({0}, {1})", py("PMOD")),
    fn("HYPOT(DOUBLE, DOUBLE) -> DOUBLE", "hypot({0}, {1})", py("HYPOT")),
    fn("ISNAN(DOUBLE) -> BOOLEAN", "isnan({0})", "coalesce(isnan({0}), false)"),
    fn("NVL(T, T) -> T", "coalesce({0}, {1})", "coalesce({0}, {1})"),
    fn(
        "IF(BOOLEAN, T, T) -> T",
        "CASE WHEN {0} THEN {1} ELSE {2} END",
        "CASE WHEN {0} THEN {1} ELSE {2} END",
    ),
)

DATA: tuple[Overload, ...] = (*_JSON, *_URLS, *_BYTES, *_SPARK)
