"""One admin client of a cluster for each process.

A client that is new drops its first connection as soon as it knows the cluster's brokers, and with
it what was asked on it meanwhile; that is asked again one to three seconds later (librdkafka 2.16,
`rd_kafka_metadata_decommission_unavailable_brokers`).  One client in fifty waits so.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from holdfast.transport.admin import Admin

__all__ = ["shared_admin"]

_ADMINS_MAX = 4

_admins: OrderedDict[tuple[tuple[str, str], ...], Admin] = OrderedDict()
_lock = threading.Lock()


def shared_admin(client: Mapping[str, str]) -> Admin:
    """This process's admin client of a cluster; safe to share between threads.

    Raises:
        InvalidConfig: the client refuses a property.
    """
    key = tuple(sorted(client.items()))
    with _lock:  # state partitions are opened side by side
        found = _admins.get(key)
        if found is None:
            found = _admins[key] = Admin(client)
        _admins.move_to_end(key)
        while len(_admins) > _ADMINS_MAX:
            _admins.popitem(last=False)
        return found
