"""The schemas of a registry that a client's statement needs, and may see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.errors import SchemaMissing
from holdfast.sql.parse.clauses import Property
from holdfast.sql.parse.statements import CreateAs, CreateSource, InsertSelect
from holdfast.sql.plan.sources.sink import KEY_FORMAT, VALUE_FORMAT
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.types.columns.schemas import Registered, Schemas, subject_of
from holdfast.types.statements.topology import Topology

__all__ = ["needed_schemas"]

_IDS = ("KEY_SCHEMA_ID", "VALUE_SCHEMA_ID")


def needed_schemas(
    statement: CreateSource | CreateAs | InsertSelect,
    schemas: Schemas,
    after: Topology,
    topics: frozenset[str],
    *,
    every: bool,
) -> tuple[Registered, ...]:
    """The schemas that the planner would ask for; a worker has no way to a registry.

    A schema is as good as a DESCRIBE, so it is given only where that would be.

    Args:
        after: what the statement is planned after: its defaults, and what it may read.
        topics: those of the streams and tables that the client may see.
        every: whether it may see all, so also a schema by its id alone.

    Raises:
        RegistryUnavailable: the registry does not answer.
    """
    if not isinstance(statement, CreateSource | CreateAs):
        return ()
    given = {each.key: each for each in statement.properties}
    if not any(form in LANGUAGES for form in _formats(statement, given, after)):
        return ()
    topic = str(given["KAFKA_TOPIC"].value) if "KAFKA_TOPIC" in given else ""
    subjects = [subject_of(topic, key=key) for key in (True, False)]
    wanted = subjects if every or topic in topics else []
    found = [each for each in map(schemas.latest, wanted) if each is not None]
    return (*found, *(_by_id(given, schemas) if every else ()))


def _formats(
    statement: CreateSource | CreateAs, given: Mapping[str, Property], after: Topology
) -> Iterator[str]:
    """The formats of keys and values, or those that they may be."""
    for part, default in (("KEY_FORMAT", KEY_FORMAT), ("VALUE_FORMAT", VALUE_FORMAT)):
        named = given.get("FORMAT") or given.get(part)
        if named is not None:
            yield str(named.value).upper()
        elif isinstance(statement, CreateSource):
            yield dict(after.properties).get(default, "").upper()
        else:  # as one of those that it reads
            select = statement.select
            read = {name.text for name in (select.source, *(j.source for j in select.joins))}
            yield from (f for s in after.sources if s.name in read
                        for f in (s.key_format, s.value_format))  # fmt: skip


def _by_id(given: dict[str, Property], schemas: Schemas) -> Iterator[Registered]:
    for name in _IDS:
        number = given[name].value if name in given else None
        if isinstance(number, int) and number >= 0:
            try:
                yield Registered(number, schemas.by_id(number), f"id {number}", 1)
            except SchemaMissing:
                continue  # the planner says so
