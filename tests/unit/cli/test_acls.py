"""`holdfast acls`: lines for kafka-acls.sh, and the page that holds the same list."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from holdfast.cli.main import main

PAGE = Path(__file__).parents[3] / "jobs/docs/kafka-acls.md"
SQL = """
CREATE STREAM s (id STRING KEY, v INT) WITH (KAFKA_TOPIC='input', VALUE_FORMAT='JSON');
CREATE TABLE t WITH (KAFKA_TOPIC='output') AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
"""


@pytest.fixture
def sql_file(tmp_path: Path) -> str:
    path = tmp_path / "shop.sql"
    path.write_text(SQL)
    return str(path)


def _printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["acls", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_page_holds_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- made by: holdfast acls --markdown -->\n", "\n<!-- end -->"
    kept = page.partition(begin)[2].partition(end)[0]
    assert kept.splitlines() == _printed(capsys, "--markdown"), "write the page anew"


def test_each_resource_has_one_line_with_all_of_its_operations(
    capsys: pytest.CaptureFixture[str], sql_file: str
) -> None:
    lines = [shlex.split(line) for line in _printed(capsys, sql_file, "--principal", "User:me")]
    assert all(line[:2] == ["--allow-principal", "User:me"] for line in lines)
    assert [*lines[0][:2], "--operation", "Read", "--topic", "input"] in lines
    (own,) = (line for line in lines if "shop-" in line and "--topic" in line)
    assert own[-4:] == ["--topic", "shop-", "--resource-pattern-type", "prefixed"]
    assert {"Create", "Read", "Write", "Delete", "DescribeConfigs"} <= set(own)


def test_another_part_needs_other_lines(capsys: pytest.CaptureFixture[str], sql_file: str) -> None:
    lines = _printed(capsys, sql_file, "--part", "compaction survey")
    assert any(line.endswith("--operation Describe --operation DescribeConfigs --cluster")
               for line in lines)  # fmt: skip
    assert any(shlex.split(line)[-2:] == ["--group", "*"] for line in lines)


def test_a_job_or_the_list_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acls"]) == 2
    assert "--markdown" in capsys.readouterr().err
