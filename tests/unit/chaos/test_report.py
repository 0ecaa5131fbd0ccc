"""A verdict as text, JSON and JUnit XML says the same."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from holdfast.chaos.report.files import as_json, as_junit, as_text
from holdfast.cli.look.verify import exit_status
from holdfast.judge.verdict import Finding, JobVerdict, TableVerdict, Verdict
from holdfast.types.left_out import LeftOut, WarnShares

JOB = JobVerdict(
    "app",
    (
        TableVerdict("GOOD", (Finding("lost_keys", Verdict.VALID, "0 of 2"),), 5, 2),
        TableVerdict(
            "BAD",
            (
                Finding("lost_keys", Verdict.INVALID, "1 of 2", ("Aliens <3>",)),
                Finding("vacuous", Verdict.UNKNOWN, "nothing"),
            ),
            5,
            1,
        ),
    ),
    seconds=1.5,
)


def test_the_text_shows_what_is_not_valid_with_examples() -> None:
    text = as_text(JOB)
    assert "✓ GOOD: valid, 2 rows from 5 input records" in text
    assert "✗ lost_keys: 1 of 2" in text
    assert "Aliens <3>" in text
    assert "0 of 2" not in text
    assert "0 of 2" in as_text(JOB, verbose=True)
    assert text.endswith("verdict: invalid (app, 1.5 s)")


def test_the_json_carries_every_level_s_verdict() -> None:
    document = json.loads(as_json(JOB))
    assert document["verdict"] == "invalid"
    assert [t["verdict"] for t in document["tables"]] == ["valid", "invalid"]
    assert document["tables"][1]["findings"][0]["examples"] == ["Aliens <3>"]


def test_junit_counts_invalid_as_failure_and_unknown_as_error() -> None:
    suite = ET.fromstring(as_junit(JOB))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    assert suite.findall("testcase/failure")[0].text == "Aliens <3>"


def test_junit_can_be_read_whatever_keys_there_are() -> None:
    finding = Finding("lost_keys", Verdict.INVALID, "1 of 2 \x00", ("a\x01\ud800\ufffe<é😀",))
    text = as_junit(JobVerdict("app", (TableVerdict("T", (finding,)),)))
    problem = ET.fromstring(text.encode()).find("testcase/failure")
    assert problem is not None
    assert (problem.get("message"), problem.text) == ("1 of 2 ?", "a???<é😀")


def _leaving_out(*warnings: str) -> JobVerdict:
    left = LeftOut(3_124, late=2_242, dead_letters=1)
    findings = (Finding("lost_keys", Verdict.VALID, "0 of 2"),)
    table = TableVerdict("FAILURES", findings, 3_124, 90, {"ctas_failures": left}, warnings)
    return JobVerdict("app", (table,), seconds=1.5)


def test_a_valid_table_that_leaves_records_out_says_how_many_of_how_many() -> None:
    text = as_text(_leaving_out())
    assert "not in it: 2,242 of 3,124 input records (71.8 %) dropped as late, 1 of 3,124" in text
    assert text.endswith("verdict: valid (app, 1.5 s)")
    assert exit_status(_leaving_out()) == 0


def test_too_many_of_them_are_a_warning_and_no_success() -> None:
    (warning, *_) = LeftOut(3_124, late=2_242).warnings(WarnShares())
    job = _leaving_out(warning)
    text = as_text(job)
    assert f"    warning: {warning}" in text
    assert text.count("2,242 of 3,124") == 1, "it is told once"
    assert "verdict: valid, but input records are left out" in text
    document = json.loads(as_json(job))
    assert (document["verdict"], document["warnings"]) == ("valid", [f"FAILURES: {warning}"])
    assert document["tables"][0]["left_out"]["ctas_failures"]["late"] == 2_242
    assert exit_status(job) == 4
    assert exit_status(JOB) == 1, "invalid is worse"
