"""Topics that Strimzi keeps, against a server that answers as the Kubernetes API does."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.deploy.kubernetes.client import KubeClient
from holdfast.deploy.kubernetes.strimzi import KafkaTopics
from holdfast.errors import Refused, Retriable
from tests.unit.deploy.test_kube_client import point_at

OWNER = "kafkatopic/brokers/movies-sold-changelog"
TOPIC = "movies-SOLD-changelog"
_PATH = "/apis/kafka.strimzi.io/v1beta2/namespaces/brokers/kafkatopics"


class Cluster(ThreadingHTTPServer):
    """KafkaTopics of a namespace, and an operator that takes each change at the next look.

    Attributes:
        strimzi: whether the cluster knows KafkaTopics.
        operator: whether it runs; `says` is why it takes nothing, if it does not.
        refuses: status of every answer about KafkaTopics; 0: as it should be.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Api)
        self.strimzi, self.operator, self.says, self.refuses = True, True, "", 0
        self.topics: dict[str, dict[str, Any]] = {}
        self.patches: list[tuple[str, Any]] = []

    def add(self, name: str, topic: str | None = None, **annotations: str) -> dict[str, Any]:
        spec: dict[str, Any] = {"config": {"cleanup.policy": "compact"}, "partitions": 2}
        resource = {
            "metadata": {"name": name, "generation": 1, "annotations": annotations},
            "spec": {**spec, **({"topicName": topic} if topic else {})},
        }
        self.topics[name] = resource
        self.operate(resource)
        return resource

    def operate(self, resource: dict[str, Any]) -> None:
        if not self.operator:
            return
        bad = {"type": "NotReady", "status": "True", "reason": "Kafka", "message": self.says}
        good = {"type": "Ready", "status": "True"}
        resource["status"] = {
            "observedGeneration": resource["metadata"]["generation"],
            "conditions": [bad if self.says else good],
        }


class _Api(BaseHTTPRequestHandler):
    server: Cluster

    def do_GET(self) -> None:
        if self.path == "/apis/":
            names = ["apps", *(["kafka.strimzi.io"] if self.server.strimzi else [])]
            groups = [_group(name) for name in names]
            self._say(200, {"kind": "APIGroupList", "groups": groups})
        elif self.path == _PATH:
            self._topics({"items": list(self.server.topics.values())})
        else:
            resource = self._resource()
            self._topics(resource)
            if resource is not None:
                self.server.operate(resource)

    def do_PATCH(self) -> None:
        length = int(self.headers["Content-Length"])
        patch = json.loads(self.rfile.read(length))
        self.server.patches.append((self.headers["Content-Type"], patch))
        resource = self._resource()
        if resource is not None:
            config = {**resource["spec"]["config"], **patch["spec"]["config"]}
            resource["spec"]["config"] = {k: v for k, v in config.items() if v is not None}
            resource["metadata"]["generation"] += 1
        self._topics(resource)

    def _resource(self) -> dict[str, Any] | None:
        found = re.fullmatch(f"{_PATH}/([a-z-]+)", self.path)
        return self.server.topics.get(found[1]) if found else None

    def _topics(self, body: Any) -> None:
        if self.server.refuses:
            self._say(self.server.refuses, {"message": "kafkatopics is forbidden"})
        else:
            self._say(404 if body is None else 200, body)

    def _say(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def _group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1beta2", "version": "v1beta2"}
    return {"name": name, "versions": [version], "preferredVersion": version}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        point_at(server.server_port, tmp_path, monkeypatch)
        yield server
        server.shutdown()


@pytest.fixture
def topics() -> KafkaTopics:
    return KafkaTopics(KubeClient(), patience_s=20.0)


def test_a_topic_is_its_resource_s(cluster: Cluster, topics: KafkaTopics) -> None:
    cluster.add("movies-sold-changelog", TOPIC)
    cluster.add("plain")
    cluster.add("let-go", **{"strimzi.io/managed": "false"})
    assert topics.owners("brokers") == {TOPIC: OWNER, "plain": "kafkatopic/brokers/plain"}


def test_without_strimzi_nothing_is_asked_any_further(
    cluster: Cluster, topics: KafkaTopics
) -> None:
    cluster.strimzi, cluster.refuses = False, 403
    assert topics.owners("brokers") == {}
    with pytest.raises(Refused, match="no kafkatopic/brokers"):
        topics.alter(OWNER, {"segment.ms": "1000"})


def test_a_change_is_merged_and_waited_for(cluster: Cluster, topics: KafkaTopics) -> None:
    resource = cluster.add("movies-sold-changelog", TOPIC)
    topics.alter(OWNER, {"segment.ms": "1000", "cleanup.policy": None})
    assert resource["spec"]["config"] == {"segment.ms": "1000"}
    assert resource["status"]["observedGeneration"] == 2
    assert cluster.patches == [
        (
            "application/merge-patch+json",
            {"spec": {"config": {"segment.ms": "1000", "cleanup.policy": None}}},
        )
    ]


def test_what_the_operator_refuses_is_said_in_its_words(
    cluster: Cluster, topics: KafkaTopics
) -> None:
    cluster.add("movies-sold-changelog", TOPIC)
    cluster.says = "Invalid value x for segment.ms"
    with pytest.raises(Refused, match=r"does not take .* Invalid value x for segment\.ms"):
        topics.alter(OWNER, {"segment.ms": "x"})


def test_an_operator_that_is_away_is_waited_for_no_longer_than_told(cluster: Cluster) -> None:
    cluster.add("movies-sold-changelog", TOPIC)
    cluster.operator = False
    with pytest.raises(Retriable, match="within 0 s"):
        KafkaTopics(KubeClient(), patience_s=0.0).alter(OWNER, {"segment.ms": "1000"})


def test_a_paused_resource_is_not_waited_for(cluster: Cluster, topics: KafkaTopics) -> None:
    cluster.operator = False
    cluster.add("movies-sold-changelog", TOPIC, **{"strimzi.io/pause-reconciliation": "true"})
    with pytest.raises(Refused, match="is paused"):
        topics.alter(OWNER, {"segment.ms": "1000"})


def test_a_resource_that_is_gone(cluster: Cluster, topics: KafkaTopics) -> None:
    with pytest.raises(Refused, match="There is no kafkatopic/brokers/movies-sold-changelog"):
        topics.alter(OWNER, {"segment.ms": "1000"})


def test_a_missing_right_names_what_gives_it(cluster: Cluster, topics: KafkaTopics) -> None:
    cluster.add("movies-sold-changelog", TOPIC)
    cluster.refuses = 403
    with pytest.raises(Refused, match=r"kafkatopics is forbidden(.|\n)*compaction.strimzi.enabled"):
        topics.owners("brokers")


@pytest.mark.parametrize("owner", ["topic/brokers/t", "kafkatopic/t", ""])
def test_what_is_no_owner_is_refused(topics: KafkaTopics, owner: str) -> None:
    with pytest.raises(Refused, match="is no resource"):
        topics.alter(owner, {"segment.ms": "1000"})
