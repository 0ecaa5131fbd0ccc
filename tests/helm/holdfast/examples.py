"""Sets of values that together use all of the chart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.helm.conftest import Manifest

__all__ = ["CHART", "FULL", "MINIMAL", "SETS", "SQL", "containers", "named", "pods"]

CHART = "holdfast"
SQL = """
CREATE STREAM s (k STRING, v BIGINT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
CREATE TABLE t AS SELECT k, SUM(v) AS total FROM s GROUP BY k EMIT CHANGES;
"""
_SCHEDULING = {
    "env": [{"name": "TZ", "value": "UTC"}],
    "podLabels": {"team": "films"},
    "podAnnotations": {"example.org/note": 'it\'s "quoted": yes'},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "state", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {}}}
            ]
        }
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"team": "films"}},
        }
    ],
    "priorityClassName": "important",
}

MINIMAL: dict[str, Any] = {"sql": SQL, "kafka": {"bootstrapServers": "kafka:9092"}}
FULL: dict[str, Any] = {
    "image": {
        "repository": "registry.example.org:5000/team/holdfast",
        "tag": "1.2.3",
        "pullPolicy": "Always",
        "pullSecrets": ["registry", "other"],
    },
    "sql": SQL + "-- every character: 'ä' \"€\" \\ \t {{ braces }}\n",
    "properties": {"state.partitions": 4, "max.offsets.per.trigger": 100_000_000},
    "functions": {"mine.py": "from holdfast import aggregate\n", "more.py": "x = 1\n"},
    "kafka": {
        "bootstrapServers": "a.example.org:9093, b.example.org:9093",
        "properties": {"security.protocol": "SASL_SSL", "socket.keepalive.enable": True},
        "secretProperties": {"sasl.password": {"name": "kafka-user", "key": "password"}},
        "tls": {"existingSecret": "kafka-tls", "clientCertificate": True},
    },
    "driver": {
        **_SCHEDULING,
        "persistence": {"enabled": False, "size": "2Gi"},
        "resources": {"requests": {"cpu": 1, "memory": "2Gi"}, "limits": {"memory": "3Gi"}},
    },
    "executor": {
        **_SCHEDULING,
        "replicas": 5,
        "heapMiB": 2048,
        "javaOptions": "-XX:+PrintFlagsFinal -Dx=y",
        "volume": {"size": "1Ti", "storageClass": "fast", "accessMode": "ReadWriteOnce"},
    },
    "serve": {
        **_SCHEDULING,
        "enabled": True,
        "replicas": 3,
        "copies": 2,
        "auth": {"existingSecret": "readers", "testTokenKey": "test"},
        "tls": {"existingSecret": "serve-tls"},
        "volume": {"size": "2Ti", "storageClass": "fast", "accessMode": "ReadWriteOnce"},
        "memoryMiB": 2048,
        "query": {"threads": 4, "processMemoryMiB": 1024},
        "resources": {"requests": {"memory": "2Gi"}, "limits": {"cpu": 2}},
        "console": {"pods": True},
        "rateLimit": 50,
        "audit": True,
    },
    "serviceAccount": {"annotations": {"example.org/role": "reader"}},
    "networkPolicy": {
        "queriesFrom": [{"podSelector": {"matchLabels": {"app": "dashboards"}}}],
        "kafkaPorts": [9093, 9094],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    },
    "podMonitor": {"enabled": True, "interval": "30s", "labels": {"release": "prometheus"}},
    "dashboard": {"enabled": True, "labels": {"grafana_dashboard": "yes"}},
    "logs": {"format": "json", "level": "DEBUG"},
}
SETS: dict[str, dict[str, Any]] = {
    "minimal": MINIMAL,
    "full": FULL,
    "bare": MINIMAL
    | {
        part: {"enabled": False}
        for part in ("networkPolicy", "podDisruptionBudget", "preflight", "test")
    }
    | {"serviceAccount": {"create": False, "name": "ours"}}
    | {"driver": {"persistence": {"enabled": False}}},
    "keda": MINIMAL | {"executor": {"autoscaling": {"kind": "keda"}}},
    "hpa": MINIMAL | {"executor": {"autoscaling": {"kind": "hpa"}}},
    "remote": MINIMAL
    | {
        "properties": {"state.backend": "remote", "state.remote.uri": "redis://redis:6379"},
        "remoteState": {"existingSecret": "clerk"},
    },
    "serve": MINIMAL | {"serve": {"enabled": True, "auth": {"insecure": True}}},
    "tls": MINIMAL
    | {"kafka": {"bootstrapServers": "k:1", "tls": {"existingSecret": "ca"}}}
    | {"driver": {"persistence": {"storageClass": "slow"}}},
}  # fmt: skip


def named(manifests: list[Manifest]) -> dict[str, Manifest]:
    """By kind and name."""
    return {f"{m['kind']}/{m['metadata']['name']}": m for m in manifests}


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Every pod that the manifests make, as (kind/name, its template: metadata and spec)."""
    for name, manifest in named(manifests).items():
        if manifest["kind"] == "Pod":
            yield name, manifest
        elif "template" in manifest.get("spec", {}):
            yield name, manifest["spec"]["template"]


def containers(pod: Manifest) -> list[dict[str, Any]]:
    """A pod's containers, including its init containers."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
