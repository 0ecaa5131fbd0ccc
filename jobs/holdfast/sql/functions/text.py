"""ksqlDB's string functions, and those that only look at nulls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from holdfast.sql.expressions.engines import DUCKDB
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.functions.signatures import (
    Call,
    CallRefusedError,
    Overload,
    anew,
    either,
    fn,
    py,
    too_large,
)
from holdfast.tasks.functions.java.regex import PatternError, UnsupportedPatternError, java_regex

__all__ = ["TEXT"]


_PAD_MAX = 1_000_000  # more than any text needs; without a limit one row can fail Spark's job


def _concat(call: Call) -> str:
    return "concat(" + ", ".join(f"coalesce({a.sql}, '')" for a in call.args) + ")"


def _substring(call: Call) -> str:
    # What lies before the first character is the first; a length counts from there.
    text, position = call.args[0].sql, call.args[1].sql
    known = call.constant(1)
    if not isinstance(known, int) or known < 1:
        back = f"greatest(length({text}) + {position}, 0) + 1"
        ahead = f"CASE WHEN {position} < 1 THEN 1 ELSE {position} END"
        position = f"CASE WHEN {position} < 0 THEN {back} ELSE {ahead} END"
    rest = [text, f"CAST({position} AS INT)", *(f"greatest({a.sql}, 0)" for a in call.args[2:])]
    if len(rest) > 2:  # greatest() leaves out what is NULL
        return f"CASE WHEN {call.args[2].sql} IS NOT NULL THEN substring({', '.join(rest)}) END"
    return f"substring({', '.join(rest)})"


def _pad(side: str) -> Callable[[Call], str]:
    def rendering(call: Call) -> str:
        text, length, padding = (a.sql for a in call.args)
        fits = f"{length} BETWEEN 0 AND {_PAD_MAX} AND {padding} <> ''"
        made = f"WHEN {fits} THEN {side}pad({text}, {length}, {padding}) END"
        if call.engine is not DUCKDB:
            return f"CASE {made}"
        return f"CASE WHEN {length} > {_PAD_MAX} THEN {too_large(call, length, _PAD_MAX)} {made}"

    return rendering


def _mask_text(call: Call, text: str, first: int) -> str | None:
    """MASK over `text`; the mask characters are the arguments from `first` on, or the defaults."""
    if not all(_is_mask(a) for a in call.args[first:]):
        return None
    masks = [a.sql for a in call.args[first:]]
    return f"mask({', '.join([text, *(masks or _MASKS)])})"


def _is_mask(arg: Typed) -> bool:
    """Whether it is what Spark takes: a literal of one character, or NULL."""
    return bool(arg.constant) and (arg.constant[0] is None or len(str(arg.constant[0])) == 1)


# Upper case, lower case, digits, others.
_MASKS = ("'X'", "'x'", "'n'", "'-'")


def _counted(call: Call, masked: str | None, text: str) -> str | None:
    """A mask of so many characters: a negative number of them gives NULL."""
    return masked and f"CASE WHEN {call.args[1].sql} >= 0 THEN {text} END"


def _mask(call: Call) -> str | None:
    return _mask_text(call, call.args[0].sql, 1)


def _mask_left(call: Call) -> str | None:
    text, count = call.args[0].sql, call.args[1].sql
    masked = _mask_text(call, f"left({text}, {count})", 2)
    return _counted(call, masked, f"concat({masked}, substring({text}, {count} + 1))")


def _mask_right(call: Call) -> str | None:
    text, count = call.args[0].sql, call.args[1].sql
    masked = _mask_text(call, f"right({text}, {count})", 2)
    rest = f"left({text}, greatest(length({text}) - {count}, 0))"
    return _counted(call, masked, f"concat({rest}, {masked})")


def _mask_keep_left(call: Call) -> str | None:
    text, count = call.args[0].sql, call.args[1].sql
    masked = _mask_text(call, f"substring({text}, {count} + 1)", 2)
    return _counted(call, masked, f"concat(left({text}, {count}), {masked})")


def _mask_keep_right(call: Call) -> str | None:
    text, count = call.args[0].sql, call.args[1].sql
    masked = _mask_text(call, f"left({text}, greatest(length({text}) - {count}, 0))", 2)
    return _counted(call, masked, f"concat({masked}, right({text}, {count}))")


def _instr_from(call: Call) -> str | None:
    position = call.constant(2)
    if not isinstance(position, int) or position < 1:
        return None
    text, part = call.args[0].sql, call.args[1].sql
    found = f"coalesce(locate({part}, {text}, {position}), 0)"
    return f"CASE WHEN {position} > length({text}) THEN 0 ELSE {found} END"


def _quotable(call: Call, *at: int) -> bool:
    """Whether delimiters are literals that Java's regular expressions can quote."""
    return all(call.constant(i) and _UNQUOTE not in str(call.constant(i)) for i in at)


