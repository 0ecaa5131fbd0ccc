"""A table that the cluster's own Airflow breaks and judges."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.kubernetes.nemesis import KubernetesTarget
from tests.e2e.cluster.kube import IMAGE, NAMESPACE, kubectl, run_dag, try_dag

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


@pytest.fixture
def _this_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library talks to the cluster under test, whatever the present context is."""
    file = tmp_path / "kubeconfig"
    file.write_text(kubectl("config", "view", "--raw", "--minify", "--flatten"))
    place = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(place, str(file))


@pytest.fixture
def _lets_net_admin_in(_this_cluster: None) -> Iterator[None]:
    def enforce(standard: str) -> None:
        label = f"pod-security.kubernetes.io/enforce={standard}"
        kubectl("label", "namespace", NAMESPACE, label, "--overwrite")

    enforce("privileged")
    yield
    enforce("restricted")


@pytest.mark.usefixtures("_lets_net_admin_in")
def test_one_executor_is_cut_off_from_kafka_and_back(deployed: str) -> None:
    target = KubernetesTarget(NAMESPACE, deployed)
    assert Fault.CUT_OFF in target.faults["executor"], target.notes
    one, other = target.victims("executor")
    did = target.strike(one, Fault.CUT_OFF)
    assert ", felt by the pod" in did
    assert target.landed(one, Fault.CUT_OFF).landed
    assert not target.landed(other, Fault.CUT_OFF).landed
    (found,) = KubernetesTarget(NAMESPACE, deployed).heal_all()
    assert one.name in found, "a later run takes back what one that was killed has left"
    assert not target.landed(one, Fault.CUT_OFF).landed


@pytest.mark.usefixtures("_this_cluster")
def test_a_namespace_that_lets_nobody_in_is_told(deployed: str) -> None:
    target = KubernetesTarget(NAMESPACE, deployed)
    if Fault.CUT_OFF in target.faults["executor"]:
        pytest.skip("this cluster enforces NetworkPolicies: no container has to join the pod")
    assert 'violates PodSecurity "restricted' in target.notes[Fault.CUT_OFF]
