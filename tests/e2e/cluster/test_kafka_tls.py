"""A job on a Kafka with TLS and client certificates: both charts, one on the other."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.cluster.kube import IMAGE, NAMESPACE, ROOT, helm, kubectl
from tests.e2e.cluster.table import in_cli_pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PLATFORM = "holdfast-secured"
JOB = "secured"
BROKERS = f"kafka.{PLATFORM}.svc:9092"
SQL = """
CREATE STREAM secured_sales (title STRING KEY, amount INT)
  WITH (KAFKA_TOPIC = 'secured_sales', PARTITIONS = 2, VALUE_FORMAT = 'JSON');
CREATE TABLE secured_sold AS
  SELECT title, COUNT(*) AS n FROM secured_sales GROUP BY title EMIT CHANGES;
INSERT INTO secured_sales (title, amount) VALUES ('Aliens', 1);
"""
_WAIT = """
import sys
from holdfast.transport.cluster.admin import Admin
Admin({"bootstrap.servers": sys.argv[1], **dict(p.split("=") for p in sys.argv[2:])}).wait_ready(10)
"""


@pytest.fixture(scope="module")
def secured() -> Iterator[str]:
    """The brokers' address; their release is in a namespace of its own."""
    _clear()
    kubectl("create", "namespace", PLATFORM)
    tag = IMAGE.partition(":")[2]
    made = helm(
        "install", PLATFORM, str(ROOT / "helm/holdfast-platform"), "--namespace", PLATFORM,
        "--wait", "--timeout", "5m", "--set-string", f"image.tag={tag}",
        "--set", "airflow.enabled=false", "--set", "kafka.volume.size=1Gi",
        "--set", "kafka.tls.enabled=true", "--set", "kafka.tls.clientCertificates=true",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    yield BROKERS
    _clear()


@pytest.fixture(scope="module")
def job(secured: str) -> str:
    """The release of a job whose driver, executors and query server connect with a certificate."""
    kafka = {
        "bootstrapServers": secured,
        "properties": {"security.protocol": "SSL"},
        "tls": {"existingSecret": "holdfast-kafka-client", "clientCertificate": True},
    }
    repository, _, tag = IMAGE.partition(":")
    made = helm(
        "install", JOB, str(ROOT / "helm/holdfast"), "--wait", "--timeout", "6m",
        "--set-string", f"image.repository={repository}", "--set-string", f"image.tag={tag}",
        "--set", "executor.replicas=1", "--set", "serve.enabled=true",
        "--set", "serve.replicas=1", "--set", "serve.auth.insecure=true",
        "--set-json", f"kafka={json.dumps(kafka)}", "--set-json", f"sql={json.dumps(SQL)}",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return JOB


def _clear() -> None:
    helm("uninstall", JOB, "--ignore-not-found", "--wait")
    kubectl("delete", "pvc", "-l", f"app.kubernetes.io/instance={JOB}", "--ignore-not-found")
    helm("uninstall", PLATFORM, "--namespace", PLATFORM, "--ignore-not-found", "--wait")
    kubectl("delete", "secret", "holdfast-kafka-client", "--ignore-not-found")
    kubectl("delete", "namespace", PLATFORM, "--ignore-not-found", "--wait")


def test_the_job_and_its_selftest_work_with_certificates(job: str) -> None:
    """The selftest makes a table through this Kafka, asks the driver, and reads a served row."""
    tested = helm("test", job, "--timeout", "5m")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_an_upgrade_keeps_the_certificates(secured: str) -> None:
    secret = ("get", "secret", "kafka-tls", "-n", PLATFORM, "-o", "jsonpath={.data}")
    before = kubectl(*secret)
    done = helm(
        "upgrade", PLATFORM, str(ROOT / "helm/holdfast-platform"), "--namespace", PLATFORM,
        "--reuse-values", "--wait", "--timeout", "5m",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert kubectl(*secret) == before


@pytest.mark.parametrize("properties", [(), ("security.protocol=SSL",)])
def test_nobody_gets_in_without_a_certificate(
    cli_pod: str, secured: str, properties: tuple[str, ...]
) -> None:
    assert cli_pod
    ran = in_cli_pod("python", "-c", _WAIT, secured, *properties)
    assert ran.returncode != 0
    assert "Kafka at" in ran.stderr, f"it should be Kafka that refuses: {NAMESPACE} {ran.stderr}"
