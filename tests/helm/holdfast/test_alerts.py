"""The alerts of a job: on metrics that exist, each with a heading that says what to do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.runtime.watching.metrics import Metrics
from tests.helm.conftest import CHARTS, Refused, Render
from tests.helm.holdfast.examples import CHART, MINIMAL, named
from tests.support.doc_commands import ROOT

ON = MINIMAL | {"prometheusRule": {"enabled": True}}
_METRIC = re.compile(r"\b(holdfast_[a-z_]+)\b")


def _rules(render: Render, values: dict[str, Any] = ON) -> list[dict[str, Any]]:
    (group,) = named(render(CHART, values))["PrometheusRule/tried"]["spec"]["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def test_every_alert_has_a_heading_that_says_what_to_do(render: Render) -> None:
    page = (ROOT / "jobs/docs/troubleshooting.md").read_text()
    headings = re.findall(r"^### (Holdfast\w+)$", page, re.MULTILINE)
    rules = _rules(render)
    assert [rule["alert"] for rule in rules] == headings
    assert {rule["annotations"]["runbook_url"].partition("#")[2] for rule in rules} == {
        heading.lower() for heading in headings
    }
    assert "@" not in json.dumps(rules)


def test_every_metric_exists(render: Render) -> None:
    metrics = Metrics("app")
    families = {family.name for family in metrics._registry.collect()}
    served = {f"holdfast_serve_store_{n}" for n in ("failed", "checked_seconds")}
    served |= {"holdfast_serve_peer_up"}
    used = {name for rule in _rules(render) for name in _METRIC.findall(rule["expr"])}
    assert {name.removesuffix("_total") for name in used} <= families | served
    assert len(used) > 8
    told = (ROOT / "jobs/holdfast/serve/metrics.py").read_text()
    assert "holdfast_serve_store_{name}" in told
    assert '"checked_seconds": ' in told
    assert '"failed": ' in told


def test_some_can_be_left_out_and_others_are_not_known(render: Render, refused: Refused) -> None:
    left = {"enabled": True, "leaveOut": ["HoldfastVolumeFills"], "runbook": "https://wiki/page"}
    rules = _rules(render, MINIMAL | {"prometheusRule": left})
    assert "HoldfastVolumeFills" not in {rule["alert"] for rule in rules}
    first = rules[0]["annotations"]["runbook_url"]
    assert first == "https://wiki/page#holdfastnotready"
    schema = json.loads((CHARTS / CHART / "values.schema.json").read_text())
    leave_out = schema["properties"]["prometheusRule"]["properties"]["leaveOut"]
    assert leave_out["items"]["enum"] == [rule["alert"] for rule in _rules(render)]
    said = refused(CHART, MINIMAL | {"prometheusRule": {"leaveOut": ["HoldfastTypo"]}})
    assert "leaveOut" in said


def test_no_rule_without_being_asked(render: Render) -> None:
    assert "PrometheusRule" not in {m["kind"] for m in render(CHART, MINIMAL)}


def test_prometheus_raises_each_and_none_too_many(render: Render, tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH (Debian: the package prometheus)")
    spec = named(render(CHART, ON))["PrometheusRule/tried"]["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    played = Path(__file__).with_name("alerts.test.yaml")
    shutil.copy(played, tmp_path)
    command = [promtool, "test", "rules", played.name]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
