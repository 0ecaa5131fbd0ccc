"""Java's patterns by RE2: `java_regex/JavaRegex.java` made the golden values, on Java 25.

Some were written by hand, most drawn at random.  RE2 differs from Java where nobody looks: what the
group of an empty loop, `(a|)*`, holds; a match of nothing in the middle of a surrogate pair.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from holdfast.tasks.functions.java.regex import JavaRegex, PatternError, UnsupportedPatternError

_GOLDEN = Path(__file__).with_name("java_regex") / "golden.tsv"


def _golden() -> list[tuple[str, str, str]]:
    lines = _GOLDEN.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return [(unquote(pattern), unquote(text), finds) for pattern, text, finds in rows]


def _finds(pattern: str, text: str) -> str:
    try:
        regex = JavaRegex(pattern)
    except UnsupportedPatternError:
        return "unsupported"
    except PatternError:
        return "refused"
    found = (";".join(f"{a},{b}" for a, b in match.spans) for match in regex.finds(text))
    return " ".join(found)


def test_it_finds_what_java_finds() -> None:
    ours = [(pattern, text, _finds(pattern, text)) for pattern, text, _ in _golden()]
    told = [row for row in zip(ours, _golden(), strict=True) if row[0][2] != "unsupported"]
    assert [a for a, _ in told] == [b for _, b in told]
    assert len(told) > 0.8 * len(ours)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1", r"(?<n>a)\k<n>", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "a*+", "a{2}+",
        r"\B", r"\Gx", r"\X", "(?U)x", "[a-z&&[def]]", "[a[b]]", "a$b", r"a\Z(?:b)", "a{1001}",
        r"\p{InGreek}", r"\p{javaLowerCase}", r"\p{IsGreco}", r"(\p{L}{300})", "(a|b$)c",
    ],
)  # fmt: skip
def test_what_re2_has_not_is_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedPatternError):
        JavaRegex(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[a", "*", "a{2", "[b-a]", r"\j", "\\", r"\x{110000}", r"\uD83D", "(?<a>x)(?<a>y)",
     "(?y)", "a**", r"\x{ffffff}"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError) as refused:
        JavaRegex(pattern)
    assert refused.type is PatternError


def test_lines_that_end_with_more_than_a_newline_are_refused() -> None:
    lines = JavaRegex("(?m)^b$")
    assert lines.find("a\nb\nc") is not None
    with pytest.raises(PatternError, match="newline"):
        lines.find("a\r\nb")
