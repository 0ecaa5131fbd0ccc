"""A table on the kind cluster, deployed by the cluster's own Airflow and cleared away after."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.e2e.cluster import table
from tests.e2e.cluster.kube import (
    BOOTSTRAP,
    CONTAINER_SECURITY,
    IMAGE,
    NAMESPACE,
    POD_SECURITY,
    helm,
    kubectl,
    objects,
    run_dag,
    until,
)

_TIMES = pytest.StashKey[dict[str, float]]()
_CLI_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": table.CLI_POD},
    "spec": {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": POD_SECURITY,
        "containers": [
            {
                "name": "cli",
                "image": IMAGE,
                "args": ["sleep", "infinity"],
                "securityContext": CONTAINER_SECURITY,
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    },
}


@pytest.fixture(scope="session")
def cli_pod() -> Iterator[str]:
    """A pod of the Holdfast image to run commands in."""
    assert shutil.which("kubectl"), "these tests need kubectl and a cluster: make test-cluster"
    kubectl("delete", "pod", table.CLI_POD, "--ignore-not-found", "--force", "--grace-period=0")
    kubectl("apply", "-f", "-", text=json.dumps(_CLI_POD))
    kubectl("wait", "--for=condition=Ready", f"pod/{table.CLI_POD}", "--timeout=120s")
    yield table.CLI_POD
    kubectl("delete", "pod", table.CLI_POD, "--force", "--grace-period=0")


@pytest.fixture(scope="session")
def deployed(cli_pod: str, times: dict[str, float]) -> Iterator[str]:
    """The table, deployed by the DAG; what is left of an earlier run is cleared away first."""
    clear()
    seconds = deploy_by_dag({})
    times["deploy DAG, from trigger to table checked"] = seconds
    yield table.NAME
    clear()


@pytest.fixture(scope="session")
def served(deployed: str) -> str:
    """The address of two query servers beside the table, from the first test that wants them on."""
    table.upgrade(
        "serve.enabled=true", "serve.auth.insecure=true", "serve.volume.size=1Gi",
        "serve.console.pods=true",
    )  # fmt: skip
    return f"http://{table.NAME}-serve:8088"


def deploy_by_dag(more: dict[str, Any]) -> float:
    """Seconds that the DAG took."""
    began = time.monotonic()
    conf = {
        "target": "kubernetes",
        "name": table.NAME,
        "sql": table.SQL,
        "executors": 2,
        "state_partitions": table.PARTITIONS,
        "image": IMAGE,
        "bootstrap_servers": BOOTSTRAP,
        "values": {"executor": {"volume": {"size": "1Gi"}}},
        **more,
    }
    run_dag("deploy_state_table", conf)
    return time.monotonic() - began


def clear(
    name: str = table.NAME,
    topics: Sequence[str] = (table.TOPIC, "SOLD", "BIG_SALES"),
    namespace: str = NAMESPACE,
) -> None:
    """Ends the release, if there is one, and deletes its volumes and topics.

    Args:
        topics: its sources and sinks, or how their names begin.
    """
    here = ("-n", namespace)
    helm("uninstall", name, "--wait", "--ignore-not-found", "--namespace", namespace)
    of_the_table = f"app.kubernetes.io/instance={name}"
    kubectl("delete", "job,pvc", *here, "-l", of_the_table, "--wait=true")
    until(lambda: not objects("pods", *here, "-l", of_the_table), 60, "the pods are gone")
    script = (
        "from confluent_kafka.admin import AdminClient\n"
        f"admin = AdminClient({{'bootstrap.servers': '{BOOTSTRAP}'}})\n"
        f"mine = {(f'{name}-', *topics)!r}\n"
        "mine = [t for t in admin.list_topics(timeout=30).topics if t.startswith(mine)]\n"
        "for gone in (admin.delete_topics(mine) if mine else {}).values():\n"
        "    gone.result(30)\n"
    )
    kubectl("exec", table.CLI_POD, "--", "python", "-c", script)


@pytest.fixture
def watch(deployed: str) -> Iterator[table.Watch]:
    watching = table.Watch()
    until(lambda: bool(watching.seen), 60, "the driver answers")
    yield watching
    watching.stop()


@pytest.fixture(scope="session")
def times(request: pytest.FixtureRequest) -> dict[str, float]:
    """Seconds by what took them, shown at the end; measured, never asserted."""
    return request.config.stash.setdefault(_TIMES, {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    measured = config.stash.get(_TIMES, {})
    if measured:
        terminalreporter.section("times on the cluster")
    for what, seconds in measured.items():
        terminalreporter.write_line(f"{seconds:8.1f} s  {what}")
