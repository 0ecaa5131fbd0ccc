"""The callbacks of jobs/docs/airflow.md, as an Airflow of its own runs them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.loopback_server import Handler, LoopbackServer

StandIn = Callable[[str], Path]
Failing = Callable[[str, dict[str, str]], str]
REFUSED = "echo 'Error: Too bad: it is too bad.' >&2; exit 2"


def _example(root: Path, word: str) -> str:
    page = (root / "jobs" / "docs" / "airflow.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (found,) = (block for block in blocks if word in block)
    return str(found)


@pytest.fixture
def failing(
    root: Path, dags_folder: Path, run_dag: Callable[..., str], stand_in: StandIn, tmp_path: Path
) -> Failing:
    """A run with a task that is refused, in an Airflow with an example as its local settings."""

    def run(word: str, environment: dict[str, str]) -> str:
        settings = tmp_path / "settings"
        settings.mkdir()
        text = _example(root, word)
        (settings / "airflow_local_settings.py").write_text(text, encoding="utf-8")
        stand_in(REFUSED)
        path = {"PYTHONPATH": f"{settings}:{dags_folder}"}
        return run_dag("undeploy_state_table", path | environment)

    return run


def test_a_function_is_told_the_reason(failing: Failing) -> None:
    said = failing("def tell(context)", {})
    assert re.search(r"undeploy failed: undeploy ended with status 2\. Error: Too bad", said), said


def test_a_notifier_sends_what_its_template_says(failing: Failing) -> None:
    told: list[object] = []

    class Team(Handler):
        def respond(self, body: bytes) -> None:
            told.append(json.loads(body))
            self.answer(200)

    with LoopbackServer(Team) as server:
        said = failing("BaseNotifier", {"TEAM_WEBHOOK": server.url})
    assert {"text": "undeploy_state_table: undeploy failed for movies"} in told, said
