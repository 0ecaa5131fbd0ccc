"""The properties of the schema registry; ksqlDB's names have `ksql.` before them."""

from __future__ import annotations

from holdfast.config import values
from holdfast.config.property import Property

__all__ = ["REGISTRY_PROPERTIES"]


def _of(name: str, field: str, kind: values.Kind, doc: str) -> Property:
    return Property(f"schema.registry.{name}", ("registry", field), kind, doc)


REGISTRY_PROPERTIES = (
    _of(
        "url",
        "url",
        values.text("URLs"),
        "the schema registry; several servers with commas; else that of `holdfast registry start`",
    ),
    _of(
        "basic.auth.user.info",
        "user_info",
        values.text("NAME:PASSWORD"),
        "name and password at the schema registry",
    ),
    _of(
        "bearer.auth.token",
        "token",
        values.text("a token"),
        "token at the schema registry, instead of a password",
    ),
    _of("ssl.ca.location", "ca", values.text("a file"), "certificates of who vouches for it"),
    _of(
        "ssl.certificate.location",
        "certificate",
        values.text("a file"),
        "the job's own certificate at the schema registry",
    ),
    _of("ssl.key.location", "key", values.text("a file"), "the key of the job's certificate"),
    _of("ssl.key.password", "key_password", values.text("a password"), "password of that key"),
    _of(
        "request.timeout.ms",
        "timeout_ms",
        values.whole(100, 600_000),
        "the longest wait for an answer of the schema registry",
    ),
)
