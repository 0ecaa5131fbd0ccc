"""A run's report: page, picture and JUnit say the same, and need nothing from outside."""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from holdfast.chaos.reads.checkers import READ_CHECKERS
from holdfast.chaos.report.advice import ADVICE
from holdfast.chaos.report.files import run_as_junit, run_as_text, write_report
from holdfast.chaos.report.page import page
from holdfast.chaos.report.plots import timeline_svg
from holdfast.chaos.report.summary import read_summary, recovery_stats, series
from holdfast.chaos.run.checkers import RUN_CHECKERS
from holdfast.errors import Refused
from holdfast.judge.checkers.places import stores_agree
from holdfast.judge.checkers.results import FINAL_CHECKERS, RESULT_STREAM_CHECKERS
from holdfast.judge.checkers.streams import STREAM_CHECKERS
from holdfast.judge.checkers.tables import TABLE_CHECKERS
from tests.unit.chaos.reporting import write_bad, write_good
from tests.unit.chaos.runs import RATE


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    write_good(folder)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    write_bad(folder)
    write_report(folder)
    return folder


class _Balance(HTMLParser):
    """Do all tags close in the order in which they open?"""

    VOID = ("meta", "br", "hr")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words(folder: Path) -> str:
    parser = _Balance()
    parser.feed((folder / "report.html").read_text(encoding="utf-8"))
    assert parser.open == []
    return re.sub(r"\s+", " ", " ".join(parser.words))


