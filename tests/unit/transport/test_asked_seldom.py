"""PRINT of any bytes asks the registry about few of the ids that they look like."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.errors import RegistryUnavailable, SchemaMissing
from holdfast.transport.registry import AskedSeldom, MemoryRegistry
from holdfast.types.columns.schemas import Schema, SchemaKind
from tests.support.servers.away_registry import AwayRegistry
from tests.support.servers.counting_registry import CountingRegistry

_SCHEMA = Schema(SchemaKind.AVRO, '"string"')


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _denials(registry: AskedSeldom, ids: range) -> Iterator[str]:
    for schema_id in ids:
        with pytest.raises(SchemaMissing) as denied:
            registry.by_id(schema_id)
        yield denied.value.fact


def test_bytes_of_any_ids_cost_few_requests() -> None:
    behind, clock = CountingRegistry(), _Clock()
    registry = AskedSeldom(behind, clock)
    facts = list(_denials(registry, range(10_000)))
    assert behind.asked == 100
    assert facts[99] == "The schema registry has no schema with id 99."
    assert facts[100].startswith("The schema registry was not asked for id 100")
    assert list(_denials(registry, range(100))) == facts[:100]
    assert behind.asked == 100
    behind.register("a", _SCHEMA)
    clock.now = 61.0
    assert registry.by_id(1) == _SCHEMA
    assert len(list(_denials(registry, range(2, 10_000)))) == 9_998
    assert behind.asked == 201


def test_known_schemas_are_found_whatever_was_denied() -> None:
    behind = MemoryRegistry()
    behind.put("a", _SCHEMA, 7)
    registry = AskedSeldom(behind, _Clock())
    assert registry.by_id(7) == _SCHEMA
    assert len(list(_denials(registry, range(1_000, 2_000)))) == 1_000
    assert registry.by_id(7) == _SCHEMA


def test_a_registry_that_is_away_is_not_waited_for_at_each_record() -> None:
    clock = _Clock()
    registry = AskedSeldom(AwayRegistry(), clock)
    errors = set[int]()
    for schema_id in range(2, 100):
        with pytest.raises(RegistryUnavailable) as away:
            registry.by_id(schema_id)
        errors.add(id(away.value))
    assert len(errors) == 1, "it was asked once"
    clock.now = 11.0
    with pytest.raises(RegistryUnavailable) as again:
        registry.by_id(2)
    assert id(again.value) not in errors
