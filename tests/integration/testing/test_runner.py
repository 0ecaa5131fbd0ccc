"""`holdfast test`: what passes, what fails and how, and what it exits with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.local.broker import BrokerStatus
from holdfast.testing.cases import Case, Refusal, Rest, RestError, Spec
from holdfast.testing.run import Outcome, Runner
from holdfast.types.statements.topology import Emit

SQL = (
    "CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');"
    "CREATE TABLE t AS SELECT k, SUM(v) AS total FROM s GROUP BY k;"
)
INPUTS = [("a", 1), ("b", 5), ("a", 2)]
OUTPUTS = [("a", 1), ("b", 5), ("a", 3)]


@pytest.fixture(scope="module")
def runner() -> Runner:
    return Runner()


def _case(outputs: list[tuple[str, int]], **changes: Any) -> Case:
    case = Case(
        name="sums",
        origin="here",
        statements=SQL,
        inputs=tuple(Spec("in", k, {"V": v}) for k, v in INPUTS),
        outputs=tuple(Spec("T", k, {"TOTAL": v}) for k, v in outputs),
    )
    return replace(case, **changes)


def test_what_was_expected_passes(runner: Runner) -> None:
    (result,) = runner.run([_case(OUTPUTS)])
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("outputs", "what"),
    [
        ([("a", 1), ("b", 5), ("a", 4)], ("value",)),
        ([("a", 1), ("b", 5)], ("not expected",)),
        ([*OUTPUTS, ("b", 9)], ("missing",)),
    ],
)
def test_what_was_not_expected_fails(
    runner: Runner, outputs: list[tuple[str, int]], what: tuple[str, ...]
) -> None:
    (result,) = runner.run([_case(outputs)])
    assert result.outcome is Outcome.FAILED
    assert [d.what for d in result.differences] == [what]


def test_in_batches_only_the_last_change_of_a_key_is_a_result() -> None:
    (result,) = Runner(Emit.BATCH).run([_case([("a", 3), ("b", 5)])])
    assert result.outcome is Outcome.PASSED


@pytest.mark.parametrize("size", [1, 2, 3])
def test_however_many_records_are_processed_at_a_time(size: int) -> None:
    (result,) = Runner(batch_records=size).run([_case(OUTPUTS)])
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")


def test_in_batches_of_two_the_last_change_of_each_batch_is_a_result() -> None:
    outputs = [("a", 1), ("b", 5), ("a", 3)]
    (result,) = Runner(Emit.BATCH, batch_records=2).run([_case(outputs)])
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")


def test_what_is_wrong_with_one_case_leaves_the_next_alone(runner: Runner) -> None:
    unknown = _case(OUTPUTS, inputs=(Spec("nowhere", "a", {}),))
    wrong = _case(OUTPUTS, wrong="it is malformed")
    refused, *others = runner.run([unknown, wrong, _case(OUTPUTS)])
    assert refused.outcome is Outcome.FAILED
    assert "No stream or table has the topic nowhere" in refused.reason
    assert [r.outcome for r in others] == [Outcome.FAILED, Outcome.PASSED]


def test_asserted_values_that_do_not_hold(runner: Runner) -> None:
    asserts = [
        "ASSERT VALUES s (k, v) VALUES ('a', 2);",
        "ASSERT NULL VALUES s (k) KEY ('a');",
        "ASSERT VALUES t (k, ROWTIME) VALUES ('a', 6);",
        "INSERT INTO s (k, v) VALUES ('a', 1);" + 2 * "ASSERT VALUES t (k) VALUES ('a');",
    ]
    inserts = "INSERT INTO s (k, v, ROWTIME) VALUES ('a', 1, 5);\n"
    cases = [_case([], inputs=(), statements=SQL + inserts + text) for text in asserts]
    results = list(runner.run(cases))
    assert [r.outcome for r in results] == [Outcome.FAILED] * 3 + [Outcome.PASSED]
    assert "does not match actual.\nline 2, S, record 0: V is 1, not 2." in results[0].reason
    assert "it is no tombstone" in results[1].reason
    assert "ROWTIME is 5, not 6" in results[2].reason
    (few,) = runner.run([_case([], inputs=(), statements=SQL + inserts + asserts[3] + asserts[2])])
    assert "there are only 2 records in T" in few.reason


def test_an_assertion_may_be_expected_to_fail(runner: Runner) -> None:
    text = SQL + "INSERT INTO s (k, v) VALUES ('a', 1); ASSERT VALUES s (k, v) VALUES ('a', 2);"
    refusal = Refusal("", "Expected record does not match actual")
    (result,) = runner.run([_case([], inputs=(), statements=text, refusal=refusal)])
    assert (result.outcome, result.words) == (Outcome.PASSED, True)


def test_refusals(runner: Runner) -> None:
    expected = Refusal("", "NOWHERE")
    bad = _case([], statements="CREATE STREAM x AS SELECT k FROM nowhere;", inputs=())
    cases = [
        replace(bad, refusal=expected),
        replace(bad, refusal=Refusal("", "other words")),
        _case(OUTPUTS, refusal=expected),
        bad,
    ]
    results = list(runner.run(cases))
    assert [r.outcome for r in results] == [
        Outcome.PASSED, Outcome.PASSED, Outcome.FAILED, Outcome.FAILED
    ]  # fmt: skip
    assert [r.words for r in results] == [True, False, False, None]


def test_what_is_disabled_is_skipped(runner: Runner) -> None:
    (result,) = runner.run([_case([], disabled=True)])
    assert result.outcome is Outcome.SKIPPED


def test_a_format_with_a_registry_is_skipped_on_a_broker(kafka: BrokerStatus) -> None:
    on_broker = Runner(broker=kafka.bootstrap_servers)
    (result,) = on_broker.run([_case([], formats=frozenset({"AVRO"}))])
    assert result.outcome is Outcome.SKIPPED
    assert "only tested without --broker" in result.reason


def test_the_streams_and_tables_that_are_left(runner: Runner) -> None:
    right: dict[str, object] = {
        "name": "T",
        "type": "table",
        "schema": "K STRING KEY, TOTAL INTEGER",
    }
    nodes = [
        right,
        {**right, "name": "NONE"},
        {**right, "type": "stream"},
        {**right, "schema": "K STRING KEY, TOTAL BIGINT"},
        {**right, "keyFormat": {"format": "JSON"}},
        {**right, "valueFormat": "KAFKA"},
        {**right, "keyFormat": {"windowType": "TUMBLING", "windowSize": 5}},
    ]
    results = runner.run([_case(OUTPUTS, sources=(node,)) for node in nodes])
    reasons = [r.reason for r in results]
    assert reasons[0] == ""
    parts = ["no NONE", "T is a TABLE", "BIGINT", "KAFKA, not JSON", "JSON, not KAFKA", "window"]
    for reason, part in zip(reasons[1:], parts, strict=True):
        assert part in reason


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    texts = {
        "-s": SQL,
        "-i": json.dumps({"inputs": [{"topic": "in", "key": k, "value": {"V": v}}
                                     for k, v in INPUTS]}),
        "-o": json.dumps({"outputs": [{"topic": "T", "key": k, "value": {"TOTAL": v}}
                                      for k, v in OUTPUTS]}),
    }  # fmt: skip
    arguments = []
    for option, text in texts.items():
        path = tmp_path / f"file{option}"
        path.write_text(text)
        arguments += [option, str(path)]
    return arguments


def test_the_command_exits_with_0_when_all_is_as_expected(
    files: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["test", *files, "--junit", str(tmp_path / "x.xml")]) == 0
    assert "1 passed, 0 failed" in capsys.readouterr().out
    assert 'tests="1"' in (tmp_path / "x.xml").read_text()


def test_the_command_exits_with_1_and_shows_what_differs(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = Path(files[-1])
    expected.write_text(expected.read_text().replace("5", "6"))
    assert main(["test", *files]) == 1
    assert "what differs" in capsys.readouterr().out
    assert main(["test", *files, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["totals"]["failed"] == 1


def test_files_that_are_wrong_and_arguments_that_are(
    files: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    Path(files[-1]).write_text('{"outputs": []}')
    assert main(["test", *files]) == 1
    assert "cannot be empty" in capsys.readouterr().err
    assert main(["test"]) == 2
    assert main(["test", "-s", files[1]]) == 2
    assert main(["test", *files, str(tmp_path)]) == 2


def test_cases_are_chosen_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = ("one", "two")
    tests: list[object] = [{"name": n, "statements": [SQL], "expectedException": {}} for n in names]
    (tmp_path / "x.json").write_text(json.dumps({"tests": tests}))
    assert main(["test", str(tmp_path), "-k", "TWO"]) == 1
    assert main(["test", str(tmp_path), "-x"]) == 1
    assert "0 passed, 1 failed" in capsys.readouterr().out
    assert main(["test", str(tmp_path), "-k", "three"]) == 1
    assert "No case" in capsys.readouterr().err


def _rest(**more: Any) -> Case:
    select = "SELECT * FROM t WHERE k = 'a';"
    rest = Rest(**{"statements": (SQL, select), "queries_from": 1, "responses": (), **more})
    return _case([], rest=rest)


def test_a_servers_answers_are_compared(runner: Runner) -> None:
    header = {"header": {"schema": "`K` STRING KEY, `TOTAL` INTEGER"}}
    done = {"admin": {"@type": "currentStatus"}}
    found = {"query": [header, {"row": {"columns": ["a", 3]}}]}
    other = {"query": [header, {"row": {"columns": ["a", 4]}}]}
    cases = [_rest(responses=(done, done, found)), _rest(responses=(done, done, other))]
    good, bad = runner.run(cases)
    assert (good.outcome, good.reason) == (Outcome.PASSED, "")
    assert bad.outcome is Outcome.FAILED
    assert 'row ["a",3] was not expected, but ["a",4]' in bad.reason


def test_errors_of_a_server_are_compared(runner: Runner) -> None:
    asked = (SQL, "SELECT nothing FROM t;")
    wrong = RestError("", "'NOTHING' cannot be resolved", 400)
    cases = [
        _rest(statements=asked, error=wrong),
        _rest(statements=asked, error=RestError("", "other words", 400)),
        _rest(statements=asked, error=RestError("", "", 404)),
        _rest(statements=asked),
        _rest(error=wrong),
    ]
    results = list(runner.run(cases))
    assert [r.outcome for r in results] == [
        Outcome.PASSED, Outcome.PASSED, Outcome.FAILED, Outcome.FAILED, Outcome.FAILED
    ]  # fmt: skip
    assert [r.words for r in results] == [True, False, None, None, False]
    assert "The status is 400, not 404" in results[2].reason
    assert "It was to be refused" in results[4].reason


def test_what_is_wrong_with_a_case_is_no_error_it_expects(runner: Runner) -> None:
    case = _rest(error=RestError("", "nowhere"))
    (result,) = runner.run([replace(case, inputs=(Spec("nowhere", "a", {}),))])
    assert result.outcome is Outcome.FAILED
    assert "No stream or table has the topic nowhere" in result.reason


def test_rest_cases_that_come_later_are_skipped(runner: Runner) -> None:
    (waits,) = runner.run([_rest(wait_for_query=True)])
    (on_broker,) = Runner(broker="nowhere:1").run([_rest()])
    assert [r.outcome for r in (waits, on_broker)] == [Outcome.SKIPPED] * 2
    assert "push query" in waits.reason
    assert "--broker" in on_broker.reason
