"""Which resources of which names a job's ACLs are about."""

from __future__ import annotations

from holdfast.chaos.faults.topic_faults import topics_of
from holdfast.chaos.load.workload import input_sources
from holdfast.sql import compile_text
from holdfast.types.acls import (
    NEEDS,
    Binding,
    Names,
    Operation,
    Part,
    Resource,
    bindings,
    needs_of,
)
from holdfast.types.statements.internal_topics import for_application

SQL = """
CREATE STREAM orders (id STRING KEY, customer STRING)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE TABLE people (customer STRING PRIMARY KEY, city STRING)
  WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE cities WITH (KAFKA_TOPIC='cities') AS
  SELECT p.city, COUNT(*) AS n FROM orders o JOIN people p ON o.customer = p.customer
  GROUP BY p.city;
CREATE TABLE large WITH (KAFKA_TOPIC='large') AS SELECT * FROM cities WHERE n > 1;
INSERT INTO people (customer, city) VALUES ('a', 'b');
"""


def test_names_are_those_of_the_statements() -> None:
    for topology in (compile_text(SQL), for_application(compile_text(SQL), "shop")):
        names = Names.of(topology, "shop", "spoiled")
        assert names.sources == {"orders", "people", "cities"}  # a sink that is read, too
        assert names.inputs == {"orders", "people"} == {s.topic for s in input_sources(topology)}
        assert names.input_streams == {"orders"} == set(topics_of(topology))
        assert names.input_tables == {"people"}
        assert names.new_sources == {"people"}
        assert names.inserted == {"people"}
        assert names.sinks == {"cities", "large"}
        assert names.dead_letters == {"spoiled"}
    assert Names.of(compile_text(SQL), "shop").dead_letters == set()


def test_what_is_between_the_steps_of_a_statement_is_the_jobs_own() -> None:
    names = Names.of(for_application(compile_text(SQL), "shop"), "shop")
    literal = {
        b.name for b in bindings(NEEDS, names) if b.resource is Resource.TOPIC and not b.prefixed
    }
    assert literal == {
        "orders", "people", "cities", "large", "holdfast-sink-owners", "shop-control",
    }  # fmt: skip


def test_own_names_are_prefixes_that_end_with_the_dash() -> None:
    found = bindings(needs_of(Part.JOB), Names("shop"))
    assert {b.name for b in found if b.prefixed} == {"shop-"}
    assert Binding(Resource.TRANSACTIONAL_ID, "shop-", Operation.WRITE, prefixed=True) in found


def test_none_is_listed_twice_nor_allowed_by_another_line() -> None:
    """READ, WRITE, ALTER and DELETE allow DESCRIBE, ALTER_CONFIGS allows DESCRIBE_CONFIGS."""
    wider = {
        Operation.DESCRIBE: {"READ", "WRITE", "ALTER", "DELETE"},
        Operation.DESCRIBE_CONFIGS: {"ALTER_CONFIGS"},
    }
    for part in Part:
        own = [n for n in NEEDS if part in n.parts]
        allowed = [(n.of, o) for n in own for o in n.operations]
        assert len(allowed) == len(set(allowed)), part
        for of, operation in allowed:
            others = {o.value for where, o in allowed if where is of}
            assert not others & wider.get(operation, set()), (part, of, operation)


def test_a_part_that_does_what_another_does_needs_that_as_well() -> None:
    survey, apply = needs_of(Part.SURVEY), needs_of(Part.APPLY)
    assert set(survey) < set(apply)
    assert set(needs_of(Part.VERIFY)) < set(needs_of(Part.CHAOS))
    assert set(needs_of(Part.SELFTEST)) < set(needs_of(Part.JOB))
