"""Makes Java trust the certificates that the rest of the machine trusts.

Behind a proxy with its own certificate authority, Python, pip and curl follow SSL_CERT_FILE; Java
uses only its own trust store, and its downloads fail.  The library that writes such a store is
imported only when needed, because every command imports this module.
"""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

__all__ = ["trust_options"]

_VARIABLE = "SSL_CERT_FILE"
_PASSWORD = "changeit"  # noqa: S105 - Java's own default; certificates are public


def trust_options(environment: Mapping[str, str], work: Path) -> list[str]:
    """Java options for a trust store made of SSL_CERT_FILE; none when it is not set.

    Args:
        work: a folder for the trust store; it must exist as long as Java runs.
    """
    bundle = environment.get(_VARIABLE, "")
    if not bundle or not Path(bundle).is_file():
        return []

    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import (
        PKCS12Certificate,
        serialize_java_truststore,
    )

    store = work / "trust.p12"
    entries = [PKCS12Certificate(c, str(n).encode()) for n, c in enumerate(_certificates(bundle))]
    store.write_bytes(
        serialize_java_truststore(entries, BestAvailableEncryption(_PASSWORD.encode()))
    )
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def _certificates(bundle: str) -> list[Certificate]:
    """The certificates OpenSSL reads from the file; any it cannot read are left out."""
    from cryptography.x509 import load_der_x509_certificate

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bundle)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old authorities, trusted all the same
        for der in context.get_ca_certs(binary_form=True):
            with suppress(ValueError):
                found.append(load_der_x509_certificate(der))
    return found
