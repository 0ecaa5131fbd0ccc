"""Certificates for tests: an authority, and what it issues."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Owns a key that signs; its certificate lies at `path` (PEM)."""

    def __init__(self, name: str, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.path = folder / "authority.pem"
        ca = x509.BasicConstraints(ca=True, path_length=0)
        cert = self._builder(self._name, self._key).add_extension(ca, critical=True)
        self._write(self.path, cert.sign(self._key, hashes.SHA256()))

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key, as PEM files; good for localhost, for servers and clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        cert = self._builder(_name(name), key).add_extension(names, critical=False)
        paths = self._folder / f"{name}.pem", self._folder / f"{name}-key.pem"
        self._write(paths[0], cert.sign(self._key, hashes.SHA256()))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + dt.timedelta(days=1))
        )

    @staticmethod
    def _write(path: Path, cert: x509.Certificate) -> None:
        path.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
