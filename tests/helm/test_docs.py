"""The charts as README and the pages of jobs/docs show them."""

from __future__ import annotations

import shlex
import subprocess

from tests.helm.conftest import HELM, KUBERNETES, Render
from tests.helm.holdfast.examples import CHART, FULL, named
from tests.support.doc_commands import ROOT, commands

_OF_A_CLUSTER = {"--wait"}


def test_the_chart_takes_the_values_that_the_pages_show() -> None:
    shown = [c.text for c in commands() if c.text.startswith("helm install")]
    assert shown
    for text in shown:
        _, _, *words = shlex.split(text)
        command = [
            HELM,
            "template",
            "--kube-version",
            KUBERNETES,
            *(word for word in words if word not in _OF_A_CLUSTER),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_orders_in_a_pod_find_their_properties(render: Render) -> None:
    (text,) = {c.text for c in commands() if c.text.startswith("kubectl exec")}
    words = shlex.split(text)
    release = words[2].removesuffix("-driver-0")
    file = words[words.index("--config") + 1]
    driver = named(render(CHART, FULL, name=release))[f"StatefulSet/{release}-driver"]
    (container,) = driver["spec"]["template"]["spec"]["containers"]
    assert f"--config={file}" in container["args"]
