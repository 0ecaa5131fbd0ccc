"""A fleet: three jobs of two namespaces, declared by a ConfigMap, deployed and broken by Airflow.

It takes a quarter of an hour and all of two cores, so it is not among the tests of each change. Run
it alone, since the requests of the other tests' pods leave no room for its own on such a node:

    LONG_TESTS=1 make test-cluster PYTEST_ARGS=tests/e2e/cluster/test_fleet.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster.conftest import clear
from tests.e2e.cluster.kube import (
    NAMESPACE,
    ROOT,
    helm,
    kubectl,
    long_test,
    objects,
    run_dag,
    try_dag,
    until,
)

pytestmark = [pytest.mark.cluster, long_test, pytest.mark.timeout(1_200)]

PLATFORM = "holdfast-platform"
CONFIGMAP = MORE = "e2e-fleet"
A, B, C = "fleet-a", "fleet-b", "fleet-c"
PLACES = {A: NAMESPACE, B: NAMESPACE, C: MORE}
_WAIT_S = 600.0
_NEVER = "0 3 1 1 *"  # chaos comes when the test asks for it
_VALUES = {
    "fleet": {"configMap": CONFIGMAP, "schedule": ""},
    "jobs": {"moreNamespaces": [MORE]},
    # Each of three chaos runs at once has two tasks.
    "airflow": {"parallelism": 6},
}


def _sql(name: str) -> str:
    mine = name.replace("-", "_")
    return f"""
CREATE STREAM sales (title STRING, amount INT)
  WITH (KAFKA_TOPIC = '{mine}_sales', PARTITIONS = 2, VALUE_FORMAT = 'JSON');
CREATE TABLE {mine}_sold AS
  SELECT title, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY title EMIT CHANGES;
"""


def _declare(names: Sequence[str], **of_b: Any) -> str:
    """Puts jobs.yaml with these jobs into the ConfigMap, beside all statements; returns it."""
    own = {A: {"owner": "sales"}, B: of_b, C: {"namespace": MORE, "chaos_confirm": C}}
    size = {"executors": 1, "state_partitions": 2, "chaos": _NEVER}
    # Beside the pods of three chaos runs, the usual requests are more than two cores.
    asks = {"resources": {"requests": {"cpu": "10m"}}}
    values = {"driver": asks, "executor": {**asks, "volume": {"size": "1Gi"}}}
    jobs = {name: {"sql_file": f"{name}.sql", **own[name]} for name in names}
    text = yaml.safe_dump({"defaults": {**size, "values": values}, "jobs": jobs})
    configmap = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIGMAP},
        "data": {"jobs.yaml": text, **{f"{name}.sql": _sql(name) for name in PLACES}},
    }
    kubectl("-n", PLATFORM, "apply", "-f", "-", text=json.dumps(configmap))
    return text


def _clear() -> None:
    """Ends all jobs and takes the second namespace away."""
    for name, namespace in PLACES.items():
        mine = name.replace("-", "_")
        clear(name, (f"{mine}_", mine.upper()), namespace)
    kubectl("delete", "namespace", MORE, "--ignore-not-found", "--wait")
    kubectl("-n", PLATFORM, "delete", "configmap", CONFIGMAP, "--ignore-not-found")


@pytest.fixture(scope="module")
def fleet(cli_pod: str) -> Iterator[None]:
    """The platform reads three declared jobs, and may deploy into a second namespace.

    That one is not labelled for development: chaos asks for the job's name there.
    """
    _clear()
    standard = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"kind": "Namespace", "metadata": {"name": MORE, "labels": standard}}
    kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", **namespace}))
    _declare([A, B, C])
    here = ("--namespace", PLATFORM, "--wait", "--timeout", "8m")
    chart = str(ROOT / "helm/holdfast-platform")
    done = helm("upgrade", "platform", chart, "--reset-then-reuse-values", *here, values=_VALUES)
    assert done.returncode == 0, done.stderr
    yield
    back = helm("rollback", "platform", *here)
    _clear()
    assert back.returncode == 0, back.stderr


@pytest.fixture(scope="module")
def _this_cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig of the cluster under test, for commands that take the present context."""
    file = tmp_path_factory.mktemp("kube") / "config"
    file.write_text(kubectl("config", "view", "--raw", "--minify", "--flatten"))
    return file


