"""Kafka with TLS in the platform chart: certificates that fit each other."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.helm.conftest import Manifest, Refused, Render

CHART = "holdfast-platform"
NAMESPACE = "platform-of-tests"
KEYS = {"ca.crt", "tls.crt", "tls.key"}


def _named(manifests: list[Manifest]) -> dict[str, Manifest]:
    return {f"{m['kind']}/{m['metadata']['name']}": m for m in manifests}


def _secured(render: Render, **more: bool) -> dict[str, Manifest]:
    values = {"kafka": {"tls": {"enabled": True, **more}}, "jobs": {"namespace": "jobs-of-tests"}}
    return _named(render(CHART, values, namespace=NAMESPACE))


def _pem(secret: Manifest, key: str) -> bytes:
    return base64.b64decode(secret["data"][key])


def _broker(manifests: dict[str, Manifest]) -> dict[str, Any]:
    pod: dict[str, Any] = manifests["StatefulSet/kafka"]["spec"]["template"]["spec"]
    return pod


def _environment(pod: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e["value"] for e in pod["containers"][0]["env"] if "value" in e}


def test_broker_and_clients_have_certificates_of_one_authority(render: Render) -> None:
    manifests = _secured(render)
    for name, common_name in (("kafka-tls", "kafka"), ("holdfast-kafka-client", "holdfast")):
        secret = manifests[f"Secret/{name}"]
        assert secret["data"].keys() == KEYS
        assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        authority = x509.load_pem_x509_certificate(_pem(secret, "ca.crt"))
        certificate = x509.load_pem_x509_certificate(_pem(secret, "tls.crt"))
        certificate.verify_directly_issued_by(authority)
        assert certificate.subject.rfc4514_string() == f"CN={common_name}"
        key = serialization.load_pem_private_key(_pem(secret, "tls.key"), None)
        assert key.public_key() == certificate.public_key()
        assert certificate.not_valid_after_utc > dt.datetime.now(dt.UTC) + dt.timedelta(days=3000)
    both = {
        _pem(manifests[f"Secret/{s}"], "ca.crt") for s in ("kafka-tls", "holdfast-kafka-client")
    }
    assert len(both) == 1
    assert manifests["Secret/holdfast-kafka-client"]["metadata"]["namespace"] == "jobs-of-tests"


def test_the_brokers_certificate_has_every_name_that_clients_are_sent_to(render: Render) -> None:
    secret = _secured(render)["Secret/kafka-tls"]
    certificate = x509.load_pem_x509_certificate(_pem(secret, "tls.crt"))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = set(names.get_values_for_type(x509.DNSName))
    for host in ("kafka", "kafka-0", "kafka-1", "kafka-2"):
        assert {host, f"{host}.{NAMESPACE}.svc"} <= found


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


def test_pods_are_the_same_whatever_certificates_were_made(render: Render) -> None:
    """Objects that change with each rendering must not restart a broker."""
    first, second = (_secured(render)["StatefulSet/kafka"] for _ in range(2))
    assert first == second


def test_without_it_nothing_is_there(render: Render) -> None:
    manifests = _named(render(CHART, {}, namespace=NAMESPACE))
    assert not {"Secret/kafka-tls", "Secret/holdfast-kafka-client"} & manifests.keys()
    pod = _broker(manifests)
    assert not {"KAFKA_TLS", "KAFKA_TLS_CLIENTS"} & _environment(pod).keys()
    elsewhere = {"kafka": {"enabled": False, "tls": {"enabled": True}}}
    elsewhere |= {"jobs": {"bootstrapServers": "kafka:9092"}}
    assert "Secret/kafka-tls" not in _named(render(CHART, elsewhere))


def test_what_is_no_switch_is_refused(refused: Refused) -> None:
    assert "enabled" in refused(CHART, {"kafka": {"tls": {"enabled": "yes"}}})
    assert "secret" in refused(CHART, {"kafka": {"tls": {"secret": "mine"}}})
