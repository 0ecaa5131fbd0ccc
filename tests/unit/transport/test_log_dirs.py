from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from holdfast.errors import InvalidConfig, KafkaUnavailable
from holdfast.transport.cluster.log_dirs import LogDir, LogSizes, _translated, log_sizes

SERVERS = {"bootstrap.servers": "a:9092,b:9092"}


def test_the_same_client_in_other_words() -> None:
    told = _translated(
        SERVERS
        | {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "p",
            "compression.type": "lz4",
        }
    )
    assert told == {
        "bootstrap_servers": ["a:9092", "b:9092"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }
    assert _translated(SERVERS)["security_protocol"] == "PLAINTEXT"


def test_certificates_are_checked_unless_told_otherwise() -> None:
    tls = SERVERS | {"security.protocol": "SSL"}
    context = _translated(tls)["ssl_context"]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    any_name = tls | {"ssl.endpoint.identification.algorithm": "none"}
    assert not _translated(any_name)["ssl_context"].check_hostname
    anybody = tls | {"enable.ssl.certificate.verification": "false"}
    assert _translated(anybody)["ssl_context"].verify_mode is ssl.CERT_NONE


def test_files_that_are_missing_are_refused(tmp_path: Path) -> None:
    tls = SERVERS | {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")}
    with pytest.raises(InvalidConfig, match="ssl"):
        _translated(tls)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.mechanism", "GSSAPI"),
        ("sasl.oauthbearer.assertion.file", "/a"),
        ("ssl.keystore.location", "/k.p12"),
        ("ssl.certificate.pem", "-----BEGIN"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "true"),
    ],
)
def test_what_has_no_other_words_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name.replace('mechanisms', 'mechanism')}"):
        _translated(SERVERS | {name: value})


def test_nobody_there_is_said_in_time() -> None:
    with pytest.raises(KafkaUnavailable, match=r"no answer in 1 s"):
        log_sizes({"bootstrap.servers": "127.0.0.1:1"}, ["t"], timeout_s=1)


def test_a_replica_is_found_where_it_lies() -> None:
    here = LogDir(1, "/one", 100, 60, {("t", 0): 5})
    there = LogDir(1, "/two", 100, 20, {("t", 1): 7})
    sizes = LogSizes((here, there))
    assert sizes.bytes_of("t", 1, 1) == 7
    assert sizes.dir_of("t", 0, 1) is here
    assert sizes.bytes_of("t", 0, 2) is None
    assert sizes.free_bytes(1) == 20
    assert sizes.free_bytes(2) == -1
