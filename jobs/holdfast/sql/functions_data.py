"""Functions over JSON text, URLs and bytes, and hashes; then Spark SQL's own scalar functions."""

from __future__ import annotations

from holdfast.sql.functions import Call, Overload, fn

__all__ = ["DATA"]

# Spark's decode, unbase64 and US-ASCII fail the job on bad input; these give NULL (bytes that are
# no UTF-8 become replacement characters, as in Java).
_ASCII = "{x} RLIKE '^[\\\\x00-\\\\x7F]*$'"
_TEXT = "CAST({x} AS STRING)"
_TO_BYTES = {
    "hex": "unhex({x})",
    "utf8": "encode({x}, 'UTF-8')",
    "ascii": f"CASE WHEN {_ASCII} THEN encode({{x}}, 'UTF-8') END",
    "base64": "try_to_binary({x}, 'base64')",
}
_FROM_BYTES = {
    "hex": "hex({x})",
    "utf8": f"make_valid_utf8({_TEXT})",
    "ascii": f"CASE WHEN {_ASCII.replace('{x}', _TEXT)} THEN {_TEXT} END",
    "base64": "base64({x})",
}


def _encoding(call: Call, index: int, templates: dict[str, str], text: str) -> str | None:
    template = templates.get(str(call.constant(index) or "").lower())
    return template.replace("{x}", text) if template else None


def _to_bytes(call: Call) -> str | None:
    return _encoding(call, 1, _TO_BYTES, call.args[0].sql)


def _from_bytes(call: Call) -> str | None:
    return _encoding(call, 1, _FROM_BYTES, call.args[0].sql)


def _encode(call: Call) -> str | None:
    raw = _encoding(call, 1, _TO_BYTES, call.args[0].sql)
    if raw is None:
        return None
    text = _encoding(call, 2, _FROM_BYTES, raw)
    hexadecimal = str(call.constant(2)).lower() == "hex"
    return f"lower({text})" if text and hexadecimal else text


def _json_contains(call: Call) -> str:
    array, value = call.args[0].sql, call.args[1]
    element = call.engine.type_name(value.type) if value.type else "STRING"
    parsed = f"from_json({array}, 'ARRAY<{element}>')"
    return f"coalesce(array_contains({parsed}, {value.sql}), false)"


def _url(part: str) -> str:
    return f"try_url_decode(try_parse_url({{0}}, '{part}'))"


_NUMBER = "CASE WHEN length({0}) = %d THEN CAST(conv(hex({0}), 16, -10) AS %s) END"
_ARRAY_ONLY = "CASE WHEN json_valid({0}) AND json_type({0}) = 'ARRAY' THEN %s END"
_OBJECT_ONLY = "CASE WHEN json_valid({0}) AND json_type({0}) = 'OBJECT' THEN %s END"

_JSON: tuple[Overload, ...] = (
    fn(
        "EXTRACTJSONFIELD(STRING, STRING) -> STRING",
        "get_json_object({0}, {1})",
        "json_extract_string({0}, {1})",
    ),
    fn(
        "GET_JSON_OBJECT(STRING, STRING) -> STRING",
        "get_json_object({0}, {1})",
        "json_extract_string({0}, {1})",
    ),
    fn(
        "IS_JSON_STRING(STRING) -> BOOLEAN",
        "(try_parse_json({0}) IS NOT NULL)",
        "coalesce(json_valid({0}), false)",
    ),
    fn("JSON_ARRAY_CONTAINS(STRING, T) -> BOOLEAN", _json_contains),
    fn(
        "JSON_ARRAY_LENGTH(STRING) -> INTEGER",
        "json_array_length({0})",
        _ARRAY_ONLY % "CAST(json_array_length({0}) AS INTEGER)",
    ),
    fn(
        "JSON_ITEMS(STRING) -> ARRAY<STRING>",
        "transform(from_json({0}, 'ARRAY<VARIANT>'), e -> to_json(e))",
    ),
    fn(
        "JSON_KEYS(STRING) -> ARRAY<STRING>",
        "json_object_keys({0})",
        _OBJECT_ONLY % "json_keys({0})",
    ),
    fn(
        "JSON_RECORDS(STRING) -> MAP<STRING>",
        "transform_values(from_json({0}, 'MAP<STRING, VARIANT>'), (k, v) -> to_json(v))",
    ),
    fn(
        "TO_JSON_STRING(T) -> STRING",
        "regexp_replace(to_json(array({0})), '^\\\\[|\\\\]$', '')",
        "coalesce(CAST(to_json({0}) AS VARCHAR), 'null')",
    ),
)

