"""`holdfast status` of a name that is not deployed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli.main import main


def test_a_name_that_is_not_deployed_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--home", str(tmp_path)]
    assert main(["status", "nope", *where]) == 2
    told = capsys.readouterr().err
    assert "There is no deployment nope (local)." in told
    assert "nothing is deployed there" in told
    folder = tmp_path / "deploy" / "note"
    folder.mkdir(parents=True)
    (folder / "deployment.json").write_text('{"current": 1, "outcomes": {}}')
    assert main(["status", "nope", *where]) == 2
    assert "did you mean note? deployed are: note" in capsys.readouterr().err
    assert main(["status", "nope", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "absent"
