from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli.compaction.survey_table import summed, survey_view
from holdfast.compaction.survey.facts import CleanerState, Estimate, How, RestoreFacts, Survey
from tests.unit.compaction.surveys import a_broker, a_survey, a_topic, own_settings


def _shown(survey: Survey) -> str:
    file = io.StringIO()
    Console(file=file, width=200).print(survey_view(survey))
    return file.getvalue()


def _line(**facts: Any) -> str:
    """The topic's line, of one partition."""
    shown = _shown(a_survey(a_topic(count=1, **facts)))
    return next(line for line in shown.splitlines() if "-changelog" in line)


def test_counted_numbers_are_plain() -> None:
    line = _line(records=Estimate(1_200), live_keys=Estimate(300))
    assert " 1,200 " in line
    assert " 300 (25%) " in line


def test_sampled_numbers_say_so_and_large_errors_too() -> None:
    assert " ~1,200 " in _line(records=Estimate(1_200, 3, How.SAMPLED))
    assert " ~1,200 ±10% " in _line(records=Estimate(1_200, 120, How.SAMPLED))
    assert " <30 " in _line(tombstones=Estimate(0, 30, How.SAMPLED))


def test_what_nobody_knows_is_a_question_mark() -> None:
    line = _line(live_keys=Estimate.unknown())
    assert " ? " in line
    assert "%)" not in line


def test_a_restore_says_whether_its_rate_was_measured() -> None:
    topic = a_topic(count=1)
    for how, text in ((How.COUNTED, " 3.0 s"), (How.DERIVED, " ~3.0 s"), (How.UNKNOWN, " ?")):
        restore = RestoreFacts(200_000, 1, 3.0, how)
        assert text in _shown(a_survey(replace(topic, restore=restore)))


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"orphaned": "its source is gone"}, "orphaned: its source is gone"),
        ({"readers": ("audit", "copy")}, "also read by consumer groups audit, copy"),
        (
            {"settings": own_settings(cleanup_policy="compact,delete")},
            "cleanup.policy is compact,delete, which deletes commit markers by time",
        ),
    ],
)
def test_oddities_of_topics_are_told(change: dict[str, Any], note: str) -> None:
    shown = _shown(a_survey(replace(a_topic(count=1), **change)))
    assert note in shown


@pytest.mark.parametrize(
    ("facts", "note"),
    [
        ({"leader": -1}, "partition 0 has no leader"),
        ({"replicas": (1, 2, 3), "in_sync": (2,)}, "partition 0 is not in sync on broker 1, 3"),
        ({"expired": Estimate(500)}, "500 records of windows past retention are still kept"),
    ],
)
def test_oddities_of_partitions_are_told(facts: dict[str, Any], note: str) -> None:
    assert note in _shown(a_survey(a_topic(count=1, **facts)))


def test_a_cleaner_that_does_not_work_is_loud() -> None:
    survey = a_survey(a_topic(count=1))
    broker = replace(a_broker(), cleaner=CleanerState.DEAD, evidence="a thread ended at noon")
    shown = _shown(replace(survey, brokers=(broker,)))
    assert "log cleaner NOT WORKING: dead (a thread ended at noon)" in shown
    fine = replace(broker, cleaner=CleanerState.RUNNING)
    assert "NOT WORKING" not in _shown(replace(survey, brokers=(fine,)))


def test_notes_come_last_and_nothing_found_is_fine() -> None:
    survey = replace(a_survey(), topics=(), notes=("nobody answers",))
    shown = _shown(survey)
    assert "nobody answers" in shown
    assert "0 changelogs" in shown


def test_errors_of_partitions_add_up_as_independent_ones_do() -> None:
    parts = [Estimate(10, 3, How.SAMPLED), Estimate(20, 4, How.SAMPLED), Estimate(5)]
    assert summed(parts) == Estimate(35, 5, How.SAMPLED)
    assert not summed([*parts, Estimate.unknown()]).known
    assert summed([]) == Estimate(0)


def test_what_is_so_of_several_topics_is_said_once() -> None:
    notes = (*(f"t{n}: its live keys are unknown" for n in range(5)), "nobody: asked, two")
    text = _shown(replace(a_survey(a_topic()), notes=notes))
    assert "t0, t1, t2 and 2 more: its live keys are unknown" in text
    assert text.count("live keys are unknown") == 1
    assert "nobody: asked, two" in text
