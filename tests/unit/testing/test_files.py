"""Reading test cases, and what is said of files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidTestCase
from holdfast.testing.cases import Refusal, Spec, SpecWindow, WindowType
from holdfast.testing.files import cases_at, triple

SQL = "CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
RECORD = {"topic": "s", "key": "a", "value": {"V": 1}}


def _triple(folder: Path, inputs: Any, outputs: Any) -> tuple[Path, Path, Path]:
    folder.mkdir(exist_ok=True)
    paths = folder / "statements.sql", folder / "input.json", folder / "output.json"
    texts = [SQL, *(x if isinstance(x, str) else json.dumps(x) for x in (inputs, outputs))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def _many(path: Path, *tests: Any) -> Path:
    path.write_text(json.dumps({"tests": tests}))
    return path


def test_three_files_are_a_case(tmp_path: Path) -> None:
    window = {"start": 1, "end": 2, "type": "SESSION"}
    full = {**RECORD, "timestamp": 5, "window": window, "headers": [{"KEY": "h", "VALUE": "eA=="}]}
    case = triple(*_triple(tmp_path, {"inputs": [RECORD]}, {"outputs": [full]}))
    assert case.statements == SQL
    assert case.inputs == (Spec("s", "a", {"V": 1}),)
    session = SpecWindow(1, 2, WindowType.SESSION)
    assert case.outputs == (Spec("s", "a", {"V": 1}, 5, session, (("h", b"x"),)),)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ("{{", {"outputs": [RECORD]}, r"input\.json is not JSON"),
        ({"inputs": []}, {"outputs": [RECORD]}, r"input\.json: 'inputs' cannot be empty"),
        ({"inputs": [RECORD]}, {"outputs": []}, r"output\.json: 'outputs' cannot be empty"),
        ({"inputs": [RECORD]}, {"output": [RECORD]}, r"output\.json has no list 'outputs'"),
        ({"inputs": [{"value": 1}]}, {"outputs": [RECORD]}, "record 0 has no field 'topic'"),
        ({"inputs": [{"topic": "s"}]}, {"outputs": [RECORD]}, "has no field 'value'"),
        ({"inputs": [[]]}, {"outputs": [RECORD]}, "record 0 is not a JSON object"),
        (
            {"inputs": [{**RECORD, "timestamp": "now"}]},
            {"outputs": [RECORD]},
            "timestamp 'now': give milliseconds",
        ),
        (
            {"inputs": [{**RECORD, "window": {"start": 1}}]},
            {"outputs": [RECORD]},
            'write {"start": ms, "end": ms',
        ),
        (
            {"inputs": [{**RECORD, "headers": [{"KEY": "a"}]}]},
            {"outputs": [RECORD]},
            '"VALUE": base64 or null',
        ),
    ],
)
def test_wrong_files_say_what_is_wrong(
    tmp_path: Path, inputs: Any, outputs: Any, message: str
) -> None:
    with pytest.raises(InvalidTestCase, match=message):
        triple(*_triple(tmp_path, inputs, outputs))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidTestCase, match=r"gone\.sql cannot be read"):
        triple(tmp_path / "gone.sql", None, tmp_path / "gone.json")


def test_a_folder_has_cases_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        _triple(tmp_path / name, {"inputs": [RECORD]}, {"outputs": [RECORD]})
    _many(tmp_path / "c.json", {"name": "many", "statements": [SQL]})
    assert [case.name for case in cases_at(tmp_path)] == ["a", "b", "many"]


def test_a_folder_without_cases(tmp_path: Path) -> None:
    with pytest.raises(InvalidTestCase, match="has no test case"):
        list(cases_at(tmp_path))


def test_a_case_for_every_format_and_configuration(tmp_path: Path) -> None:
    node = {
        "name": "n",
        "format": ["JSON", "AVRO"],
        "config": ["true", "false"],
        "properties": {"p": "{CONFIG}", "q": True},
        "statements": ["A {FORMAT};", "B WITH (FORMAT='{FORMAT}');"],
        "expectedException": {"type": "T", "message": "M"},
        "enabled": False,
    }
    cases = list(cases_at(_many(tmp_path / "x.json", node)))
    assert [case.name for case in cases] == [
        "n - JSON - true", "n - JSON - false", "n - AVRO - true", "n - AVRO - false"
    ]  # fmt: skip
    assert cases[2].statements == "A AVRO;\nB WITH (FORMAT='AVRO');"
    assert cases[2].formats == {"AVRO"}
    assert cases[1].properties == {"p": "false", "q": "true"}
    assert cases[0].refusal == Refusal("T", "M")
    assert cases[0].disabled


def test_formats_of_topics_and_properties_are_seen(tmp_path: Path) -> None:
    topics = [{"valueFormat": "PROTOBUF", "keyFormat": {"format": "avro"}}, "plain"]
    properties = {"ksql.persistence.default.format.value": "JSON_SR"}
    node = {"name": "n", "statements": ["A;"], "topics": topics, "properties": properties}
    (case,) = cases_at(_many(tmp_path / "x.json", node))
    assert case.formats == {"PROTOBUF", "AVRO", "JSON_SR"}


def test_comments_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(
        '{"tests": [ // a "comment"\n'
        '{"name": "a // b /* c */", "statements": ["X;"] /* two\nlines */, "inputs": []}]}'
    )
    (case,) = cases_at(path)
    assert case.name == "a // b /* c */"


def test_a_malformed_case_leaves_the_others_alone(tmp_path: Path) -> None:
    bad = {"name": "bad", "statements": ["A;"], "inputs": [{"topic": "t"}]}
    path = _many(tmp_path / "x.json", bad, {"name": "good", "statements": ["A;"]})
    first, second = cases_at(path)
    assert "test 'bad': input 0 (topic t) has no field 'value'" in first.wrong
    assert not second.wrong


@pytest.mark.parametrize("content", ["[]", '{"tests": []}', '{"tests": [{"name": "x"}]}'])
def test_a_file_that_is_none_of_cases(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InvalidTestCase, match=r"x\.json"):
        list(cases_at(path))


def test_cases_in_sql(tmp_path: Path) -> None:
    text = (
        "-- about the file\n"
        "-----\n--@test: first  \n-----\nCREATE A;\n"
        "--@test: second\n--@expected.error: some.Error\n--@expected.message: not so\nB;\n"
    )
    (tmp_path / "cases.sql").write_text(text)
    (tmp_path / "statements_only.sql").write_text("CREATE A;")
    first, second = cases_at(tmp_path)
    assert (first.name, first.refusal) == ("first", None)
    assert "CREATE A;" in first.statements
    assert "second" not in first.statements
    assert second.refusal == Refusal("some.Error", "not so")
    assert "B;" in second.statements
    with pytest.raises(InvalidTestCase, match="has no line '--@test: NAME'"):
        list(cases_at(tmp_path / "statements_only.sql"))


def test_a_case_in_sql_runs_scripts(tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    folder.mkdir()
    (tmp_path / "above.sql").write_text("CREATE A;")
    (folder / "beside.sql").write_text("CREATE B;")
    file = folder / "cases.sql"
    file.write_text("--@test: x\nRUN SCRIPT '/above.sql';\n run script 'beside.sql';\nC;\n")
    (case,) = cases_at(file)
    assert case.statements.split() == ["CREATE", "A;", "CREATE", "B;", "C;"]
    file.write_text("--@test: x\nRUN SCRIPT 'gone.sql';\n")
    with pytest.raises(InvalidTestCase, match=r"runs the script gone\.sql, which is not there"):
        list(cases_at(file))
