"""ksqlDB's string functions, and those that only look at nulls."""

from __future__ import annotations

import re
from collections.abc import Callable

from holdfast.sql.engines import DUCKDB
from holdfast.sql.functions import Call, Overload, fn, literal_only
from holdfast.sql.typed import Typed

__all__ = ["TEXT"]


_PAD_MAX = 1_000_000  # more than any text needs; without a limit one row can fail Spark's job


def _concat(call: Call) -> str:
    return "concat(" + ", ".join(f"coalesce({a.sql}, '')" for a in call.args) + ")"


def _substring(call: Call) -> str:
    # Position 0 means 1 in ksqlDB and Spark; in DuckDB it is the character before the first.
    position = call.args[1].sql
    if call.engine is DUCKDB:
        position = f"CASE WHEN {position} = 0 THEN 1 ELSE {position} END"
    rest = ", ".join([call.args[0].sql, position, *(a.sql for a in call.args[2:])])
    return f"substring({rest})"


def _pad(side: str) -> str:
    fits = f"{{1}} BETWEEN 0 AND {_PAD_MAX} AND {{2}} <> ''"
    return f"CASE WHEN {fits} THEN {side}pad({{0}}, {{1}}, {{2}}) END"


def _mask_text(call: Call, text: str, first: int) -> str | None:
    """MASK over `text`; the mask characters are the arguments from `first` on, or the defaults."""
    if not all(_is_mask(a) for a in call.args[first:]):
        return None
    masks = [a.sql for a in call.args[first:]]
    if call.engine is not DUCKDB:
        return f"mask({', '.join([text, *(masks or _MASKS)])})"
    if masks:
        return None
    for pattern, mask in zip(_MASKED, _MASKS, strict=True):
        text = f"regexp_replace({text}, '{pattern}', {mask}, 'g')"
    return text


def _is_mask(arg: Typed) -> bool:
    """Whether it is what Spark takes: a literal of one character, or NULL."""
    return bool(arg.constant) and (arg.constant[0] is None or len(str(arg.constant[0])) == 1)


# Upper case, lower case, digits, others: in this order no replacement is replaced again.
_MASKS = ("'X'", "'x'", "'n'", "'-'")
_MASKED = (r"\p{Lu}", r"\p{Ll}", r"\p{Nd}", r"[^\p{Lu}\p{Ll}\p{Nd}]")


def _mask(call: Call) -> str | None:
    return _mask_text(call, call.args[0].sql, 1)


def _mask_left(call: Call) -> str | None:
    text, count = call.args[0].sql, call.args[1].sql
    masked = _mask_text(call, f"left({text}, {count})", 2)
    return masked and f"concat({masked}, substring({text}, {count} + 1))"


def _mask_right(call: Call) -> str | None:
    text, count = call.args[0].sql, call.args[1].sql
    masked = _mask_text(call, f"right({text}, {count})", 2)
    return masked and f"concat(left({text}, greatest(length({text}) - {count}, 0)), {masked})"


def _mask_keep_left(call: Call) -> str | None:
    text, count = call.args[0].sql, call.args[1].sql
    masked = _mask_text(call, f"substring({text}, {count} + 1)", 2)
    return masked and f"concat(left({text}, {count}), {masked})"


def _mask_keep_right(call: Call) -> str | None:
    text, count = call.args[0].sql, call.args[1].sql
    masked = _mask_text(call, f"left({text}, greatest(length({text}) - {count}, 0))", 2)
    return masked and f"concat({masked}, right({text}, {count}))"


def _instr_from(call: Call) -> str | None:
    position = call.constant(2)
    if not isinstance(position, int) or position < 1:
        return None
    return f"locate({call.args[1].sql}, {call.args[0].sql}, {position})"


def _split(call: Call) -> str:
    text, delimiter = call.args[0].sql, call.args[1].sql
    if call.engine is DUCKDB:
        return f"string_split({text}, {delimiter})"
    quoted = f"concat('\\\\Q', {delimiter}, '\\\\E')"
    characters = f"filter(split({text}, ''), c -> c <> '')"
    if call.constant(1) == "":
        return characters
    if call.constant(1) is not None:
        return f"split({text}, {quoted}, -1)"
    return f"CASE WHEN {delimiter} = '' THEN {characters} ELSE split({text}, {quoted}, -1) END"


def _regex(pattern_at: int, group_at: int | None = None) -> Callable[[Call], bool]:
    """The check that a pattern is a literal and has the group that is asked for."""

    def check(call: Call) -> bool:
        pattern = call.constant(pattern_at)
        group = 0 if group_at is None else call.constant(group_at)
        if not isinstance(pattern, str) or not isinstance(group, int) or group < 0:
            return False
        try:
            return group <= re.compile(pattern).groups
        except re.error:
            return True  # Java may know what Python does not

    return check


def _chr(call: Call) -> str:
    # Spark's char() is modulo 256; a code point is one character of UTF-32.
    code = call.args[0].sql
    return (
        f"CASE WHEN {code} BETWEEN 0 AND 55295 OR {code} BETWEEN 57344 AND 1114111 "
        f"THEN decode(unhex(lpad(hex({code}), 8, '0')), 'UTF-32') END"
    )


