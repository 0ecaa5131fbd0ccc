"""The callbacks of jobs/docs/airflow.md, as an Airflow of its own runs them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.servers.loopback_server import Handler, LoopbackServer

StandIn = Callable[[str], Path]
REFUSED = "echo 'Error: Too bad: it is too bad.' >&2; exit 2"
# Each example is a module as the page has it; a run of Airflow takes more than ten seconds of CPU.
BOTH = """
import a_function
import a_notifier


def task_policy(task):
    a_function.task_policy(task)
    told = task.on_failure_callback
    a_notifier.task_policy(task)
    if told:
        task.on_failure_callback = [*told, *task.on_failure_callback]
"""


def _example(root: Path, word: str) -> str:
    page = (root / "jobs" / "docs" / "airflow.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (found,) = (block for block in blocks if word in block)
    return str(found)


@pytest.fixture
def settings(root: Path, tmp_path: Path) -> Path:
    """A folder with Airflow's local settings: both examples of the page."""
    folder = tmp_path / "settings"
    folder.mkdir()
    for name, text in {
        "a_function": _example(root, "def tell(context)"),
        "a_notifier": _example(root, "BaseNotifier"),
        "airflow_local_settings": BOTH,
    }.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def test_a_function_is_told_the_reason_and_a_notifier_sends_what_its_template_says(
    settings: Path, dags_folder: Path, run_dag: Callable[..., str], stand_in: StandIn
) -> None:
    told: list[object] = []

    class Team(Handler):
        def respond(self, body: bytes) -> None:
            told.append(json.loads(body))
            self.answer(200)

    stand_in(REFUSED)
    with LoopbackServer(Team) as server:
        where = {"PYTHONPATH": f"{settings}:{dags_folder}", "TEAM_WEBHOOK": server.url}
        said = run_dag("undeploy_state_table", where)
    assert re.search(r"undeploy failed: undeploy ended with status 2\. Error: Too bad", said), said
    assert told == [{"text": "undeploy_state_table: undeploy failed for movies"}], said
