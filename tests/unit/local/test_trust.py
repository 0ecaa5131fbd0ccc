"""Java gets the certificates that SSL_CERT_FILE names, and only then."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from holdfast.local.java import find_java
from holdfast.local.trust import trust_options


def _authority(name: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def test_nothing_is_said_to_java_without_the_variable(tmp_path: Path) -> None:
    assert trust_options({}, tmp_path) == []
    assert trust_options({"SSL_CERT_FILE": str(tmp_path / "missing.pem")}, tmp_path) == []


def test_java_reads_every_certificate_of_the_bundle(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(_authority("one") + _authority("two"))
    options = trust_options({"SSL_CERT_FILE": str(bundle)}, tmp_path)
    store = options[0].partition("=")[2]
    keytool = Path(find_java({})).resolve().parent / "keytool"
    listed = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", "changeit"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert listed.stdout.count("trustedCertEntry") == 2
