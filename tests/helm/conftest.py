"""Charts as helm renders them, without a cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

CHARTS = Path(__file__).parents[2] / "helm"
HELM = os.environ.get("HELM", "helm")
"""Helm 3 or 4; `make test HELM=…` says which."""
KUBERNETES = "1.34.0"

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
RenderText = Callable[..., str]
Refused = Callable[..., str]


def _template(
    chart: str, values: dict[str, Any], name: str, namespace: str
) -> subprocess.CompletedProcess[str]:
    command = [HELM, "template", name, str(CHARTS / chart), "--namespace", namespace]
    command += ["--kube-version", KUBERNETES, "--values", "-"]
    text = yaml.safe_dump(values)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session", autouse=True)
def _helm() -> None:
    if shutil.which(HELM) is None:
        pytest.skip(f"{HELM} is not on the PATH: charts cannot be rendered")


@pytest.fixture(scope="session")
def render_text() -> RenderText:
    """`render_text(chart, values, name, namespace)`: what `helm template` prints."""

    def rendered(
        chart: str,
        values: dict[str, Any] | None = None,
        name: str = "tried",
        namespace: str = "somewhere",
    ) -> str:
        ran = _template(chart, values or {}, name, namespace)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return rendered


@pytest.fixture(scope="session")
def render(render_text: RenderText) -> Render:
    """`render(chart, values, name, namespace)`: every object of a chart with those values."""

    def rendered(*arguments: Any, **more: Any) -> list[Manifest]:
        text = render_text(*arguments, **more)
        return [manifest for manifest in yaml.safe_load_all(text) if manifest]

    return rendered


@pytest.fixture(scope="session")
def refused() -> Refused:
    """`refused(chart, values)`: what helm says about values that a chart must not take."""

    def reason(chart: str, values: dict[str, Any], name: str = "tried") -> str:
        ran = _template(chart, values, name, "somewhere")
        assert ran.returncode != 0, "helm took the values"
        return ran.stderr

    return reason
