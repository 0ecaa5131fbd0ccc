"""The reference of functions has a sentence for each, and the page sql.md counts them right."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.sql.functions.docs import reference
from holdfast.tasks.aggregates.user import registered
from holdfast.tasks.functions.user import user_functions

ROOT = Path(__file__).parents[3]


def test_every_function_has_signatures_and_a_sentence() -> None:
    entries = reference()
    assert all(e.signatures and e.sentence.endswith(".") for e in entries)
    names = [(e.kind, e.name) for e in entries]
    assert len(names) == len(set(names))
    built_in = {e.name: e.sentence for e in entries if e.kind == "aggregate"}
    assert built_in["SUM"] != "User-defined."


def test_one_function(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["functions", "array_j"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ARRAY_JOIN (scalar): The elements as one text, with a comma or another text between them.",
        "    ARRAY_JOIN(ARRAY<T>) -> STRING",
        "    ARRAY_JOIN(ARRAY<T>, STRING) -> STRING",
    ]


def test_as_json_and_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["functions", "--json", "explode"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [e["name"] for e in found] == ["CUBE_EXPLODE", "EXPLODE"]
    assert main(["functions", "--markdown", "map_keys"]) == 0
    assert "| `MAP_KEYS(MAP<STRING, T>) -> ARRAY<STRING>` | scalar |" in capsys.readouterr().out


def test_an_unknown_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["functions", "no_such_thing"]) == 2
    assert "There is no function with no_such_thing in its name" in capsys.readouterr().err


def test_the_page_counts_them() -> None:
    text = (ROOT / "jobs" / "docs" / "sql.md").read_text(encoding="utf-8")
    found = re.search(r"(\d+) scalar, (\d+) table and (\d+) aggregate functions", text)
    assert found is not None
    users = {*user_functions(), *registered()}
    kinds = [e.kind for e in reference() if e.name not in users]
    counted = [kinds.count(k) for k in ("scalar", "table", "aggregate")]
    assert [int(n) for n in found.groups()] == counted