class Status:
    """`holdfast status --all`, as a person beside the cluster has it."""

    def __init__(self, kubeconfig: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def text(self, *options: str) -> str:
        command = [sys.executable, "-m", "holdfast.cli.main", "status", "--all"]
        ran = subprocess.run(
            [*command, "--target", "kubernetes", *options],
            env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {
            one["name"]: one for one in json.loads(self.text("--json")) if one["name"] in PLACES
        }

    def until_level(self, **revisions: int) -> None:
        wanted = {name.replace("_", "-"): revision for name, revision in revisions.items()}

        def level() -> bool:
            found = {n: one for n, one in self.jobs().items() if one["ready"] and one["caught_up"]}
            return {name: one["revision"] for name, one in found.items()} == wanted

        until(level, _WAIT_S, f"ready and level: {wanted}")


@pytest.fixture
def status(fleet: None, _this_cluster: Path) -> Status:
    return Status(_this_cluster)


def _decided() -> dict[str, str]:
    """Runs `deploy_fleet`; what it said of each job."""
    log = run_dag("deploy_fleet", {}, "--show", "decide").splitlines()
    found = {n: [at for at in log if at.startswith((f"{n}:", f"{n} ("))] for n in PLACES}
    assert all(len(lines) == 1 for lines in found.values()), "\n".join(log)
    return {name: line for name, (line,) in found.items()}


def _until_decided(names: Iterable[str], words: str) -> None:
    names = set(names)

    def said() -> bool:
        told = _decided()
        return all(words in told[name] for name in names)

    until(said, _WAIT_S, f"the fleet says of {names}: {words}")


def _being_changed() -> set[str]:
    """The jobs whose lock a run of Airflow has."""
    leases = [lease for place in set(PLACES.values()) for lease in objects("leases", "-n", place)]
    return {str(lease["metadata"]["name"]).removeprefix("holdfast-") for lease in leases}


def test_three_jobs_of_two_namespaces_are_deployed_at_once(
    status: Status, times: dict[str, float]
) -> None:
    began = time.time()
    told = _decided()
    assert all("missing, it is not deployed" in told[name] for name in PLACES), told
    assert told[A].startswith(f"{A} (sales):")
    until(lambda: _being_changed() >= set(PLACES), 60, "all three have their locks")
    status.until_level(fleet_a=1, fleet_b=1, fleet_c=1)
    times["a fleet of three jobs, from trigger to all level"] = time.time() - began
    places = {name: one["namespace"] for name, one in status.jobs().items()}
    assert places == PLACES
    assert f"{MORE}/{C} (kubernetes, revision 1)" in status.text()
    _until_decided(PLACES, "level, revision 1")


def test_chaos_of_each_job_is_valid(fleet: None, times: dict[str, float]) -> None:
    """All at once; the one in a namespace that is not for development has its confirmation."""
    few = {"rounds": 2, "components": ["driver", "executor"], "faults": ["delete"], "seed": 5}

    def broken(name: str) -> subprocess.CompletedProcess[str]:
        return try_dag(f"chaos_of_{name}", few, "--show", "verify")

    began = time.time()
    with ThreadPoolExecutor() as pool:
        runs = list(pool.map(broken, PLACES))
    times["chaos of three jobs at once, two faults each"] = time.time() - began
    for ran in runs:
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "verdict: valid" in ran.stdout, ran.stdout


def test_what_changes_is_deployed_and_what_nobody_declares_is_left_alone(
    status: Status, times: dict[str, float]
) -> None:
    text = _declare([A, B], properties={"trigger.interval.ms": 200})
    changed = time.time()
    cat = ("exec", "airflow-scheduler-0", "--", "cat", "/etc/holdfast/fleet/jobs.yaml")
    until(lambda: kubectl("-n", PLATFORM, *cat) == text, 180, "Airflow sees the ConfigMap")
    times["a changed ConfigMap, until Airflow sees it"] = time.time() - changed
    told = _decided()
    assert "level, revision 1" in told[A], told
    assert "differs, its declaration has changed" in told[B], told
    assert told[C] == f"{C} (kubernetes/{MORE}): nobody has declared it; it is left alone", told
    status.until_level(fleet_a=1, fleet_b=2, fleet_c=1)
    _until_decided([B], "level, revision 2")
