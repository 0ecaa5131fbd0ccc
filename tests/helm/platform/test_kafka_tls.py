"""Kafka with TLS in the platform chart: who has which key."""

from __future__ import annotations

from typing import Any

from tests.helm.conftest import Manifest, Refused, Render

CHART = "holdfast-platform"
NAMESPACE = "platform-of-tests"


def _named(manifests: list[Manifest]) -> dict[str, Manifest]:
    return {f"{m['kind']}/{m['metadata']['name']}": m for m in manifests}


def _secured(render: Render, **more: bool) -> dict[str, Manifest]:
    values = {"kafka": {"tls": {"enabled": True, **more}}, "jobs": {"namespace": "jobs-of-tests"}}
    return _named(render(CHART, values, namespace=NAMESPACE))


def _broker(manifests: dict[str, Manifest]) -> dict[str, Any]:
    pod: dict[str, Any] = manifests["StatefulSet/kafka"]["spec"]["template"]["spec"]
    return pod


def _environment(pod: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e["value"] for e in pod["containers"][0]["env"] if "value" in e}


def test_only_the_brokers_mount_their_key(render: Render) -> None:
    manifests = _secured(render, clientCertificates=True)
    pod = _broker(manifests)
    assert _environment(pod)["KAFKA_TLS"] == "/etc/kafka/tls"
    assert _environment(pod)["KAFKA_TLS_CLIENTS"] == "required"
    (volume,) = (v for v in pod["volumes"] if v["name"] == "tls")
    assert volume["secret"]["secretName"] == "kafka-tls"
    mounts = {m["name"]: m for m in pod["containers"][0]["volumeMounts"]}
    assert mounts["tls"] == {"name": "tls", "mountPath": "/etc/kafka/tls", "readOnly": True}
    others = [str(m) for name, m in manifests.items() if name != "StatefulSet/kafka"]
    assert not any("'secretName': 'kafka-tls'" in other for other in others)
    assert _environment(_broker(_secured(render)))["KAFKA_TLS_CLIENTS"] == "none"


def test_without_it_nothing_is_there(render: Render) -> None:
    manifests = _named(render(CHART, {}, namespace=NAMESPACE))
    assert not {"KAFKA_TLS", "KAFKA_TLS_CLIENTS"} & _environment(_broker(manifests)).keys()
    elsewhere = {"kafka": {"enabled": False, "tls": {"enabled": True}}}
    elsewhere |= {"jobs": {"bootstrapServers": "kafka:9092"}}
    for values in ({}, elsewhere):
        assert "kafka-tls" not in str(render(CHART, values))


def test_what_is_no_switch_is_refused(refused: Refused) -> None:
    assert "enabled" in refused(CHART, {"kafka": {"tls": {"enabled": "yes"}}})
    assert "secret" in refused(CHART, {"kafka": {"tls": {"secret": "mine"}}})
