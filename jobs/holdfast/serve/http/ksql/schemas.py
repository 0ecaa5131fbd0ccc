"""The schemas of a registry that a client's statement needs, and may see."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.errors import SchemaMissing
from holdfast.sql.parse.clauses import Property
from holdfast.sql.parse.statements import CreateAs, CreateSource, InsertSelect
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.types.schemas import Registered, Schemas, subject_of

__all__ = ["needed_schemas"]

_FORMATS = ("FORMAT", "KEY_FORMAT", "VALUE_FORMAT")
_IDS = ("KEY_SCHEMA_ID", "VALUE_SCHEMA_ID")


def needed_schemas(
    statement: CreateSource | CreateAs | InsertSelect,
    schemas: Schemas,
    topics: frozenset[str],
    *,
    every: bool,
) -> tuple[Registered, ...]:
    """The schemas that the planner would ask for; a worker has no way to a registry.

    A schema is as good as a DESCRIBE, so it is given only where that would be.

    Args:
        topics: those of the streams and tables that the client may see.
        every: whether it may see all, so also a schema by its id alone.

    Raises:
        RegistryUnavailable: the registry does not answer.
    """
    if not isinstance(statement, CreateSource | CreateAs):
        return ()
    given = {each.key: each for each in statement.properties}
    if not any(str(given[name].value).upper() in LANGUAGES for name in _FORMATS if name in given):
        return ()
    topic = str(given["KAFKA_TOPIC"].value) if "KAFKA_TOPIC" in given else ""
    subjects = [subject_of(topic, key=key) for key in (True, False)]
    wanted = subjects if every or topic in topics else []
    found = [each for each in map(schemas.latest, wanted) if each is not None]
    return (*found, *(_by_id(given, schemas) if every else ()))


def _by_id(given: dict[str, Property], schemas: Schemas) -> Iterator[Registered]:
    for name in _IDS:
        number = given[name].value if name in given else None
        if isinstance(number, int) and number >= 0:
            try:
                yield Registered(number, schemas.by_id(number), f"id {number}", 1)
            except SchemaMissing:
                continue  # the planner says so
