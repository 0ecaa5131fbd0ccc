"""`holdfast status`: a name that is not deployed, and where to look for dead letters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.deploy.deployment import Deployment, DeploymentState
from holdfast.types.left_out import LeftOut


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


def test_dead_letters_come_with_the_command_that_shows_them() -> None:
    def told(target: str, left_out: LeftOut) -> str:
        found = {"ORDERS": left_out}
        state = DeploymentState.RUNNING
        return Deployment("shop", target, 1, state, ready=True, left_out=found).as_text()

    shows = "see them, and why: holdfast dead-letters shop"
    assert told("local", LeftOut(100, dead_letters=1)).endswith(shows)
    assert shows not in told("local", LeftOut(100, late=1))
    assert shows not in told("kubernetes", LeftOut(100, dead_letters=1))