_UNQUOTE = "\\E"


def _split(call: Call) -> str | None:
    if not _quotable(call, 1):
        return None
    if call.engine is DUCKDB:
        return f"string_split({call.args[0].sql}, {call.args[1].sql})"
    return f"split({call.args[0].sql}, concat('\\\\Q', {call.args[1].sql}, '\\\\E'), -1)"


def _split_to_map(call: Call) -> str | None:
    if not _quotable(call, 1, 2) or call.constant(1) == call.constant(2):
        return None
    text, entry, pair = (a.sql for a in call.args)
    entries = f"split({text}, concat('\\\\Q', {entry}, '\\\\E'), -1)"
    pairs = f"filter({entries}, e -> contains(e, {pair}))"
    parts = f"struct(split_part(e, {pair}, 1), split_part(e, {pair}, 2))"
    return f"map_from_entries(transform({pairs}, e -> {parts}))"


def _replace(call: Call) -> str | None:
    # Between all characters is what Java takes an empty text for; what grows has a limit.
    old, new = call.constant(1), call.constant(2)
    if not old or new is None or len(str(new)) > len(str(old)):
        return None
    return f"replace({', '.join(a.sql for a in call.args)})"


def _trim(call: Call) -> str:
    blanks = call.engine.string("\t\n\v\f\r ")
    if call.engine is DUCKDB:
        return f"trim({call.args[0].sql}, {blanks})"
    return f"trim(BOTH {blanks} FROM {call.args[0].sql})"


def _chr(call: Call) -> str:
    # Spark's char() is modulo 256; a code point is one character of UTF-32.
    code = call.args[0].sql
    return (
        f"CASE WHEN {code} BETWEEN 0 AND 55295 OR {code} BETWEEN 57344 AND 1114111 "
        f"THEN decode(unhex(lpad(hex({code}), 8, '0')), 'UTF-32') END"
    )


def _masks(
    name: str, rendering: Callable[[Call], str | None], leading: str
) -> tuple[Overload, ...]:
    four = "STRING, STRING, STRING, STRING"
    python = py(name)
    return (
        fn(f"{name}({leading}) -> STRING", either(rendering, python), python),
        fn(f"{name}({leading}, {four}) -> STRING", either(rendering, python), python),
    )


def _nullif(call: Call) -> str:
    # Spark does not compare maps.
    maps = "MAP" in str(call.args[0].type)
    return py("NULLIF")(call) if maps else f"nullif({call.args[0].sql}, {call.args[1].sql})"


def _regexp(signature: str, pattern_at: int) -> Overload:
    name = signature.partition("(")[0]
    python = py(name)

    def rendering(call: Call) -> str:
        pattern = call.constant(pattern_at)
        if isinstance(pattern, str):
            _refuse_unsupported(name, pattern)
        return python(call)

    return fn(signature, rendering, rendering)


def _refuse_unsupported(name: str, pattern: str) -> None:
    """A pattern that is wrong for Java, too, gives NULL in each row, as in ksqlDB."""
    with suppress(PatternError):
        try:
            java_regex(pattern)
        except UnsupportedPatternError as error:
            raise CallRefusedError(
                f"{name} cannot evaluate the pattern {pattern!r}: {error}. Regular expressions "
                "are RE2's, whose time grows with the text only"
            ) from None


