"""Certificates of an authority that signs them and is then forgotten."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Wanted", "issue"]

_SKEW = dt.timedelta(minutes=5)


class Wanted(NamedTuple):
    """A certificate to issue."""

    common_name: str
    hosts: tuple[str, ...] = ()
    """DNS names; none for one that only clients show."""


def issue(authority: str, days: int, wanted: Iterable[Wanted]) -> Iterator[dict[str, bytes]]:
    """Issues certificates of one new authority, whose key is kept nowhere.

    They are for servers and for clients: brokers show theirs to each other.

    Args:
        authority: its common name.
        days: how long all of them are valid.

    Yields:
        The data of a Secret of type `kubernetes.io/tls` with the authority's certificate, as PEM.
    """
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    signer, root = ec.generate_private_key(ec.SECP256R1()), _name(authority)
    its_own = (
        _builder(root, root, signer, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(signer, hashes.SHA256())
    )
    for one in wanted:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(one.common_name), root, key, until).add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        if one.hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(host) for host in one.hosts])
            builder = builder.add_extension(names, critical=False)
        yield {
            "ca.crt": its_own.public_bytes(serialization.Encoding.PEM),
            "tls.crt": builder.sign(signer, hashes.SHA256()).public_bytes(
                serialization.Encoding.PEM
            ),
            "tls.key": _pem(key),
        }


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime.now(dt.UTC) - _SKEW)
        .not_valid_after(until)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
