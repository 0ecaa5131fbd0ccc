"""A plan for people says the same on a terminal and on a page."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from holdfast.compaction.plan.plan import Plan
from holdfast.compaction.plan.planner import make_plan
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.plan.view import as_markdown, plan_view
from holdfast.compaction.survey.facts import TopicFacts
from tests.unit.compaction.surveys import a_survey, a_topic

_BUSY = {"write_bytes_per_s": 6_000, "write_records_per_s": 100, "rate_window_s": 3_600}


def _plan(*topics: TopicFacts, policy: Policy | None = None) -> Plan:
    return make_plan(a_survey(*topics), policy or Policy())


def _text(plan: Plan, width: int = 300) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(plan_view(plan))
    return out.getvalue()


@pytest.fixture(scope="module")
def rich_plan() -> Plan:
    busy = replace(a_topic("busy", **_BUSY), owner="kafkatopic/kafka/busy", readers=("audit",))
    topics = (busy, a_topic("quiet"), a_topic("gone", orphaned="its table is gone"))
    return _plan(*topics, policy=Policy(target_restore_s=0.01))


def test_both_say_everything(rich_plan: Plan) -> None:
    page, screen = as_markdown(rich_plan), _text(rich_plan)
    told = [rich_plan.hash, *rich_plan.unmet, *rich_plan.advice]
    for topic in rich_plan.topics:
        changes = (*topic.changes, *topic.temporary)
        told += [topic.why, *topic.risks, *(change.why for change in changes)]
        told += [f"{change.name}={change.after}" for change in changes]
    assert len(told) > 15
    for sentence in told:
        assert sentence in screen
        assert sentence.replace("_", "\\_") in page.replace("\\`", "`")
    assert "kafkatopic/kafka/busy is patched" in screen


def test_before_and_after_stand_in_one_row(rich_plan: Plan) -> None:
    (row,) = [r for r in as_markdown(rich_plan).splitlines() if r.startswith("| 2 | quiet")]
    assert row.split(" | ")[1:4] == ["quiet", "114.4 MiB", "2.9 MiB"]
    (row,) = [r for r in as_markdown(rich_plan).splitlines() if "| segment.bytes |" in r]
    assert row.startswith("| busy | segment.bytes | 67108864 | ")
    assert row.endswith(" | stays |")
    temporary = [r for r in as_markdown(rich_plan).splitlines() if "put back after" in r]
    assert len(temporary) == 4
    assert "| 0.5 (broker) | 0.0 |" in temporary[1]


def test_tables_of_a_page_have_as_many_cells_in_every_row(rich_plan: Plan) -> None:
    rows = [line for line in as_markdown(rich_plan).splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {11, 6}


def test_nothing_to_do_is_said_first() -> None:
    plan = _plan(a_topic(dirty_ratio=0, active_bytes=0))
    assert as_markdown(plan).startswith("Nothing to do.\n")
    assert _text(plan).startswith("Nothing to do.\n")
    assert as_markdown(_plan()).startswith("Nothing to do.\n")


def test_the_first_line_counts(rich_plan: Plan) -> None:
    assert as_markdown(rich_plan).startswith(
        "1 of 3 changelogs get settings that stay; 2 of 3 are cleaned, one after the other: "
        "228.9 MiB → 5.8 MiB in about "
    )


def test_no_evidence_is_taken_for_markup() -> None:
    plan = _plan(a_topic("a*b|c", orphaned="<b>it</b> is `gone`\nfor good"))
    page = as_markdown(plan)
    assert "a\\*b\\|c" in page
    assert "\\<b\\>it\\</b\\> is \\`gone\\` for good" in page
    assert "[red]x" in _text(_plan(a_topic("t", orphaned="[red]x")))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_name_and_no_number_is_broken_at_any_width(rich_plan: Plan, width: int) -> None:
    shown = _text(rich_plan, width)
    for topic in rich_plan.topics:
        assert re.search(rf"^ *{re.escape(topic.topic)}\b", shown, re.MULTILINE)
    facts = re.findall(r"bytes now: [0-9.]+ \w+;", shown)
    assert len(facts) == len(rich_plan.topics)


def test_a_changelog_that_is_not_cleaned_says_so_in_every_column(rich_plan: Plan) -> None:
    (quiet,) = [t for t in rich_plan.topics if not t.temporary][:1]
    (line,) = [ln for ln in as_markdown(rich_plan).splitlines() if f"| {quiet.topic} |" in ln]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells.count("as now") == 2
    assert cells.count("not cleaned") == 1
    assert "" not in cells[1:]


def test_a_short_time_is_never_none_and_two_equal_ones_are_said_once() -> None:
    tiny = a_topic(
        "tiny",
        records=40,
        live_keys=10,
        bytes=400_000,
        end=40,
        record_bytes=10_000,
        active_bytes=400_000,
    )
    shown = _text(_plan(tiny, policy=Policy(min_gain=0.01, min_gain_bytes=0)))
    assert " 0.0 s" not in shown
    assert "a restore still takes <1 ms without them" in shown
    assert "instead of <1 ms" not in shown
