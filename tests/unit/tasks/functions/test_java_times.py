"""Text to event time, as Java does it: `java_times/JavaTimes.java` made the golden values."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import Unsupported
from holdfast.tasks.functions.java.parse import timestamp_parser
from holdfast.tasks.functions.times import TIMES

_GOLDEN = Path(__file__).with_name("java_times") / "golden.tsv"
_PARSE_TIMESTAMP = next(f for f in TIMES if f.name == "PARSE_TIMESTAMP")


def _golden() -> list[tuple[str, str, int | None]]:
    lines = _GOLDEN.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return [(pattern, text, None if ms == "refused" else int(ms)) for pattern, text, ms in rows]


def _by(parse: object, *arguments: str) -> int | None:
    try:
        return int(parse(*arguments))  # type: ignore[operator]
    except ValueError:
        return None


@pytest.mark.parametrize(("pattern", "text", "millis"), _golden())
def test_event_time_and_parse_timestamp_read_text_as_java_does(
    pattern: str, text: str, millis: int | None
) -> None:
    assert _by(timestamp_parser(pattern), text) == millis
    assert _by(_PARSE_TIMESTAMP.body, text, pattern) == millis


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("uuuu-MM-dd", "-2020-01-01"),
        ("uuuu-MM-dd", "0000-01-01"),
        ("yyyy-MM-dd", "+20200-01-01"),
        ("yyyy-MM-dd G", "0044-03-15 BC"),
    ],
)
def test_years_that_python_does_not_know_are_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"year|does not match"):
        timestamp_parser(pattern)(text)


@pytest.mark.parametrize("pattern", ["yyyy-ee", "yyyy]", "yyyy'", "YYYY"])
def test_a_pattern_that_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(Unsupported, match="timestamp format"):
        timestamp_parser(pattern)
