"""The smoke test reads a table back over HTTP from a query server given the topics' bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from holdfast.client import Client
from holdfast.deploy.checks.served import Newest, read_back
from holdfast.errors import HoldfastError
from holdfast.serve.query import QueryEngine
from holdfast.types.statements.topology import Query
from tests.support.console.world import JOB, World
from tests.support.serve.http_world import Served, served

Bounds = Mapping[int, tuple[int, int]]
QUIET: Bounds = dict.fromkeys(range(4), (0, 0))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    world = World()
    world.put("PER_CITY", ["St. John's"], [3, 70])
    home = tmp_path_factory.mktemp("home")
    with served(home, world=world, queries=lambda s: QueryEngine(s.catalog, s.reader)) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    with Client(server.url) as made:
        yield made


def _query(server: Served, name: str = "PER_CITY") -> Query:
    query = server.world.planned.query(name)
    assert query is not None
    return query


def _newest(key: str | None, **row: Any) -> Newest:
    return Newest(QUIET, None if key is None else (key,), row or None)


def _quiet(topic: str) -> Bounds:
    return QUIET


def test_the_newest_result_is_read_back_by_its_key(server: Served, client: Client) -> None:
    newest = _newest("St. John's", ORDERS=3, TOTAL=70)
    assert read_back(client, _quiet, _query(server), JOB, newest)


@pytest.mark.parametrize(
    ("key", "orders", "told"),
    [("St. John's", 4, "with {'ORDERS': 3, 'TOTAL': 70} though"), ("Oslo", 3, "with 0 rows")],
)
def test_another_row_or_none_is_a_failure(
    server: Served, client: Client, key: str, orders: int, told: str
) -> None:
    with pytest.raises(HoldfastError, match=told):
        read_back(client, _quiet, _query(server), JOB, _newest(key, ORDERS=orders, TOTAL=70))


def test_a_row_that_may_be_newer_is_not_compared(server: Served, client: Client) -> None:
    newest = _newest("St. John's", ORDERS=2, TOTAL=60)
    assert read_back(client, lambda _: {0: (0, 9)}, _query(server), JOB, newest)


def test_without_results_the_server_is_asked_all_the_same(server: Served, client: Client) -> None:
    assert not read_back(client, _quiet, _query(server), JOB, _newest(None))


def test_a_server_of_another_job_proves_nothing(server: Served, client: Client) -> None:
    with pytest.raises(HoldfastError, match="which does not belong to the job other"):
        read_back(client, _quiet, _query(server), "other", _newest("Oslo"))
    with pytest.raises(HoldfastError, match="do not serve PLACED"):
        read_back(client, _quiet, _query(server, "PLACED"), JOB, _newest("Oslo"))
