from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from tests.bench.report.outcome import METRICS, Outcome
from tests.bench.report.plots import drawn, write_png
from tests.bench.report.report import Report, markdown, ratio, spreads

_OUTCOMES = (
    Outcome("a", "holdfast", 1, 100, {"rate": 200.0, "peak_mb": 30.0}),
    Outcome("a", "holdfast", 2, 100, {"rate": 400.0, "peak_mb": 10.0}),
    Outcome("a", "holdfast", 3, 100, {"rate": 9_000.0}, wrong="its 3 keys count 99 of 100 records"),
    Outcome("a", "kafka-streams", 1, 100, {"rate": 100.0, "peak_mb": 10.0}),
    Outcome("g", "kafka-streams", 1, 100, {}, wrong="too slow"),
)
_REPORT = Report(
    {"commit": "abc", "cpu": "2 x chip"},
    {"records": 100},
    {"holdfast": ("Holdfast", "exactly once"), "kafka-streams": ("Kafka Streams", "too")},
    _OUTCOMES,
    90.0,
)


def test_a_run_whose_table_is_wrong_has_no_number() -> None:
    found = spreads(_OUTCOMES)
    assert found["a", "rate", "holdfast"].median == 300.0
    assert found["a", "rate", "holdfast"].most == 400.0


def test_a_ratio_says_how_many_times_better_we_are() -> None:
    found = spreads(_OUTCOMES)
    assert METRICS["rate"].more_is_better
    assert ratio(found, "a", "rate", "kafka-streams") == 3.0
    assert not METRICS["peak_mb"].more_is_better
    assert ratio(found, "a", "peak_mb", "kafka-streams") == 0.5
    assert ratio(found, "a", "rate", "quix") is None


def test_the_table_shows_medians_ratios_and_what_does_not_count() -> None:
    text = markdown(_REPORT)
    assert "| steady rate, records/s | 300 (200–400) | 100 **[3.00×]** |" in text
    assert "* a, holdfast, round 3: its 3 keys count 99 of 100 records" in text
    assert "* g, kafka-streams, round 1: too slow" in text


def test_the_header_names_what_is_wanted() -> None:
    assert (
        "* goals: (a-avro) 3, (a-protobuf) 3, (h) 1.5, (i) 2 times Kafka Streams' steady rate"
        in markdown(_REPORT)
    )


def test_json_holds_every_run_and_the_summary() -> None:
    values = _REPORT.as_json()
    assert len(values["outcomes"]) == len(_OUTCOMES)
    assert values["summary"]["a"]["rate"]["kafka-streams"]["holdfast_is_better"] == 3.0


def test_no_label_of_the_plot_hides_another_and_numbers_are_plain() -> None:
    names = ["a", "a-avro", "a-protobuf", *"bcdhijk"]
    outcomes = tuple(Outcome(w, "holdfast", 1, 9, {"restore_rate": 1.2e6}) for w in names)
    figure = drawn(replace(_REPORT, outcomes=outcomes))
    assert figure is not None
    figure.draw_without_rendering()
    (axes,) = figure.axes
    labels = axes.get_xticklabels()
    # Turned by 45 degrees they are apart if their ends are further apart than a line is high.
    ends = [label.get_window_extent().x1 for label in labels]
    height = 1.5 * float(labels[0].get_fontsize()) * figure.dpi / 72
    assert labels[0].get_rotation() == 45
    assert min(b - a for a, b in pairwise(ends)) > height
    assert "1,000,000" in [label.get_text() for label in axes.get_yticklabels()]


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    write_png(_REPORT, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
