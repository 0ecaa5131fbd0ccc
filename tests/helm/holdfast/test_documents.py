"""The chart's README and dashboard say what is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import __version__
from holdfast.runtime.watching.metrics import Metrics
from tests.helm.conftest import CHARTS, Render
from tests.helm.holdfast.examples import CHART, FULL, named

SCRIPT = CHARTS.parent / ".ci" / "chart-readme"
WITH_README = sorted(head.parent for head in CHARTS.glob("*/README.head.md"))


def _script(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("chart", WITH_README, ids=lambda chart: chart.name)
def test_the_readme_is_what_the_values_say(chart: Path) -> None:
    ran = _script("--check", chart)
    assert ran.returncode == 0, ran.stderr


def test_this_chart_has_a_readme() -> None:
    assert CHARTS / CHART in WITH_README


def test_a_readme_that_is_stale_is_noticed(tmp_path: Path) -> None:
    values = "# Not of a.\n\n# First\n# and second.\na: 1\nb:\n  # A | list.\n  c: [x]\n  d: {}\n"
    (tmp_path / "values.yaml").write_text(values)
    (tmp_path / "README.head.md").write_text("# Head\n")
    assert _script("--check", tmp_path).returncode == 1
    assert _script(tmp_path).returncode == 0
    assert _script("--check", tmp_path).returncode == 0
    rows = [line for line in (tmp_path / "README.md").read_text().splitlines() if line[:3] == "| `"]
    assert rows == [
        "| `a` | `1` | First and second. |",
        '| `b.c` | `["x"]` | A \\| list. |',
        "| `b.d` | `{}` |  |",
    ]
    (tmp_path / "values.yaml").write_text(values.replace("a: 1", "a: 2"))
    assert "not up to date" in _script("--check", tmp_path).stderr


def test_the_chart_runs_the_version_it_is_released_with() -> None:
    chart = yaml.safe_load((CHARTS / CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def _exposed() -> set[str]:
    """Every sample name that a job's endpoint may have."""
    text = generate_latest(Metrics("any")._registry).decode()
    families = list(text_string_to_metric_families(text))
    assert len(families) > 10
    of_times = ["_sum", "_count"]
    endings = {"counter": ["_total"], "summary": of_times, "gauge": [""]}
    endings["histogram"] = ["_bucket", *of_times]
    return {f.name + ending for f in families for ending in endings[f.type]}


def test_the_dashboard_shows_every_metric_and_no_other(render: Render) -> None:
    config = named(render(CHART, FULL, name="movies", namespace="films"))[
        "ConfigMap/movies-dashboard"
    ]
    assert config["metadata"]["labels"]["grafana_dashboard"] == "yes"
    (text,) = config["data"].values()
    dashboard = json.loads(text)
    expressions = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    used = {name for e in expressions for name in re.findall(r"holdfast_\w+", e)}
    assert used <= _exposed()
    # Those of the parts of a batch are in one panel; everything else has one of its own.
    assert used >= {name for name in _exposed() if "latency" not in name}
    selector = '{namespace="films",pod="movies-driver-0"}'
    assert all(e.count(selector) == len(re.findall("holdfast_", e)) for e in expressions)
    assert "@" not in text
    assert len(dashboard["uid"]) <= 40


def test_panels_have_places_of_their_own(render: Render) -> None:
    text = (CHARTS / CHART / "files" / "dashboard.json").read_text()
    places = [p["gridPos"] for p in json.loads(text)["panels"]]
    cells = [(x, y) for g in places for x in range(g["x"], g["x"] + g["w"])
             for y in range(g["y"], g["y"] + g["h"])]  # fmt: skip
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
