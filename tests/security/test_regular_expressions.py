"""No pattern, and no text that one is matched with, takes more time than their lengths explain."""

from __future__ import annotations

import pytest

from holdfast.errors import Unsupported
from holdfast.sql import compile_text
from holdfast.tasks.functions.registry import FUNCTIONS
from holdfast.types.statements.topology import ProjectStep
from tests.support.limited import limited

_SOURCE = "CREATE STREAM s (t STRING, p STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');\n"
_ATTACKS = [
    # A letter more doubles the time of what backtracks.
    ("REGEXP_EXTRACT", ("(a+)+$", "a" * 5_000 + "!")),
    ("REGEXP_EXTRACT", ("(a|aa)+$", "a" * 5_000 + "!")),
    ("REGEXP_EXTRACT_ALL", ("(.*a){12}", "a" * 3_000 + "!")),
    ("REGEXP_REPLACE", ("a" * 5_000 + "!", "(a*)*$", "x")),
    ("REGEXP_SPLIT_TO_ARRAY", ("a" * 5_000 + "!", "(a?){30}b")),
    ("LIKE", ("a" * 20_000, "%a%a%a%a%a%a%b")),
    ("LIKE", ("a" * 20_000, "%_a%_a%_a%_a%b")),
    ("PARSE_TIMESTAMP", ("1" * 20_000 + "x", "dMHms")),
    ("PARSE_DATE", ("1" * 20_000 + "x", "DdM")),
]


def _compiled(expression: str) -> str:
    text = f"{_SOURCE}CREATE STREAM o AS SELECT {expression} AS c FROM s;"
    step = compile_text(text).queries[0].step
    assert isinstance(step, ProjectStep)
    return step.outputs[0].sql


def test_patterns_that_are_made_to_backtrack() -> None:
    calls = [(name, args) for name, args in _ATTACKS if name in FUNCTIONS]
    assert len(calls) == len(_ATTACKS)
    printed = limited(f"""
        from holdfast.tasks.functions.base import _row
        from holdfast.tasks.functions.registry import FUNCTIONS
        for name, args in {calls!r}:
            _row(FUNCTIONS[name], (), args)
        print("done")
    """)
    assert printed == "done"


@pytest.mark.parametrize(
    ("expression", "function"),
    [
        ("REGEXP_EXTRACT('(a+)+$', t)", "hf_regexp_extract__"),
        ("REGEXP_EXTRACT_ALL(p, t)", "hf_regexp_extract_all__"),
        ("REGEXP_REPLACE(t, '(a+)+$', 'x')", "hf_regexp_replace__"),
        ("REGEXP_SPLIT_TO_ARRAY(t, '(a+)+$')", "hf_regexp_split_to_array__"),
        ("t LIKE '%a%a%a%b'", "hf_like__"),
        ("t LIKE 'a_b'", "hf_like__"),
        ("t LIKE p", "hf_like__"),
        ("t LIKE p ESCAPE '!'", "hf_like__"),
        # What Java would not take for plain text.
        ("SPLIT(t, '\\E(a+)+$')", "hf_split__"),
        ("SPLIT_TO_MAP(t, '\\E(a+)+$', ':')", "hf_split_to_map__"),
    ],
)
def test_spark_evaluates_no_pattern_of_a_statement(expression: str, function: str) -> None:
    text = _compiled(expression)
    assert function in text
    assert not {"RLIKE", "regexp_", " LIKE ", "split("} & set(text.split())


@pytest.mark.parametrize("pattern", ["%", "a%", "%a", "%a%", "a%b", "a", "50!%%"])
def test_what_needs_no_search_is_the_engines(pattern: str) -> None:
    escape = " ESCAPE '!'" if "!" in pattern else ""
    assert " LIKE " in _compiled(f"t LIKE '{pattern}'{escape}")


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        (r"REGEXP_EXTRACT('(a)\1', t)", "reference to a group"),
        ("REGEXP_EXTRACT_ALL('(?<=a)b', t)", "look-behind"),
        ("REGEXP_REPLACE(t, 'a(?!b)', 'x')", "look-ahead"),
        ("REGEXP_SPLIT_TO_ARRAY(t, 'a++')", "possessive"),
        ("REGEXP_EXTRACT('a{2000}', t)", "repetition"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_its_place(expression: str, what: str) -> None:
    with pytest.raises(Unsupported, match=what) as refused:
        _compiled(expression)
    assert (refused.value.line, refused.value.column) == (2, 27)


def test_a_literal_that_is_wrong_for_java_too_is_null_in_each_row() -> None:
    assert "hf_regexp_extract__" in _compiled("REGEXP_EXTRACT('(', t)")


@pytest.mark.parametrize(
    ("text", "pattern", "escape", "passes"),
    [
        ("a.c", "a.c", "", True),
        ("abc", "a.c", "", False),
        ("a\nc", "a_c", "", True),
        ("a\nb\nc", "a%c", "", True),
        ("\U0001f600", "_", "", True),
        ("50%", "50!%", "!", True),
        ("505", "50!%", "!", False),
        ("a\\b", "a\\_", "", True),
        ("ab", "a%%%%b", "", True),
        ("", "%", "", True),
    ],
)
def test_like(text: str, pattern: str, escape: str, passes: bool) -> None:
    arguments = (text, pattern, escape) if escape else (text, pattern)
    assert FUNCTIONS["LIKE"].body(*arguments) is passes


@pytest.mark.parametrize(
    ("text", "pattern", "replacement", "made"),
    [
        ("ab", "(a)(b)?", "[$2$1]", "[ba]"),
        ("a", "(a)(b)?", "[$2]", "[]"),
        ("ab", "(a)", "$12", "a2b"),
        ("ab", "(?<x>a)", "${x}${x}", "aab"),
        ("ab", "a", r"\$\\", r"$\b"),
        ("abc", "", "-", "-a-b-c-"),
    ],
)
def test_replacements_are_java_s(text: str, pattern: str, replacement: str, made: str) -> None:
    assert FUNCTIONS["REGEXP_REPLACE"].body(text, pattern, replacement) == made


@pytest.mark.parametrize("replacement", ["$", "\\", "$1", "${y}", "$x"])
def test_replacements_that_java_refuses(replacement: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        FUNCTIONS["REGEXP_REPLACE"].body("a", "a", replacement)
