"""The thread of the driver that tells executors which standbys to keep, and hears how far they are.

What it hears moves state partitions: to an executor that was added, once the stores there are
warm; see `placement`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

from holdfast.errors import ExecutorsMissing
from holdfast.runtime.cluster import Cluster

__all__ = ["StandbyKeeper"]

_LOG = logging.getLogger(__name__)
_SOON_S, _SELDOM_S = 3.0, 10.0
# A look takes less, unless executors are lost.  The next driver waits for the end of this one.
_STOP_S = 0.5


class StandbyKeeper:
    """Owns the thread, from `with` until its end.

    Args:
        told: called after the executors have answered.
    """

    def __init__(self, cluster: Cluster, told: Callable[[], None]) -> None:
        self._cluster = cluster
        self._told = told
        self._stopped = False
        self._owed = True  # whether executors have yet to be told of a change
        self._thread = threading.Thread(target=self._run, name="standby-keeper", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the thread; a look that is under way fails when Spark stops."""
        self._stopped = True
        self._cluster.changed.set()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._look()
            except ExecutorsMissing as error:
                _LOG.info("The standbys wait: %s", error.fact)
            except Exception as error:  # noqa: BLE001 - a job goes on without its standbys
                if not self._stopped:
                    _LOG.warning("The standbys were not looked after: %s", error)
            rest = self._cluster.at_rest()
            self._cluster.changed.wait(_SELDOM_S if rest else _SOON_S)

    def _look(self) -> None:
        cluster = self._cluster
        self._owed |= cluster.changed.is_set()
        cluster.changed.clear()
        cluster.look_again()
        duties = cluster.duties()
        if duties.plans and (duties.wanted or self._owed):
            cluster.keep_standbys(duties)
            self._owed = False
            self._told()
