"""The callbacks of jobs/docs/airflow.md, as an Airflow of its own runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

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
    root: Path, dags_folder: Path, database: None, stand_in: StandIn, tmp_path: Path
) -> Failing:
    """A run with a task that is refused, in an Airflow with an example as its local settings."""

    def run(word: str, environment: dict[str, str]) -> str:
        settings = tmp_path / "settings"
        settings.mkdir()
        text = _example(root, word)
        (settings / "airflow_local_settings.py").write_text(text, encoding="utf-8")
        stand_in(REFUSED)
        conf = {"target": "local", "name": "movies", "home": str(tmp_path)}
        line = [f"{sys.prefix}/bin/airflow", "dags", "test", "undeploy_state_table"]
        path = f"{settings}:{dags_folder}"
        done = subprocess.run(
            [*line, "--conf", json.dumps(conf)],
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=400,
        )
        return done.stdout

    return run


def test_a_function_is_told_the_reason(failing: Failing) -> None:
    said = failing("def tell(context)", {})
    assert re.search(r"undeploy failed: undeploy ended with status 2\. Error: Too bad", said), said


class _Team(BaseHTTPRequestHandler):
    told: list[object]

    def do_POST(self) -> None:
        self.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the tests say what there is to say."""


def test_a_notifier_sends_what_its_template_says(failing: Failing) -> None:
    told: list[object] = []
    with HTTPServer(("127.0.0.1", 0), type("Team", (_Team,), {"told": told})) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        said = failing("BaseNotifier", {"TEAM_WEBHOOK": url})
        server.shutdown()
    assert {"text": "undeploy_state_table: undeploy failed for movies"} in told, said
