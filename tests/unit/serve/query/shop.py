"""A table with rows in dicts, and an engine that queries it."""

from __future__ import annotations

from typing import Any

from holdfast.config.settings import ServeSettings
from holdfast.serve.queries import Answer, Ask
from holdfast.serve.query import QueryEngine
from tests.support.serve.served import DictCatalog, DictReader, stored_json

__all__ = ["HOUR", "SCAN", "Shop", "all_rows"]

SCRIPT = """
CREATE TABLE goods (id STRING PRIMARY KEY, n BIGINT, price DOUBLE, tag STRING)
  WITH (KAFKA_TOPIC='goods');
CREATE TABLE pairs (a INT PRIMARY KEY, b STRING PRIMARY KEY, v INT)
  WITH (KAFKA_TOPIC='pairs', KEY_FORMAT='JSON');
CREATE TABLE numbers (k BIGINT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='numbers');
CREATE TABLE hourly (id STRING PRIMARY KEY, c BIGINT)
  WITH (KAFKA_TOPIC='hourly', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 HOUR');
CREATE TABLE copied AS SELECT * FROM goods;
CREATE TABLE twins (id STRING PRIMARY KEY, n INT, `n` INT)
  WITH (KAFKA_TOPIC='twins', VALUE_FORMAT='DELIMITED');
CREATE STREAM clicks (id STRING KEY, n INT) WITH (KAFKA_TOPIC='clicks');
"""
SCAN = {"ksql.query.pull.table.scan.enabled": "true"}
HOUR = 3_600_000


class Shop:
    """One table with rows, and an engine that queries it."""

    def __init__(self, name: str, partitions: int = 3, limits: ServeSettings | None = None) -> None:
        self.catalog = DictCatalog(SCRIPT, partitions)
        self.table = self.catalog.table(name)
        self.reader = DictReader(self.table, batch=2)
        self.engine = QueryEngine(self.catalog, self.reader, limits)

    def put(self, key: bytes, time: int = 7, **value: Any) -> None:
        self.reader.commit({key: stored_json(time, value)})

    async def rows(self, sql: str, **ask: Any) -> list[tuple[Any, ...]]:
        return await all_rows(await self.engine.ask(Ask(sql, **ask)))


async def all_rows(answer: Answer) -> list[tuple[Any, ...]]:
    """Of a pull query, sorted."""
    found = [tuple(r) for r in answer.rows or ()]
    async for batch in answer.batches:
        found += zip(*(c.to_pylist() for c in batch.columns), strict=True)
    return sorted(found, key=repr)
