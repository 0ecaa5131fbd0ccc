"""Charts as helm renders them, without a cluster."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

CHARTS = Path(__file__).parents[2] / "helm"
KUBERNETES = "1.34.0"

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
Refused = Callable[..., str]


def _template(
    chart: str, values: dict[str, Any], name: str, namespace: str
) -> subprocess.CompletedProcess[str]:
    command = ["helm", "template", name, str(CHARTS / chart), "--namespace", namespace]
    command += ["--kube-version", KUBERNETES, "--values", "-"]
    text = yaml.safe_dump(values)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session", autouse=True)
def _helm() -> None:
    if shutil.which("helm") is None:
        pytest.skip("helm is not on the PATH: charts cannot be rendered")


@pytest.fixture(scope="session")
def render() -> Render:
    """`render(chart, values, name, namespace)`: every object of a chart with those values."""

    def rendered(
        chart: str,
        values: dict[str, Any] | None = None,
        name: str = "tried",
        namespace: str = "somewhere",
    ) -> list[Manifest]:
        ran = _template(chart, values or {}, name, namespace)
        assert ran.returncode == 0, ran.stderr
        return [manifest for manifest in yaml.safe_load_all(ran.stdout) if manifest]

    return rendered


@pytest.fixture(scope="session")
def refused() -> Refused:
    """`refused(chart, values)`: what helm says about values that a chart must not take."""

    def reason(chart: str, values: dict[str, Any], name: str = "tried") -> str:
        ran = _template(chart, values, name, "somewhere")
        assert ran.returncode != 0, "helm took the values"
        return ran.stderr

    return reason
