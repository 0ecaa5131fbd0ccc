"""A cache of one admin client per cluster and process.

A new client drops its first connection as soon as it knows the cluster's brokers, and with it any
pending request, which it repeats one to three seconds later (librdkafka 2.16,
`rd_kafka_metadata_decommission_unavailable_brokers`).  This delays one client in fifty.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import lru_cache

from holdfast.transport.cluster.admin import Admin

__all__ = ["shared_admin"]

_ADMINS_MAX = 4

_lock = threading.Lock()


def shared_admin(client: Mapping[str, str]) -> Admin:
    """This process's admin client of a cluster; safe to share between threads.

    Raises:
        InvalidConfig: the client refuses a property.
    """
    with _lock:  # state partitions are opened in parallel
        return _admin(tuple(sorted(client.items())))


@lru_cache(_ADMINS_MAX)
def _admin(client: tuple[tuple[str, str], ...]) -> Admin:
    return Admin(dict(client))
