"""Predicted against real, on surveys made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.compaction.apply.applied import Applied, AppliedTopic, Outcome
from holdfast.compaction.apply.scratch import RestoreSample, median_partition
from holdfast.compaction.plan.plan import Plan
from holdfast.compaction.plan.planner import make_plan
from holdfast.compaction.plan.policy import Policy
from holdfast.compaction.runs import REPORT_PLOT
from holdfast.compaction.survey.facts import Estimate, Survey, TopicFacts
from holdfast.compaction.verify.history import append, judge, read_history
from holdfast.compaction.verify.report import write_report
from holdfast.compaction.verify.verified import Verified
from holdfast.compaction.verify.verify import compare
from holdfast.errors import Refused
from tests.unit.compaction.surveys import a_partition, a_survey, a_topic, changelog_settings

BEFORE = a_topic(count=2)
SURVEY = a_survey(BEFORE)
PLAN = make_plan(SURVEY, Policy())
(PLANNED,) = PLAN.topics
AFTER_BYTES = sum(p.bytes_after for p in PLANNED.partitions)


def _applied(**changes: object) -> Applied:
    done = AppliedTopic(
        BEFORE.topic,
        Outcome.CLEANED,
        {},
        {c.name: c.after for c in PLANNED.temporary},
        ends_before={p.partition: p.end for p in BEFORE.partitions},
        restore=RestoreSample(0, 500_000, 20_000_000, 12_500, 2.0),
    )
    return Applied("run", PLAN.hash, 0, 1.0, (), (replace(done, **changes),))  # type: ignore[arg-type]


def _after(*, factor: float = 1.0, grown: int = 0) -> Survey:
    """As planned, times `factor`, and `grown` records on top; the settings that stay are set."""
    planned = {p.partition: p for p in PLANNED.partitions}
    partitions = tuple(
        replace(
            p,
            bytes=round(planned[p.partition].bytes_after * factor) + 60 * grown,
            records=Estimate(planned[p.partition].records_after * factor + grown),
            end=p.end + grown,
        )
        for p in BEFORE.partitions
    )
    own = {c.name: c.after for c in PLANNED.changes if c.after is not None}
    settings = changelog_settings(own)
    return a_survey(replace(BEFORE, partitions=partitions, settings=settings))


def _compare(after: Survey, applied: Applied, sample: RestoreSample | None = None) -> Verified:
    samples = {BEFORE.topic: sample} if sample is not None else {}
    return compare(PLAN, SURVEY, after, applied, samples)


def test_what_came_as_predicted_has_no_warning() -> None:
    found = _compare(_after(), _applied())
    (topic,) = found.topics
    assert (found.verdict, found.all_warnings) == ("as predicted", ())
    assert topic.bytes_before == 60_000_000
    assert topic.bytes_real == topic.bytes_predicted == AFTER_BYTES
    assert topic.removed_share == 1.0


def test_what_the_job_wrote_since_is_not_held_against_the_prediction() -> None:
    (topic,) = _compare(_after(grown=40_000), _applied()).topics
    assert topic.bytes_predicted == AFTER_BYTES + 2 * 40_000 * 60
    assert topic.warnings == ()
    assert topic.removed_share == 1.0


def test_the_roll_of_a_segment_is_no_growth() -> None:
    (topic,) = _compare(_after(grown=2), _applied(rolled=(0, 1))).topics
    assert [p.grown_records for p in topic.partitions] == [0, 0]


def test_a_prediction_that_was_far_off_is_told_in_people_s_units() -> None:
    warnings = _compare(_after(factor=1.5), _applied()).all_warnings
    (size,) = [w for w in warnings if "KiB" in w or "MiB" in w]
    assert "+50% against the prediction:" in size
    found = _compare(_after(factor=40), _applied()).all_warnings
    assert any("40 times as much against the prediction:" in w for w in found)


@pytest.mark.parametrize(("factor", "warned"), [(1.29, False), (1.32, True), (0.68, True)])
def test_more_than_thirty_percent_off_is_warned_of(factor: float, warned: bool) -> None:
    found = _compare(_after(factor=factor), _applied())
    assert any("against the prediction" in w for w in found.all_warnings) == warned
    assert found.verdict == ("off" if warned else "as predicted")


def test_a_restore_counts_records_and_gives_the_pace() -> None:
    after = _after()
    one = after.topics[0].partitions[0]
    sample = RestoreSample(0, 12_600, 500_000, 12_500, 0.1)
    (topic,) = _compare(after, _applied(), sample).topics
    assert [p.records_real for p in topic.partitions] == [12_600, 12_600]
    assert one.bytes == after.topics[0].partitions[1].bytes
    assert topic.restore_before_s == pytest.approx(2.0)  # twice the partition, two processes
    assert topic.restore_real_s == pytest.approx(0.1)
    assert topic.restore_share == pytest.approx(12_600 / 500_000)


def test_a_setting_that_did_not_come_back_is_warned_of() -> None:
    stuck = changelog_settings({"min.cleanable.dirty.ratio": "0.0"})
    after = _after()
    topic = replace(after.topics[0], settings=stuck)
    found = _compare(replace(after, topics=(topic,)), _applied())
    assert any(w.startswith(f"{topic.topic}: min.cleanable") for w in found.all_warnings)


def test_topics_that_were_not_reached_or_are_gone_are_said() -> None:
    empty = replace(_applied(), topics=(), cut_off="interrupted")
    found = _compare(_after(), empty)
    assert found.warnings == ("The apply was cut off: interrupted",)
    assert found.topics[0].warnings == ("Not verified: it was not reached by the apply.",)
    gone = compare(PLAN, SURVEY, a_survey(), _applied(), {})
    assert gone.topics[0].warnings == ("Not verified: it is gone.",)


def test_another_plan_than_the_applied_one_is_refused() -> None:
    with pytest.raises(Refused, match="applied was 0123"):
        _compare(_after(), replace(_applied(), plan_hash="0123"))


def test_history_judges_predictions_and_survives_a_broken_line(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    for n, factor in enumerate((1.0, 1.2, 1.5)):
        append(file, replace(_compare(_after(factor=factor), _applied()), run=f"r{n}"))
    with file.open("ab") as out:
        out.write(b'{"run": "cut o\n')
    append(file, replace(_compare(_after(factor=1.1), _applied()), run="r2"))
    lines = read_history(file)
    assert [line.run for line in lines] == ["r0", "r1", "r2"], "the last word on a run counts"
    judged = judge(lines)
    assert judged.topics == 3
    assert judged.bytes == pytest.approx(0.1, abs=0.001)
    assert judged.restore is None, "restores of less than seconds say nothing of a pace"
    assert read_history(tmp_path / "none") == []
    assert judge([]).bytes is None


def test_the_report_is_one_page_and_a_picture(tmp_path: Path) -> None:
    sample = RestoreSample(0, 12_600, 500_000, 12_500, 0.1)
    verified = _compare(_after(factor=1.5), _applied(note="<b>odd</b>"), sample)
    append(tmp_path / "h", verified)
    append(tmp_path / "h", replace(verified, run="again"))
    page = write_report(tmp_path, verified, read_history(tmp_path / "h")).read_text()
    assert "&lt;b&gt;odd&lt;/b&gt;" in page
    assert "<b>odd</b>" not in page
    assert "57.2 MiB" in page
    assert "500,000 → 12,600" in page
    assert "warning" in page
    assert "http" not in page.replace("http://www.w3.org/", "")
    assert (tmp_path / REPORT_PLOT).read_bytes().startswith(b"\x89PNG")


def test_records_of_runs_read_back_what_was_written(tmp_path: Path) -> None:
    applied, verified = _applied(), _compare(_after(), _applied())
    for name, value in (("a", applied), ("v", verified)):
        (tmp_path / name).write_bytes(value.to_json())
    assert Applied.read(tmp_path / "a") == applied
    assert Verified.read(tmp_path / "v") == verified
    assert Applied.read(tmp_path / "none") is None
    (tmp_path / "a").write_text(json.dumps({"run": 1}))
    with pytest.raises(Refused, match="no record of an apply"):
        Applied.read(tmp_path / "a")
    with pytest.raises(Refused):
        Verified.read(tmp_path / "none")


def test_the_partition_in_the_middle_is_measured() -> None:
    sizes = {0: 10, 1: 500, 2: 30}
    partitions = tuple(a_partition(n, bytes=size) for n, size in sizes.items())
    topic: TopicFacts = replace(BEFORE, partitions=partitions)
    assert median_partition(topic) == 2


def test_the_plan_of_these_tests_cleans() -> None:
    assert isinstance(PLAN, Plan)
    assert PLANNED.temporary
    assert AFTER_BYTES < 6_000_000
