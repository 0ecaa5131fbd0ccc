"""Results as people and programs read them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from holdfast.testing.cases import Case, Refusal, Spec
from holdfast.testing.compare import compare
from holdfast.testing.report import as_json, as_text, junit, totals
from holdfast.testing.run import Outcome, Result

CASE = Case("case", "folder/file.json", "", (), ())
DIFFERENT = tuple(compare("T", [Spec("T", "k", {"A": 1}, 7)], [Spec("T", "k", "\x00\\", 8)]))
RESULTS = [
    Result(CASE, Outcome.PASSED, seconds=0.25),
    Result(CASE, Outcome.FAILED, "1 record differs", DIFFERENT),
    Result(CASE, Outcome.ERROR, "KeyError: 'x'", trace="file.py:1 f: x"),
    Result(CASE, Outcome.SKIPPED, "disabled in its file"),
    Result(Case("c", "f", "", (), (), refusal=Refusal("", "w")), Outcome.PASSED, words=True),
    Result(Case("d", "f", "", (), (), refusal=Refusal("", "w")), Outcome.PASSED, words=False),
]


def test_totals() -> None:
    assert totals(RESULTS) == {
        "passed": 3,
        "failed": 1,
        "error": 1,
        "skipped": 1,
        "refused_with_the_words": 1,
        "refused_in_other_words": 1,
    }


def test_a_difference_shows_both_records_and_what_differs() -> None:
    text = as_text(RESULTS[1])
    for part in ("FAILED case", 'value {"A":1}', "timestamp 7", "timestamp 8", "value, timestamp"):
        assert part in text


def test_many_differences_are_cut() -> None:
    many = tuple(compare("T", [Spec("T", n, n) for n in range(50)], []))
    assert "and 30 more" in as_text(Result(CASE, Outcome.FAILED, "", many))


def test_json() -> None:
    found = json.loads(as_json(RESULTS))
    assert found["totals"] == totals(RESULTS)
    failed = found["cases"][1]
    assert failed["differences"][0]["what"] == ["value", "timestamp"]
    assert found["cases"][4]["expected_message"] == "w"


def test_junit(tmp_path: Path) -> None:
    junit(RESULTS, tmp_path / "x.xml")
    suite = ET.parse(tmp_path / "x.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "1", "1")
    tags = [[child.tag for child in case] for case in suite]
    assert tags == [[], ["failure"], ["error"], ["skipped"], [], []]
    assert suite[0].get("time") == "0.250"
    assert suite[0].get("classname") == "file"
