"""The texts of functions in the first release, for fingerprints and facts.

A fingerprint covers rendered text.  Where an engine gets another text now for the same values, an
expression is rendered a second time as in the first release and carries both texts
(`Expression.released`).  So a table from before the change still fits its statement.  LIKE and
REDUCE are not in the catalog of functions and check `Translator.released` themselves.  A change
that alters values is not listed here: its statements have another fingerprint.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.sql.functions.collections import joined
from holdfast.sql.functions.released_duckdb import DUCKDB_BEFORE, NOT_IN_DUCKDB
from holdfast.sql.functions.signatures import Call, Overload, Rendering, either, fill, py

__all__ = ["as_released"]


def as_released(overload: Overload) -> Overload:
    """A function with its text of the first release, if that text differed."""
    before = _BEFORE.get(overload.signature)
    if overload.signature in DUCKDB_BEFORE:
        before = {"duckdb": DUCKDB_BEFORE[overload.signature]}
    if overload.signature in NOT_IN_DUCKDB:
        before = {"duckdb": None}
    return overload if before is None else replace(overload, **before)


def _literal(template: str, *checks: Callable[[Call], bool]) -> Rendering:
    def rendering(call: Call) -> str | None:
        return fill(template, call) if all(check(call) for check in checks) else None

    return rendering


def _pattern(at: int, group_at: int | None = None) -> Callable[[Call], bool]:
    """Whether a pattern is a literal that has the group, and the group always takes part."""

    def check(call: Call) -> bool:
        pattern = call.constant(at)
        group = 0 if group_at is None else call.constant(group_at)
        if not isinstance(pattern, str) or not isinstance(group, int) or group < 0:
            return False
        if group and re.search(r"\)[?*{]|\|", pattern):
            return False
        try:
            return group <= re.compile(pattern).groups
        except re.error:
            return True

    return check


def _never_empty(call: Call) -> bool:
    try:
        return re.compile(str(call.constant(1))).fullmatch("") is None
    except re.error:
        return False


def _old_is_literal(call: Call) -> bool:
    return bool(call.constant(1))


def _pad(side: str) -> dict[str, Rendering]:
    fits = "{1} BETWEEN 0 AND 1000000 AND {2} <> ''"
    return {"duckdb": f"CASE WHEN {fits} THEN {side}pad({{0}}, {{1}}, {{2}}) END"}


def _series(step: str) -> dict[str, Rendering]:
    towards = f"sign({step}) * sign({{1}} - {{0}}) >= 0 AND {step} <> 0"
    series = f"CAST(generate_series({{0}}, {{1}}, {step}) AS {{r}})"
    return {
        "duckdb": f"CASE WHEN {towards} AND abs({{1}} - {{0}}) <= 1000000 THEN {series} END",
    }


def _spark(name: str, rendering: Rendering) -> dict[str, Rendering]:
    return {"spark": either(rendering, py(name))}


_DOWN = "CASE WHEN {0} <= {1} THEN 1 ELSE -1 END"
_EXTRACT = "CASE WHEN {{1}} RLIKE {{0}} THEN regexp_extract({{1}}, {{0}}, {}) END"
_REPLACE = either(_literal("replace({*})", _old_is_literal), py("REPLACE"))
_BEFORE: dict[str, dict[str, Any]] = {
    "REGEXP_EXTRACT(STRING, STRING)": _spark(
        "REGEXP_EXTRACT", _literal(_EXTRACT.format("0"), _pattern(0))
    ),
    "REGEXP_EXTRACT(STRING, STRING, INTEGER)": _spark(
        "REGEXP_EXTRACT", _literal(_EXTRACT.format("{2}"), _pattern(0, 2))
    ),
    "REGEXP_EXTRACT_ALL(STRING, STRING)": _spark(
        "REGEXP_EXTRACT_ALL", _literal("regexp_extract_all({1}, {0}, 0)", _pattern(0))
    ),
    "REGEXP_EXTRACT_ALL(STRING, STRING, INTEGER)": _spark(
        "REGEXP_EXTRACT_ALL", _literal("regexp_extract_all({1}, {0}, {2})", _pattern(0, 2))
    ),
    "REGEXP_REPLACE(STRING, STRING, STRING)": _spark(
        "REGEXP_REPLACE", _literal("regexp_replace({*})", _pattern(1))
    ),
    "REGEXP_SPLIT_TO_ARRAY(STRING, STRING)": _spark(
        "REGEXP_SPLIT_TO_ARRAY", _literal("split({0}, {1}, -1)", _pattern(1), _never_empty)
    ),
    "ARRAY_JOIN(ARRAY<T>, STRING)": _spark("ARRAY_JOIN", joined),
    "REPLACE(STRING, STRING, STRING)": {"spark": _REPLACE, "duckdb": _REPLACE},
    "LPAD(STRING, INTEGER, STRING)": _pad("l"),
    "RPAD(STRING, INTEGER, STRING)": _pad("r"),
    "GENERATE_SERIES(INTEGER, INTEGER)": _series(_DOWN),
    "GENERATE_SERIES(BIGINT, BIGINT)": _series(_DOWN),
    "GENERATE_SERIES(INTEGER, INTEGER, INTEGER)": _series("{2}"),
    "GENERATE_SERIES(BIGINT, BIGINT, INTEGER)": _series("{2}"),
}
