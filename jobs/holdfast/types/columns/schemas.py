"""Schemas of keys and values, and the contract of the registries that keep them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

__all__ = [
    "ANSWER_BYTES_MAX",
    "READY_PAGE",
    "START_REGISTRY",
    "DataSchema",
    "Registered",
    "Schema",
    "SchemaKind",
    "Schemas",
    "subject_of",
]

ANSWER_BYTES_MAX = 16 << 20  # of a registry; a schema with all that it refers to has no more
READY_PAGE = "/health/ready"  # of Apicurio (MicroProfile Health)
START_REGISTRY = "run `holdfast registry start` for one on this machine"


class SchemaKind(StrEnum):
    """The schema languages, by the registry's names."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


@dataclass(frozen=True)
class Schema:
    """A schema's text.

    Attributes:
        references: (name, text) of the schemas that it refers to, each after those it needs.
    """

    kind: SchemaKind
    text: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Registered:
    """A schema as a registry keeps it under a subject."""

    id: int
    schema: Schema
    subject: str
    version: int


@dataclass(frozen=True)
class DataSchema:
    """The schema of a topic's keys or values.

    Attributes:
        id: the registry's; None: not registered yet, `schemas.register` is to do it.
        full_name: the record or message within the schema; empty: the first one.
        fixed: the columns follow from the schema, which is never registered anew.
    """

    subject: str
    schema: Schema
    id: int | None = None
    full_name: str = ""
    fixed: bool = False


class Schemas(Protocol):
    """A registry.  Every method raises `RegistryUnavailable` when it does not answer in time."""

    def by_id(self, schema_id: int) -> Schema:
        """A schema; found ones are kept for ever, since an id never gets another schema.

        Raises:
            SchemaMissing: the registry says that it has no such id.
        """

    def latest(self, subject: str) -> Registered | None:
        """The newest version of a subject; None: there is none."""

    def register(self, subject: str, schema: Schema) -> int:
        """The id of a schema under a subject; registers it if it is new there.

        Raises:
            SchemaRefused: it is not compatible with the subject's versions, or is malformed.
        """

    def registered(self, subject: str, schema: Schema) -> int | None:
        """The id of a schema under a subject; None: `register` would make one.

        Raises:
            SchemaRefused: `register` would raise it: the schema does not fit the newest version,
                or, where the subject's compatibility is transitive, another one.
        """


def subject_of(topic: str, *, key: bool) -> str:
    """The subject of a topic's keys or values by TopicNameStrategy, as ksqlDB names it."""
    return f"{topic}-{'key' if key else 'value'}"