def _masks(name: str, rendering: object, leading: str) -> tuple[Overload, ...]:
    four = "STRING, STRING, STRING, STRING"
    assert callable(rendering)
    return (
        fn(f"{name}({leading}) -> STRING", rendering, rendering),
        fn(f"{name}({leading}, {four}) -> STRING", rendering, rendering),
    )


_QUOTED_1 = "concat('\\\\Q', {1}, '\\\\E')"
_QUOTED_2 = "concat('\\\\Q', {2}, '\\\\E')"

TEXT: tuple[Overload, ...] = (
    fn("AS_VALUE(T) -> T", "{0}", "{0}"),
    fn("COALESCE(T...) -> T", "coalesce({*})", "coalesce({*})"),
    fn("IFNULL(T, T) -> T", "coalesce({0}, {1})", "coalesce({0}, {1})"),
    fn("NULLIF(T, T) -> T", "nullif({0}, {1})", "nullif({0}, {1})"),
    fn("CHR(INTEGER) -> STRING", _chr, "chr({0})"),
    fn("CONCAT(STRING, STRING...) -> STRING", _concat, _concat),
    fn("CONCAT_WS(STRING, STRING...) -> STRING", "concat_ws({*})", "concat_ws({*})"),
    fn("ELT(INTEGER, STRING...) -> STRING", "elt({*})", "list_extract([{1*}], nullif({0}, 0))"),
    fn(
        "FIELD(STRING, STRING...) -> INTEGER",
        "CAST(coalesce(array_position(array({1*}), {0}), 0) AS INT)",
        "CAST(coalesce(list_position([{1*}], {0}), 0) AS INTEGER)",
    ),
    fn("INITCAP(STRING) -> STRING", "initcap({0})"),
    fn("INSTR(STRING, STRING) -> INTEGER", "instr({0}, {1})", "CAST(instr({0}, {1}) AS INTEGER)"),
    fn("INSTR(STRING, STRING, INTEGER) -> INTEGER", _instr_from),
    fn("LCASE(STRING) -> STRING", "lower({0})", "lower({0})"),
    fn("LEN(STRING) -> INTEGER", "length({0})", "CAST(length({0}) AS INTEGER)"),
    fn("LEN(BYTES) -> INTEGER", "length({0})", "CAST(octet_length({0}) AS INTEGER)"),
    fn("LPAD(STRING, INTEGER, STRING) -> STRING", _pad("l"), _pad("l")),
    fn("RPAD(STRING, INTEGER, STRING) -> STRING", _pad("r"), _pad("r")),
    *_masks("MASK", _mask, "STRING"),
    *_masks("MASK_LEFT", _mask_left, "STRING, INTEGER"),
    *_masks("MASK_RIGHT", _mask_right, "STRING, INTEGER"),
    *_masks("MASK_KEEP_LEFT", _mask_keep_left, "STRING, INTEGER"),
    *_masks("MASK_KEEP_RIGHT", _mask_keep_right, "STRING, INTEGER"),
    fn("REPLACE(STRING, STRING, STRING) -> STRING", "replace({*})", "replace({*})"),
    # Java's regular expressions and DuckDB's differ, so these run before the aggregation only.
    fn(
        "REGEXP_EXTRACT(STRING, STRING) -> STRING",
        literal_only("CASE WHEN {1} RLIKE {0} THEN regexp_extract({1}, {0}, 0) END", a=_regex(0)),
    ),
    fn(
        "REGEXP_EXTRACT(STRING, STRING, INTEGER) -> STRING",
        literal_only(
            "CASE WHEN {1} RLIKE {0} THEN regexp_extract({1}, {0}, {2}) END", a=_regex(0, 2)
        ),
    ),
    fn(
        "REGEXP_EXTRACT_ALL(STRING, STRING) -> ARRAY<STRING>",
        literal_only("regexp_extract_all({1}, {0}, 0)", a=_regex(0)),
    ),
    fn(
        "REGEXP_EXTRACT_ALL(STRING, STRING, INTEGER) -> ARRAY<STRING>",
        literal_only("regexp_extract_all({1}, {0}, {2})", a=_regex(0, 2)),
    ),
    fn(
        "REGEXP_REPLACE(STRING, STRING, STRING) -> STRING",
        literal_only("regexp_replace({*})", a=_regex(1)),
    ),
    fn(
        "REGEXP_SPLIT_TO_ARRAY(STRING, STRING) -> ARRAY<STRING>",
        literal_only("split({0}, {1}, -1)", a=_regex(1)),
    ),
    fn("SPLIT(STRING, STRING) -> ARRAY<STRING>", _split, _split),
    fn(
        "SPLIT_TO_MAP(STRING, STRING, STRING) -> MAP<STRING>",
        f"CASE WHEN {{1}} <> '' AND {{2}} <> '' "
        f"THEN str_to_map({{0}}, {_QUOTED_1}, {_QUOTED_2}) END",
    ),
    fn("SUBSTRING(STRING, INTEGER) -> STRING", _substring, _substring),
    fn("SUBSTRING(STRING, INTEGER, INTEGER) -> STRING", _substring, _substring),
    fn("TRIM(STRING) -> STRING", "trim({0})", "trim({0})"),
    fn("UCASE(STRING) -> STRING", "upper({0})", "upper({0})"),
    fn("UUID() -> STRING", "uuid()"),
)