def test_the_page_loads_nothing_from_anywhere(good: Path) -> None:
    text = (good / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text
    found = re.findall(r"""(?:src|href|url|@import)\s*[=(]\s*["']?([^"')\s>]+)""", text)
    assert [f for f in found if not f.startswith("#")] == []
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert {f.removeprefix("#") for f in found} <= set(ids)


def test_the_page_of_a_good_run(good: Path) -> None:
    text = words(good)
    assert "✓ valid" in text
    assert "12 faults, 2 tables and streams: nothing was lost, doubled or different." in text
    assert "4711" in text
    assert "Asked for 12 faults" in text
    assert "executor kill, produced (held at produced)" in text
    assert "SELECT title, COUNT(*)" in text
    assert "Undisturbed, the job committed every 0.9 s." in text
    assert "What is wrong" not in text


def test_the_page_of_a_bad_run_says_what_is_wrong_and_what_to_do(bad: Path) -> None:
    text = words(bad)
    assert "✗ invalid" in text
    assert "PER_PRODUCT_MINUTE: diverged_values" in text
    assert "A <b> | 1790000000000: ORDERS is 41, recomputed 42" in text
    assert ADVICE["diverged_values"] in text
    assert "fault 1, executor kill: did not land (pid 4711 still lives)" in text


def test_reads_are_told_in_every_form(good: Path) -> None:
    told = "reads, server kill: 235, 1 failed, p50 10.8 ms, p99 169.1 ms"
    assert told in run_as_text(read_summary(good).verdict)
    assert "reads of EXTREMES: none, it never had a row" in run_as_text(read_summary(good).verdict)
    assert re.search(r"server kill\s*235\s*1\s*10\.8\s*169\.1", words(good))
    assert re.search(r"PER_CUSTOMER\s*3,550\s*EXTREMES\s*it never had a row\s*0", words(good))
    suite = ET.parse(good / "junit.xml").getroot()
    found = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert found["reads.all.p99_ms"] == "158.84"
    assert found["reads.server.kill.failed"] == "1"
    read = json.loads((good / "verdict.json").read_text(encoding="utf-8"))["reads"]
    assert [kind["count"] for kind in read] == [3_551, 235]
    nothing = replace(read_summary(good), verdict=replace(read_summary(good).verdict, reads=()))
    assert "Look-ups" not in page(nothing)
    assert "<properties>" not in run_as_junit(nothing.verdict)


def test_the_picture_is_one(good: Path) -> None:
    data = (good / "report.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert (width > 1000, height > 1000) == (True, True)


def test_junit_holds_the_run_s_own_checkers_too(good: Path, bad: Path) -> None:
    suite = ET.parse(good / "junit.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert int(suite.get("tests") or 0) == 6 + len(RUN_CHECKERS)
    suite = ET.parse(bad / "junit.xml").getroot()
    assert [c.get("name") for c in suite.findall("testcase[failure]")] == [
        "diverged_values", "faults_landed",
    ]  # fmt: skip


def test_the_text_is_short_when_all_is_well(good: Path, bad: Path) -> None:
    text = run_as_text(read_summary(good).verdict)
    assert "✓ the run: 9 of 9 checks" in text
    assert re.search(r"recovery from executor pause \(3\): median \d+\.\d s", text)
    assert text.endswith("of shop)")
    assert "lost_keys" not in text
    assert "✗ faults_landed" in run_as_text(read_summary(bad).verdict)


def test_a_run_without_faults_or_samples_has_a_report_as_well(tmp_path: Path) -> None:
    write_good(tmp_path, faults=0)
    (tmp_path / "observer.jsonl").unlink()
    assert "No recovery was seen" in write_report(tmp_path).read_text(encoding="utf-8")


def test_the_headline_says_that_the_job_refused(good: Path) -> None:
    summary = read_summary(good)
    strikes = (*summary.history.strikes[:1], replace(summary.history.strikes[1], refusal="no"))
    nothing = replace(summary.verdict.job, tables=())
    refused = replace(
        summary,
        history=replace(summary.history, strikes=strikes),
        verdict=replace(summary.verdict, job=nothing),
    )
    assert refused.headline() == "2 faults, 0 tables and streams: the job has refused to go on."


def test_a_run_nobody_judged_has_no_report(tmp_path: Path) -> None:
    write_good(tmp_path)
    (tmp_path / "verdict.json").unlink()
    with pytest.raises(Refused, match="holds no judged run"):
        write_report(tmp_path)


def test_there_is_advice_on_every_checker() -> None:
    checkers = [*TABLE_CHECKERS, *STREAM_CHECKERS, *RUN_CHECKERS, stores_agree]
    checkers += [*FINAL_CHECKERS, *RESULT_STREAM_CHECKERS, *READ_CHECKERS]
    assert {c.__name__ for c in checkers} | {"catch_up", "recompute"} == set(ADVICE)


def test_recovery_statistics() -> None:
    one, several, everything = recovery_stats({"a": (5.0,), "b": (1.0, 2.0, 9.0)})
    assert (one.median_s, one.p95_s, one.max_s) == (5.0, 5.0, 5.0)
    assert (several.median_s, several.max_s) == (2.0, 9.0)
    assert several.p95_s == pytest.approx(8.3)
    assert (everything.kind, len(everything.seconds)) == ("all", 4)
    assert recovery_stats({}) == []


def test_rates_over_time(good: Path) -> None:
    found = series(read_summary(good))
    assert len(found.at_s) == len(found.arriving) == len(found.committed) == len(found.lag)
    assert found.arriving[40] == pytest.approx(RATE, rel=0.02)
    assert max(found.committed[20:]) > RATE  # it catches up
    assert min(found.committed[20:]) == 0
    assert len(found.restoring) == 12
    assert found.silent == ()


def test_where_nobody_could_look_nothing_is_drawn(tmp_path: Path) -> None:
    write_good(tmp_path, faults=1)
    lines = (tmp_path / "observer.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "observer.jsonl").write_bytes(b"".join(lines[:40] + lines[60:]))
    found = series(read_summary(tmp_path))
    assert len(found.at_s) == len(lines) - 20 + 1
    unknown = [i for i, rate in enumerate(found.arriving) if math.isnan(rate) and i > 10]
    assert unknown == [40]
    assert math.isnan(found.lag[40])


def test_a_fault_s_label_ends_before_the_next_one_begins(tmp_path: Path) -> None:
    write_good(tmp_path, 24)
    summary = read_summary(tmp_path)
    svg = ET.fromstring(timeline_svg(summary))
    texts = [text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    told = [text.strip() for text in texts if re.fullmatch(r"\s?\d+( [a-z-]+)?\s?", text)]
    labels = {int(label.split()[0]): label for label in told}
    faults = {s.injection.number + 1: s.injection.fault.value for s in summary.history.strikes}
    assert faults.keys() <= labels.keys(), "each has its number"
    full = {number for number, fault in faults.items() if labels[number] == f"{number} {fault}"}
    assert {4, 24} <= faults.keys() - full, "the next one, or the end of the plot, is too near"
    assert {1, 2, 3, 8} <= full