_URLS: tuple[Overload, ...] = (
    fn("URL_DECODE_PARAM(STRING) -> STRING", "try_url_decode({0})"),
    fn("URL_ENCODE_PARAM(STRING) -> STRING", "url_encode({0})"),
    fn("URL_EXTRACT_FRAGMENT(STRING) -> STRING", _url("REF")),
    fn("URL_EXTRACT_HOST(STRING) -> STRING", "try_parse_url({0}, 'HOST')"),
    fn(
        "URL_EXTRACT_PARAMETER(STRING, STRING) -> STRING",
        "try_url_decode(try_parse_url({0}, 'QUERY', replace(url_encode({1}), '+', '%20')))",
    ),
    fn("URL_EXTRACT_PATH(STRING) -> STRING", _url("PATH")),
    fn(
        "URL_EXTRACT_PORT(STRING) -> INTEGER",
        "CAST(regexp_extract(try_parse_url({0}, 'AUTHORITY'), ':([0-9]+)$', 1) AS INT)",
    ),
    fn("URL_EXTRACT_PROTOCOL(STRING) -> STRING", "try_parse_url({0}, 'PROTOCOL')"),
    fn("URL_EXTRACT_QUERY(STRING) -> STRING", _url("QUERY")),
)

_BYTES: tuple[Overload, ...] = (
    fn("TO_BYTES(STRING, STRING) -> BYTES", _to_bytes),
    fn("FROM_BYTES(BYTES, STRING) -> STRING", _from_bytes),
    fn("ENCODE(STRING, STRING, STRING) -> STRING", _encode),
    fn("INT_FROM_BYTES(BYTES) -> INTEGER", _NUMBER % (4, "INT")),
    fn("BIGINT_FROM_BYTES(BYTES) -> BIGINT", _NUMBER % (8, "BIGINT")),
    fn("MD5(STRING) -> STRING", "md5({0})", "md5({0})"),
    fn("SHA1(STRING) -> STRING", "sha1({0})", "sha1({0})"),
    fn("SHA2(STRING, INTEGER) -> STRING", "sha2({0}, {1})"),
    fn("CRC32(STRING) -> BIGINT", "crc32({0})"),
    fn("XXHASH64(STRING) -> BIGINT", "xxhash64({0})"),
)

_SPARK: tuple[Overload, ...] = (
    *(
        fn(f"{name}(STRING) -> STRING", f"{name.lower()}({{0}})", f"{duck}({{0}})")
        for name, duck in (
            ("UPPER", "upper"),
            ("LOWER", "lower"),
            ("LTRIM", "ltrim"),
            ("RTRIM", "rtrim"),
            ("REVERSE", "reverse"),
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
    fn("LEFT(STRING, INTEGER) -> STRING", "left({0}, {1})", "left({0}, greatest({1}, 0))"),
    fn("RIGHT(STRING, INTEGER) -> STRING", "right({0}, {1})", "right({0}, greatest({1}, 0))"),
    fn("TRANSLATE(STRING, STRING, STRING) -> STRING", "translate({*})", "translate({*})"),
    fn("SUBSTR(STRING, INTEGER) -> STRING", "substring({0}, {1})"),
    fn("SUBSTR(STRING, INTEGER, INTEGER) -> STRING", "substring({0}, {1}, {2})"),
    fn("SUBSTRING_INDEX(STRING, STRING, INTEGER) -> STRING", "substring_index({*})"),
    fn("ASCII(STRING) -> INTEGER", "ascii({0})", "ascii({0})"),
    fn("SOUNDEX(STRING) -> STRING", "soundex({0})"),
    fn("LEVENSHTEIN(STRING, STRING) -> INTEGER", "levenshtein({0}, {1})"),
    fn("BASE64(BYTES) -> STRING", "base64({0})", "to_base64({0})"),
    fn("UNBASE64(STRING) -> BYTES", "try_to_binary({0}, 'base64')"),
    fn("HEX(BIGINT) -> STRING", "hex({0})"),
    fn("HEX(STRING) -> STRING", "hex({0})", "hex({0})"),
    fn("UNHEX(STRING) -> BYTES", "unhex({0})", "unhex({0})"),
    fn("PARSE_URL(STRING, STRING) -> STRING", "try_parse_url({0}, {1})"),
    fn("LOG2(DOUBLE) -> DOUBLE", "log2({0})", "CASE WHEN {0} > 0 THEN log2({0}) END"),
    fn("LOG10(DOUBLE) -> DOUBLE", "log10({0})", "CASE WHEN {0} > 0 THEN log10({0}) END"),
    fn("POW(DOUBLE, DOUBLE) -> DOUBLE", "power({0}, {1})", "power({0}, {1})"),
    fn("CEILING(DOUBLE) -> BIGINT", "ceil({0})", "CAST(ceil({0}) AS BIGINT)"),
    fn("MOD(N, N) -> N", "({0} % {1})", "({0} % nullif({1}, 0))"),
    fn("PMOD(BIGINT, BIGINT) -> BIGINT", "pmod({0}, {1})"),
    fn("HYPOT(DOUBLE, DOUBLE) -> DOUBLE", "hypot({0}, {1})"),
    fn("ISNAN(DOUBLE) -> BOOLEAN", "isnan({0})"),
    fn("NVL(T, T) -> T", "coalesce({0}, {1})", "coalesce({0}, {1})"),
    fn(
        "IF(BOOLEAN, T, T) -> T",
        "CASE WHEN {0} THEN {1} ELSE {2} END",
        "CASE WHEN {0} THEN {1} ELSE {2} END",
    ),
)

DATA: tuple[Overload, ...] = (*_JSON, *_URLS, *_BYTES, *_SPARK)
