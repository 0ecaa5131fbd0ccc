"""INSERT INTO … VALUES of a job's file is written once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.config.settings import Settings
from holdfast.errors import TopicMissing
from holdfast.local.broker import BrokerStatus
from holdfast.runtime.insertions import write_insertions
from holdfast.sql import compile_text
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.partitioner import murmur2_partition
from holdfast.transport.reader import PartitionReader
from holdfast.types.statements.topology import Insertion

BOOKS = """
CREATE STREAM books (title VARCHAR KEY, pages BIGINT)
  WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'JSON'{more});
"""
ONE = "INSERT INTO books (title, pages) VALUES ('Emma', 474);"
TWO = "INSERT INTO books (rowtime, title, pages) VALUES (1234, 'Ulysses', 2 * 365);"


class Shelf:
    """A job with one declared topic."""

    def __init__(self, servers: str, name: str) -> None:
        self.settings = Settings(name, servers, transaction_timeout_ms=10_000)
        self.topic = f"{name}-books"
        self._admin = Admin(self.settings.client())

    def write(self, *statements: str, more: str = ", PARTITIONS = 3") -> int:
        text = BOOKS.format(topic=self.topic, more=more) + "".join(statements)
        insertions: tuple[Insertion, ...] = compile_text(text).insertions
        assert len(insertions) == len(statements)
        return write_insertions(self._admin, self.settings, insertions)

    def records(self) -> list[tuple[Any, ...]]:
        found = []
        for p, (start, end) in self._admin.bounds(self.topic).items():
            reader = PartitionReader(self.settings.client(), self.topic, p)
            for chunk in reader.read(start, end) if start < end else ():
                rows = zip(chunk.keys, chunk.values, chunk.timestamps, strict=True)
                found += [(p, k, json.loads(v or b"null"), at) for k, v, at in rows]
            reader.close()
        return found


@pytest.fixture
def shelf(kafka: BrokerStatus, kafka_topic_name: Callable[[str], str]) -> Shelf:
    return Shelf(kafka.bootstrap_servers, kafka_topic_name("app")[-40:])


def test_each_is_written_once_and_a_new_one_when_it_comes(shelf: Shelf) -> None:
    assert shelf.write(ONE) == 1
    assert shelf.write(ONE) == 0
    assert shelf.write(ONE, TWO) == 1
    found = {key: (p, value, at) for p, key, value, at in shelf.records()}
    assert len(shelf.records()) == len(found) == 2
    assert found[b"Ulysses"] == (murmur2_partition(b"Ulysses", 3), {"PAGES": 730}, 1234)
    assert found[b"Emma"][1] == {"PAGES": 474}
    assert found[b"Emma"][2] > 1_600_000_000_000


def test_equal_ones_are_as_many_as_they_are(shelf: Shelf) -> None:
    assert shelf.write(ONE, ONE) == 2
    assert shelf.write(ONE, ONE, ONE) == 1
    assert len(shelf.records()) == 3


def test_a_topic_that_is_not_there_is_named(shelf: Shelf) -> None:
    with pytest.raises(TopicMissing, match="BOOKS does not exist"):
        shelf.write(ONE, more="")


def test_a_misspelt_topic_is_told_its_nearest_name(shelf: Shelf) -> None:
    shelf.write(ONE)
    with pytest.raises(TopicMissing, match=f"did you mean {shelf.topic}"):
        Admin(shelf.settings.client()).bounds(shelf.topic[:-1])


THREE = """INSERT INTO books (title, pages) VALUES (
    UCASE(CONCAT('moby', ' ', 'dick')), LEN('four') + CAST('631' AS BIGINT));"""
FAILING = "INSERT INTO books (title, pages) VALUES ('Dracula', CAST('many' AS BIGINT));"


def test_values_are_computed_and_what_cannot_be_is_null(shelf: Shelf) -> None:
    assert shelf.write(THREE, FAILING) == 2
    found = {key: value for _, key, value, _ in shelf.records()}
    assert found == {b"MOBY DICK": {"PAGES": 635}, b"Dracula": {"PAGES": None}}
    assert shelf.write(THREE, FAILING) == 0
