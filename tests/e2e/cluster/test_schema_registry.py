"""The platform's schema registry: a job in AVRO that got its address from Airflow."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.cluster.conftest import deploy_by_dag
from tests.e2e.cluster.kube import BOOTSTRAP, helm, kubectl, objects, until
from tests.e2e.cluster.table import CLI_POD, in_cli_pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NAME = "avro"
PLATFORM = ("-n", "holdfast-platform")
STATEMENTS, SALES = "/tmp/avro.sql", "/tmp/avro.ndjson"
URL = "http://schema-registry.holdfast-platform.svc:8081/apis/ccompat/v7"
SQL = """
CREATE STREAM avro_sales (title STRING KEY, amount INT)
  WITH (KAFKA_TOPIC = 'avro_sales', PARTITIONS = 1, VALUE_FORMAT = 'AVRO');
CREATE TABLE avro_sold WITH (VALUE_FORMAT = 'AVRO') AS
  SELECT title, COUNT(*) AS n, SUM(amount) AS total FROM avro_sales GROUP BY title EMIT CHANGES;
"""
_SALES = [("Aliens", 3), ("Brazil", 5), ("Aliens", 4)]
_FORGET = f"""
from confluent_kafka.admin import AdminClient
admin = AdminClient({{"bootstrap.servers": "{BOOTSTRAP}"}})
mine = ("{NAME}-", "avro_sales", "AVRO_SOLD")
mine = [t for t in admin.list_topics(timeout=30).topics if t.startswith(mine)]
for gone in (admin.delete_topics(mine) if mine else {{}}).values():
    gone.result(30)
"""
_SUBJECTS = f"""
import urllib.request
print(urllib.request.urlopen("{URL}/subjects", timeout=10).read().decode())
"""


@pytest.fixture(scope="module")
def job(cli_pod: str) -> Iterator[str]:
    """The release of the job; nothing in its request names a registry."""
    _clear()
    kubectl("exec", "-i", cli_pod, "--", "sh", "-c", f"cat > {STATEMENTS}", text=SQL)
    deploy_by_dag({"name": NAME, "sql": SQL, "executors": 1, "state_partitions": 1})
    yield NAME
    _clear()


def _clear() -> None:
    helm("uninstall", NAME, "--wait", "--ignore-not-found")
    mine = f"app.kubernetes.io/instance={NAME}"
    kubectl("delete", "job,pvc", "-l", mine, "--wait=true")
    until(lambda: not objects("pods", "-l", mine), 60, "the pods are gone")
    kubectl("exec", CLI_POD, "--", "python", "-c", _FORGET)


def _holdfast(*arguments: str) -> subprocess.CompletedProcess[str]:
    properties = {
        "bootstrap.servers": BOOTSTRAP,
        "schema.registry.url": URL,
        "application.id": NAME,
        "state.partitions": "1",
    }
    settings = (f"--set={key}={value}" for key, value in properties.items())
    return in_cli_pod("holdfast", *arguments, "--home", "/tmp", *settings)


def _subjects() -> set[str]:
    return set(json.loads(in_cli_pod("python", "-c", _SUBJECTS).stdout))


def _verdict() -> tuple[str, int]:
    """The judge's, who reads records by the schemas that they name, and of how many of them."""
    ran = _holdfast("verify", STATEMENTS, "--json")
    assert ran.stdout.startswith("{"), ran.stdout + ran.stderr
    report = json.loads(ran.stdout)
    return report["verdict"], sum(t["input_records"] for t in report["tables"])


def test_a_table_in_avro_is_deployed_with_its_address(job: str) -> None:
    rows = "\n".join(json.dumps({"TITLE": t, "AMOUNT": a}) for t, a in _SALES)
    kubectl("exec", "-i", CLI_POD, "--", "sh", "-c", f"cat > {SALES}", text=rows)
    made = _holdfast("produce", SALES, "--source", "AVRO_SALES", "--statements", STATEMENTS)
    assert made.returncode == 0, made.stdout + made.stderr
    assert {"avro_sales-value", "AVRO_SOLD-value"} <= _subjects()
    until(lambda: _verdict() == ("valid", len(_SALES)), 120, f"{job} has counted all sales")


def test_its_schemas_outlive_its_pod(job: str) -> None:
    """They are in Kafka, under the ids that the records name."""
    before = _subjects()
    kubectl("delete", "pod", "-l", "app.kubernetes.io/name=schema-registry", *PLATFORM)
    kubectl("rollout", "status", "deployment/schema-registry", "--timeout=120s", *PLATFORM)
    assert _subjects() == before
    assert _verdict() == ("valid", len(_SALES)), job
