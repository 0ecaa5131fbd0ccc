"""One admin client for each cluster and process, not without end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from holdfast.transport.cluster import admin_cache as shared
from holdfast.transport.cluster.admin_cache import shared_admin

CLIENT = {"bootstrap.servers": "localhost:1"}


def test_the_admin_client_of_a_cluster_is_kept() -> None:
    found = shared_admin(CLIENT)
    assert shared_admin(dict(CLIENT)) is found
    assert shared_admin({**CLIENT, "client.id": "x"}) is not found


def test_threads_that_ask_at_once_get_the_same() -> None:
    client = {**CLIENT, "client.id": "at-once"}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: shared_admin(client), range(64)))
    assert len({id(admin) for admin in found}) == 1


def test_the_longest_unused_client_makes_room() -> None:
    kept = shared_admin({**CLIENT, "client.id": "kept"})
    old = shared_admin({**CLIENT, "client.id": "old"})
    for n in range(shared._ADMINS_MAX - 1):
        shared_admin({**CLIENT, "client.id": f"many-{n}"})
        assert shared_admin({**CLIENT, "client.id": "kept"}) is kept
    assert shared_admin({**CLIENT, "client.id": "old"}) is not old