TEXT: tuple[Overload, ...] = (
    fn("AS_VALUE(T) -> T", "{0}", "{0}"),
    fn("COALESCE(T...) -> T", "coalesce({*})", "coalesce({*})"),
    fn("IFNULL(T, T) -> T", "coalesce({0}, {1})", "coalesce({0}, {1})"),
    fn("NULLIF(T, T) -> T", _nullif, "nullif({0}, {1})"),
    fn("CHR(INTEGER) -> STRING", _chr, py("CHR")),
    fn("CHR(STRING) -> STRING", py("CHR"), py("CHR")),
    fn("CONCAT(STRING...) -> STRING", _concat, _concat),
    fn("CONCAT(BYTES...) -> BYTES", py("BYTES_CONCAT"), py("BYTES_CONCAT")),
    fn("CONCAT_WS(STRING, STRING...) -> STRING", "concat_ws({*})", py("CONCAT_WS")),
    fn("CONCAT_WS(BYTES, BYTES...) -> BYTES", py("BYTES_CONCAT_WS"), py("BYTES_CONCAT_WS")),
    fn(
        "ELT(INTEGER, STRING...) -> STRING",
        "elt({*})",
        "CASE WHEN {0} > 0 THEN list_extract([{1*}], {0}) END",
    ),
    fn(
        "FIELD(STRING, STRING...) -> INTEGER",
        "CAST(coalesce(array_position(array({1*}), {0}), 0) AS INT)",
        "CASE WHEN {0} IS NULL THEN 0 "
        "ELSE CAST(coalesce(list_position([{1*}], {0}), 0) AS INTEGER) END",
    ),
    fn("INITCAP(STRING) -> STRING", py("INITCAP"), py("INITCAP")),
    fn(
        "INSTR(STRING, STRING) -> INTEGER",
        "coalesce(instr({0}, {1}), 0)",
        "CAST(coalesce(instr({0}, {1}), 0) AS INTEGER)",
    ),
    fn("INSTR(STRING, STRING, INTEGER) -> INTEGER", either(_instr_from, py("INSTR")), py("INSTR")),
    fn("INSTR(STRING, STRING, INTEGER, INTEGER) -> INTEGER", py("INSTR"), py("INSTR")),
    fn("LCASE(STRING) -> STRING", "lower({0})", py("LOWER")),
    fn("LEN(STRING) -> INTEGER", "length({0})", "CAST(length({0}) AS INTEGER)"),
    fn("LEN(BYTES) -> INTEGER", "length({0})", "CAST(octet_length({0}) AS INTEGER)"),
    fn("LPAD(BYTES, INTEGER, BYTES) -> BYTES", py("BYTES_LPAD"), py("BYTES_LPAD")),
    fn("RPAD(BYTES, INTEGER, BYTES) -> BYTES", py("BYTES_RPAD"), py("BYTES_RPAD")),
    fn("LPAD(STRING, INTEGER, STRING) -> STRING", _pad("l"), _pad("l")),
    fn("RPAD(STRING, INTEGER, STRING) -> STRING", _pad("r"), _pad("r")),
    *_masks("MASK", _mask, "STRING"),
    *_masks("MASK_LEFT", _mask_left, "STRING, INTEGER"),
    *_masks("MASK_RIGHT", _mask_right, "STRING, INTEGER"),
    *_masks("MASK_KEEP_LEFT", _mask_keep_left, "STRING, INTEGER"),
    *_masks("MASK_KEEP_RIGHT", _mask_keep_right, "STRING, INTEGER"),
    fn(
        "REPLACE(STRING, STRING, STRING) -> STRING",
        either(_replace, py("REPLACE")),
        either(_replace, py("REPLACE")),
    ),
    _regexp("REGEXP_EXTRACT(STRING, STRING) -> STRING", 0),
    _regexp("REGEXP_EXTRACT(STRING, STRING, INTEGER) -> STRING", 0),
    _regexp("REGEXP_EXTRACT_ALL(STRING, STRING) -> ARRAY<STRING>", 0),
    _regexp("REGEXP_EXTRACT_ALL(STRING, STRING, INTEGER) -> ARRAY<STRING>", 0),
    _regexp("REGEXP_REPLACE(STRING, STRING, STRING) -> STRING", 1),
    _regexp("REGEXP_SPLIT_TO_ARRAY(STRING, STRING) -> ARRAY<STRING>", 1),
    fn("SPLIT(BYTES, BYTES) -> ARRAY<BYTES>", py("BYTES_SPLIT"), py("BYTES_SPLIT")),
    fn(
        "SPLIT(STRING, STRING) -> ARRAY<STRING>",
        either(_split, py("SPLIT")),
        either(_split, py("SPLIT")),
    ),
    fn(
        "SPLIT_TO_MAP(STRING, STRING, STRING) -> MAP<STRING>",
        either(_split_to_map, py("SPLIT_TO_MAP")),
        py("SPLIT_TO_MAP"),
    ),
    fn("SUBSTRING(STRING, INTEGER) -> STRING", _substring, _substring),
    fn("SUBSTRING(STRING, INTEGER, INTEGER) -> STRING", _substring, _substring),
    fn("SUBSTRING(BYTES, INTEGER) -> BYTES", py("SUBSTRING"), py("SUBSTRING")),
    fn("SUBSTRING(BYTES, INTEGER, INTEGER) -> BYTES", py("SUBSTRING"), py("SUBSTRING")),
    fn("TRIM(STRING) -> STRING", _trim, _trim),
    fn("UCASE(STRING) -> STRING", "upper({0})", py("UPPER")),
    fn("UUID() -> STRING", "uuid()", anew("UUID_ANEW"), deterministic=False),
    fn("UUID(BYTES) -> STRING", py("UUID"), py("UUID")),
)
