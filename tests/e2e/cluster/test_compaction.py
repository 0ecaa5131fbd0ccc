"""A changelog that the cluster's own Airflow surveys, plans, has cleaned and verifies."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.deploy.kubernetes.client import KubeClient
from holdfast.deploy.kubernetes.strimzi import KafkaTopics
from tests.e2e.cluster import table
from tests.e2e.cluster.kube import IMAGE, NAMESPACE, kubectl, run_dag, until
from tests.e2e.cluster.table import Burst, Watch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

DAG = "plan_changelog_compaction"
CHANGELOG = f"{table.NAME}-ctas_sold-changelog"
# As much of Strimzi's own as matters here.
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kafkatopics.kafka.strimzi.io"},
    "spec": {
        "group": "kafka.strimzi.io",
        "scope": "Namespaced",
        "names": {"kind": "KafkaTopic", "plural": "kafkatopics", "singular": "kafkatopic"},
        "versions": [
            {
                "name": "v1beta2",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
TOPIC = {
    "apiVersion": "kafka.strimzi.io/v1beta2",
    "kind": "KafkaTopic",
    "metadata": {"name": "e2e-sold-changelog", "namespace": NAMESPACE},
    "spec": {"topicName": CHANGELOG, "config": {"cleanup.policy": "compact", "segment.ms": 1}},
}


def test_a_changelog_is_cleaned_while_its_job_runs(deployed: str, watch: Watch) -> None:
    # Many small batches, so that each of few keys is superseded often.
    burst = Burst(seed=6, count=60_000, rate=1_000)
    burst.finish()
    watch.until_level(120)
    asked = {
        "target": "kubernetes",
        "jobs": [deployed],
        "image": IMAGE,
        "auto_approve": True,
        "auto_approve_temporary_only": False,
        "auto_approve_risks": True,
    }
    told = run_dag(DAG, asked, "--show", "verify")
    assert "put_back: success" in told
    won = re.search(rf"{CHANGELOG}: cleaned, .* bytes, ([\d,]+) → ([\d,]+) records", told)
    assert won, told
    before, real = (int(number.replace(",", "")) for number in won.groups())
    assert 0 < real < before / 2
    report = table.verdict()
    assert report["verdict"] == "valid", report


@pytest.fixture
def strimzi() -> Iterator[KafkaTopics]:
    """A cluster that knows KafkaTopics, and has one."""
    kubectl("apply", "-f", "-", text=json.dumps(CRD))
    kubectl("wait", "--for=condition=Established", f"crd/{CRD['metadata']['name']}")
    kubectl("apply", "-f", "-", text=json.dumps(TOPIC))
    yield KafkaTopics(KubeClient(), patience_s=60.0)
    kubectl("delete", f"crd/{CRD['metadata']['name']}", "--wait=true")


def _resource() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("get", "kafkatopic/e2e-sold-changelog", "-o=json"))
    return found


def _operate() -> None:
    """What the topic operator does once the resource was changed."""
    until(lambda: _resource()["metadata"]["generation"] > 1, 60, "the resource is patched")
    ready = {"type": "Ready", "status": "True"}
    status = {"observedGeneration": _resource()["metadata"]["generation"], "conditions": [ready]}
    patch = json.dumps({"status": status})
    where = ["kafkatopic/e2e-sold-changelog", "--subresource=status", "--type=merge"]
    kubectl("patch", *where, "-p", patch)


def test_a_topic_of_strimzi_is_changed_through_its_resource(strimzi: KafkaTopics) -> None:
    owner = f"kafkatopic/{NAMESPACE}/e2e-sold-changelog"
    assert strimzi.owners(NAMESPACE) == {CHANGELOG: owner}
    operator = threading.Thread(target=_operate)
    operator.start()
    strimzi.alter(owner, {"min.cleanable.dirty.ratio": "0.01", "segment.ms": None})
    operator.join()
    assert _resource()["spec"]["config"] == {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
    }
