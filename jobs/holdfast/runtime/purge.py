"""Deletes records of internal topics once the step that reads them has committed them.

These topics have no other reader, and a record is read once: a step's input is in its changelog.  A
later driver starts where all queries of this one have committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence

from holdfast.errors import HoldfastError
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ids import Place

__all__ = ["Purge"]

_LOG = logging.getLogger(__name__)
_EVERY_S = 30.0


class Purge:
    """Owns the time of the last purge and the offsets it reached."""

    def __init__(self, admin: Admin, internal: Collection[str]) -> None:
        self._admin = admin
        self._internal = frozenset(internal)
        self._next = time.monotonic() + _EVERY_S
        self._deleted: dict[Place, int] = {}

    def look(self, runs: Sequence[QueryRun]) -> None:
        """Called on every iteration of the main loop; purges now and then."""
        if not self._internal or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_S
        self.delete(runs)

    def delete(self, runs: Sequence[QueryRun]) -> None:
        """Deletes committed records; logs a broker's refusal and tries again later."""
        done = {p: o for r in runs for p, o in dict(r.done).items() if p[0] in self._internal}
        new = {place: o for place, o in done.items() if o > self._deleted.get(place, 0)}
        if not new:
            return
        try:
            self._admin.delete_records(new)
        except HoldfastError as error:
            why = f"{error.fact} {error.cause}"
            _LOG.warning("Records of internal topics are kept for now: %s", why)
        else:
            self._deleted |= new
