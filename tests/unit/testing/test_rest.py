"""REST cases: how they are read, and how a server's answers are compared by ksqlDB's rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.cases import Case, Rest, RestError
from holdfast.testing.compare import has_words
from holdfast.testing.files import cases_at
from holdfast.testing.rest.matching import Answered, wrong_error, wrong_responses
from holdfast.testing.run import Outcome, Runner

CREATE = "CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
SELECT = "SELECT * FROM s;"
HEADER = {"header": {"queryId": "pull_1", "schema": "`K` STRING"}}


def _case(folder: Path, **node: Any) -> Case:
    path = folder / "cases.json"
    told = {"name": "n", "statements": [CREATE, SELECT], **node}
    path.write_text(json.dumps({"tests": [told]}))
    (case,) = cases_at(path)
    return case


def test_a_case_with_responses_is_a_rest_case(tmp_path: Path) -> None:
    statements = [CREATE, "SHOW STREAMS;", SELECT]
    case = _case(
        tmp_path,
        statements=statements,
        responses=[{"admin": {}}],
        outputConditions={"verifyOrder": True},
        inputConditions={"waitForActivePushQuery": True},
    )
    assert case.statements == CREATE
    assert case.rest == Rest(
        tuple(statements), 2, ({"admin": {}},), None, in_order=True, wait_for_query=True
    )
    assert _case(tmp_path).rest is None


def test_an_expected_error_makes_a_rest_case_too(tmp_path: Path) -> None:
    case = _case(tmp_path, expectedError={"status": 400, "message": "no"})
    assert case.rest is not None
    assert case.rest.error == RestError("", "no", 400)


def test_rows_in_protobuf_are_skipped(tmp_path: Path) -> None:
    case = _case(tmp_path, responses=[{"queryProto": []}], testPullWithProtoFormat=True)
    (result,) = Runner().run([case])
    assert (result.outcome, result.reason) == (
        Outcome.SKIPPED, "servers answer in JSON, not in Protobuf",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"responses": [{"rows": []}]}, "response 0 is {'rows'"),
        ({"responses": [{"admin": {}, "query": []}]}, "response 0"),
        ({"responses": [3]}, "response 0 is 3"),
        ({"responses": [{}]}, "response 0"),
        ({"expectedError": {}}, "give its type, message or status"),
        ({"expectedError": "no"}, "give its type, message or status"),
        ({"responses": [], "statements": [SELECT, CREATE]}, "every statement after the first SEL"),
    ],
)
def test_cases_that_are_wrong_are_told_of(
    tmp_path: Path, node: dict[str, Any], message: str
) -> None:
    assert message in _case(tmp_path, **node).wrong


def _wrong(expected: Any, actual: Any, *, in_order: bool = False, kind: str = "query") -> list[str]:
    rest = Rest((SELECT,), 0, ({kind: expected},), in_order=in_order)
    return wrong_responses(rest, [Answered(kind, actual)])


def _rows(*rows: Any) -> list[Any]:
    return [HEADER, *({"row": {"columns": row}} for row in rows)]


def test_a_case_names_only_the_fields_it_looks_at() -> None:
    header = {"header": {"queryId|starts_with": "pull_"}}
    assert _wrong([header, *_rows(["a"])[1:]], _rows(["a"])) == []
    assert _wrong([{"header": {"queryId|starts_with": "push_"}}], _rows()) == [
        'responses[0]->query[0]->header->queryId is "pull_1", not "push_"'
    ]
    assert _wrong([{"header": {"schema": "`K` STRING KEY"}}], _rows()) == [
        'responses[0]->query[0]->header->schema is "`K` STRING", not "`K` STRING KEY"'
    ]
    assert "is not there" in _wrong([{"finalMessage": "x"}], _rows())[0]


def test_rows_come_in_any_order_unless_the_case_says_otherwise() -> None:
    one, other = _rows(["a", 1], ["b", 2]), _rows(["b", 2], ["a", 1])
    assert _wrong(one, other) == []
    assert len(_wrong(one, other, in_order=True)) == 2
    assert _wrong(one, one, in_order=True) == []


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (_rows(["a"], ["a"], ["b"]), _rows(["a"], ["b"], ["b"])),  # each as often as expected
        (_rows(["a"]), _rows(["a"], ["a"])),
        (_rows(["a"], ["b"]), _rows(["a"])),
        (_rows([1]), _rows(["1"])),
        (_rows([None]), _rows([0])),
        (_rows([["a", "b"]]), _rows([["b", "a"]])),
    ],
)
def test_rows_that_differ_are_told_of(expected: Any, actual: Any, in_order: bool) -> None:
    assert _wrong(expected, actual, in_order=in_order)


def test_tombstones_and_last_messages_count() -> None:
    gone = [HEADER, {"row": {"columns": ["a"], "tombstone": True}}]
    assert _wrong(gone, gone) == []
    assert _wrong(gone, _rows(["a"]))
    assert _wrong([HEADER, {"finalMessage": "x"}], [HEADER, {"finalMessage": "y"}])


def test_the_kind_and_the_number_of_responses_count() -> None:
    rest = Rest((CREATE, SELECT), 1, ({"admin": {"statementText": "{STATEMENT}"}},))
    done = Answered("admin", {"@type": "currentStatus", "statementText": CREATE})
    rows = Answered("query", [HEADER])
    assert wrong_responses(rest, [done, rows]) == []  # more may come
    assert wrong_responses(rest, []) == ["There are 0 responses, 1 were expected."]
    assert "the response is query" in wrong_responses(rest, [rows])[0]
    other = Answered("admin", {"@type": "currentStatus", "statementText": SELECT})
    assert wrong_responses(rest, [other])


ERROR = {"@type": "statement_error", "message": "line 1, column 8: No.\nWhat to do: Ask.",
         "statementText": SELECT}  # fmt: skip
STATEMENT_ERROR = "io.confluent.ksql.rest.entity.KsqlStatementErrorMessage"


@pytest.mark.parametrize(
    ("expected", "body", "wrong", "words"),
    [
        (RestError(STATEMENT_ERROR, "no. ASK", 400), ERROR, "", True),
        (RestError("", "line 3:4: No. See https://x.y/z for more info.", 400), ERROR, "", True),
        (RestError("", "never", 400), ERROR, "", False),
        (RestError(STATEMENT_ERROR), ERROR, "", None),
        (RestError("", "No", 404), ERROR, "The status is 400, not 404", True),
        (RestError(STATEMENT_ERROR), {**ERROR, "@type": "generic_error"}, "a generic_error", None),
        (RestError("x.KsqlErrorMessage"), {**ERROR, "@type": "generic_error"}, "", None),
        (RestError(STATEMENT_ERROR), {**ERROR, "statementText": "?"}, "not name the last", None),
    ],
)
def test_errors(expected: RestError, body: Any, wrong: str, words: bool | None) -> None:
    found, said = wrong_error(expected, Answered("error", body, 400), SELECT)
    assert bool(found) == bool(wrong)
    assert wrong in found
    assert said is words


def test_words_of_another_message_are_not_found() -> None:
    assert not has_words("No. Ask.", "No. Never ask.")
    assert not has_words("Likely", "likely cause: x")
