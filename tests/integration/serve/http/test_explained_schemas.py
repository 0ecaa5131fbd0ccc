"""EXPLAIN of a statement whose columns are in a real registry, planned in a real worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.settings import RegistrySettings
from holdfast.local.registry import RegistryStatus
from holdfast.serve.contract import Serving
from holdfast.serve.query.engine import QueryEngine
from holdfast.transport.registry import open_registry
from holdfast.types.columns.schemas import Schema, SchemaKind
from tests.support.console.world import World
from tests.support.serve import plain_http as plain
from tests.support.serve.http_world import Served, served
from tests.support.serve.tokens import bearer, tokens_file

_SEEN, _SECRET = "shop_orders", "salaries"  # the first is that of the stream ORDERS
_RECORD = '{"type": "record", "name": "R", "fields": [{"name": "amount", "type": "long"}]}'


@pytest.fixture(scope="module")
def ids(registry: RegistryStatus) -> dict[str, int]:
    client, schema = open_registry({"url": registry.url}), Schema(SchemaKind.AVRO, _RECORD)
    return {topic: client.register(f"{topic}-value", schema) for topic in (_SEEN, _SECRET)}


class _Registered(World):
    """Served by a server with a registry."""

    url = ""

    def serving(self, home: Path, brokers: str = "localhost:9092") -> Serving:
        made = super().serving(home, brokers)
        settings = replace(made.settings, registry=RegistrySettings(url=self.url))
        return replace(made, settings=settings)


@pytest.fixture(scope="module")
def server(registry: RegistryStatus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home, world = tmp_path_factory.mktemp("http"), _Registered()
    world.url = registry.url
    tokens = tokens_file(home, all=["*"], orders=["ORDERS", "X"], none=[])
    with served(
        home, world=world, tokens=tokens, queries=lambda s: QueryEngine(s.catalog, s.reader)
    ) as found:
        yield found


def _explained(
    server: Served, who: str, options: str, *, before: str = "", **properties: object
) -> Any:
    text = f"{before}EXPLAIN CREATE STREAM x WITH ({options});"
    body = {"ksql": text, "streamsProperties": properties}
    found = plain.post(f"{server.url}/ksql", json=body, headers=bearer(f"t-{who}")).json()
    return found[0]["executionPlan"] if isinstance(found, list) else found["message"]


def test_columns_come_from_the_registry(server: Served, ids: dict[str, int]) -> None:
    for topic in (_SEEN, _SECRET):
        inferred = f"KAFKA_TOPIC='{topic}', VALUE_FORMAT='AVRO'"
        assert "AMOUNT BIGINT" in _explained(server, "all", inferred)
        assert "amount" in _explained(server, "all", f"{inferred}, VALUE_SCHEMA_ID={ids[topic]}")
    missing = _explained(server, "all", "KAFKA_TOPIC='none', VALUE_FORMAT='AVRO'")
    assert "none-value" in missing


def test_a_format_may_come_from_a_set_of_the_session(server: Served, ids: dict[str, int]) -> None:
    inferred, name = f"KAFKA_TOPIC='{_SEEN}'", "ksql.persistence.default.format.value"
    assert "AMOUNT BIGINT" in _explained(server, "all", inferred, before=f"SET '{name}'='avro'; ")
    assert "AMOUNT BIGINT" in _explained(server, "all", inferred, **{name: "AVRO"})
    with_id = f"{inferred}, VALUE_SCHEMA_ID={ids[_SEEN]}"
    assert "amount" in _explained(server, "all", with_id, **{name: "AVRO"})
    unset = _explained(server, "all", inferred, before=f"UNSET '{name}'; ", **{name: "AVRO"})
    assert "AMOUNT" not in unset
    secret = _explained(server, "orders", f"KAFKA_TOPIC='{_SECRET}'", **{name: "AVRO"})
    assert "amount" not in secret.lower()


def test_a_client_learns_nothing_of_topics_that_it_may_not_see(
    server: Served, ids: dict[str, int]
) -> None:
    seen = f"KAFKA_TOPIC='{_SEEN}', VALUE_FORMAT='AVRO'"
    secret = f"KAFKA_TOPIC='{_SECRET}', VALUE_FORMAT='AVRO'"
    assert "AMOUNT BIGINT" in _explained(server, "orders", seen)
    for options in (secret, f"{secret}, VALUE_SCHEMA_ID={ids[_SECRET]}"):
        assert "amount" not in _explained(server, "orders", options).lower()
    assert "amount" not in _explained(server, "none", seen).lower()
