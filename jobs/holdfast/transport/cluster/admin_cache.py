"""One admin client of a cluster for each process.

A client that is new drops its first connection as soon as it knows the cluster's brokers, and with
it what was asked on it meanwhile; that is asked again one to three seconds later (librdkafka 2.16,
`rd_kafka_metadata_decommission_unavailable_brokers`).  One client in fifty waits so.
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
    with _lock:  # state partitions are opened side by side
        return _admin(tuple(sorted(client.items())))


@lru_cache(_ADMINS_MAX)
def _admin(client: tuple[tuple[str, str], ...]) -> Admin:
    return Admin(dict(client))
