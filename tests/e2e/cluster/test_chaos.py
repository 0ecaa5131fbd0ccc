"""A table that the cluster's own Airflow breaks and judges."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.e2e.cluster.kube import IMAGE, run_dag, try_dag

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def _asked(name: str, **more: Any) -> dict[str, Any]:
    # With this seed four rounds hit each of the four parts, a server amid another's recovery.
    return {"target": "kubernetes", "name": name, "image": IMAGE, "seed": 17, **more}


def test_a_small_chaos_run_is_valid(deployed: str, served: str) -> None:
    """The query servers are found by their pods' label, and every answer is judged."""
    asked = _asked(
        deployed,
        rounds=4,
        components=["driver", "executor", "broker", "server"],
        faults=["delete", "delete-now", "kill"],
        moments=["random", "recovery"],
    )
    told = run_dag("chaos_exactly_once", asked, "--show", "verify")
    assert "proved: success" in told
    assert "report: success" in told
    summary = told.split("report: success")[1]
    assert "verdict: valid" in summary, told
    assert re.search(r"reads, server kill: ", summary), told
    assert re.search(r"reads of SOLD: [\d,]+ answers", summary), told


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"moments": ["committed"]}, "no process of the job has the tests' hook"),
        ({"components": ["postgresql"]}, "There is no postgresql to hit here"),
    ],
    ids=["the job's image has no hook", "the pod is not labelled as a target"],
)
def test_what_cannot_or_must_not_be_done_is_refused(
    deployed: str, more: dict[str, Any], why: str
) -> None:
    ran = try_dag("chaos_exactly_once", _asked(deployed, **more), "--show", "precheck")
    assert ran.returncode == 1
    assert why in ran.stdout
    assert "baseline: upstream_failed" in ran.stdout
