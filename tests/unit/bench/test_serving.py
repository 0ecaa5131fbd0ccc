"""What the report of `make bench-serving` counts: late pushes, missing ones, readers' gaps."""

from __future__ import annotations

import pytest

from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.strikes import Strike
from holdfast.chaos.reads.answers import Read
from tests.bench.serving.kills import rows_of_kills
from tests.bench.serving.live import Seen
from tests.bench.serving.report import Answers, Found


def seen() -> Seen:
    found = Seen(
        committed=[("a", 1, 10.0), ("a", 2, 10.1), ("b", 1, 10.0), ("c", 1, 10.2), ("a", 9, 12.0)],
        lags=[0.0, 50.0],
        until=11.0,
        cpu_s=2.0,
        records=1_000_000,
    )
    found.pushed["a"] += [(2, 10.3)]  # the first one was told with the second
    found.pushed["b"] += [(1, 9.9)]  # before the consumer it is compared with
    return found


def test_a_push_counts_with_the_first_row_that_has_the_change() -> None:
    live = seen().found("a job")
    assert (live.pushed, live.missing) == (3, 1)  # what came after the end does not count
    assert live.push_p50_ms == pytest.approx(200)
    assert live.push_p99_ms == pytest.approx(300)
    assert (live.lag_p99, live.cpu_s_per_m) == (50, 2)


def test_nothing_to_see_is_no_result() -> None:
    with pytest.raises(RuntimeError, match="2 changes were committed, 0 of them pushed"):
        Seen(committed=[("a", 1, 1.0), ("b", 1, 1.0)], lags=[0.0]).found("a job")


def read(session: str, op: int, at_s: float, took_s: float, *, failed: bool = False) -> Read:
    return Read(session, op, "TOTALS", ("a",), at_s, took_s, rows=None if failed else [])


STRIKES = [
    Strike(Injection(0, "server", Fault.KILL, Moment.RANDOM), ("1",), at_s=5.0, recovered_s=8.0),
    Strike(Injection(1, "broker", Fault.KILL, Moment.RANDOM), ("b",), at_s=20.0, recovered_s=21.0),
]
READS = [
    read("reader-0", 1, 1.0, 0.1),
    read("reader-0", 2, 1.2, 0.3),
    read("reader-0", 3, 4.9, 2.0, failed=True),
    read("reader-0", 4, 7.0, 0.5),
    read("reader-0", 5, 20.5, 0.1),
    read("reader-1", 1, 1.0, 0.1),
    read("reader-1", 2, 20.5, 0.2),
]


def test_a_gap_is_between_two_answers_of_one_reader() -> None:
    rows = {r.victim: r for r in rows_of_kills(READS, STRIKES)}
    assert list(rows) == ["all", "undisturbed", "broker", "server"]
    assert [rows["all"].kills, rows["undisturbed"].kills, rows["server"].kills] == [2, 0, 1]
    assert (rows["all"].reads, rows["all"].failed) == (7, 1)
    assert (rows["server"].reads, rows["server"].failed) == (2, 1)
    assert rows["server"].longest_gap_s == pytest.approx(6.0)
    assert rows["undisturbed"].longest_gap_s == pytest.approx(0.4)
    assert rows["broker"].longest_gap_s == pytest.approx(19.6)


def test_the_report_has_what_was_measured_and_no_more() -> None:
    found = Found({"commit": "abc"}, 64)
    assert "##" not in found.markdown()
    found.answers.append(Answers("holdfast", 10_000.4, 5, 9, 400, 0, ""))
    found.following.append(seen().found("full speed"))
    found.killed, found.verdict = rows_of_kills(READS, STRIKES), "valid"
    text = found.markdown()
    assert "| holdfast | 10,000 | 5.00 | 9.00 | 400 | 0 | - |" in text
    assert "| full speed | 200 | 300 | 3 (1) | 0 | 50 | 2.0 | 1,000,000 |" in text
    assert "| server | 1 | 2 | 1 | 500.0 | 6.00 |" in text
    assert found.as_json()["kills"]["reads"][3]["victim"] == "server"
