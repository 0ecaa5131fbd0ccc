"""A registry that is asked about ids that may be none, as the bytes of any topic look like."""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.errors import RegistryUnavailable, SchemaMissing
from holdfast.transport.registry.wrapped import WrappedSchemas
from holdfast.types.columns.schemas import Schema, Schemas

__all__ = ["AskedSeldom"]

_DENIED_MAX = 100  # ids in one time of memory
_DENIED_S = 60.0
_AWAY_S = 10.0


class AskedSeldom(WrappedSchemas):
    """Remembers which ids the other registry denied, or that it was away.

    Only for what people look at: an id that is registered now may be denied for another minute,
    and after 100 denials every id that is not known yet.  Not safe for threads.
    """

    def __init__(self, schemas: Schemas, clock: Callable[[], float] = time.monotonic) -> None:
        """Asks nothing.

        Args:
            clock: seconds.
        """
        super().__init__(schemas)
        self._clock = clock
        self._known: set[int] = set()
        self._denied: dict[int, SchemaMissing] = {}
        self._forget_at = 0.0
        self._away: RegistryUnavailable | None = None
        self._away_until = 0.0

    def by_id(self, schema_id: int) -> Schema:
        if schema_id not in self._known:
            self._check(schema_id)
        try:
            found = self._schemas.by_id(schema_id)
        except SchemaMissing as error:
            self._denied[schema_id] = error
            raise
        except RegistryUnavailable as error:
            self._away, self._away_until = error, self._clock() + _AWAY_S
            raise
        self._known.add(schema_id)
        return found

    def _check(self, schema_id: int) -> None:
        """Raises `SchemaMissing`, `RegistryUnavailable`: what the registry said a while ago."""
        now = self._clock()
        if now >= self._forget_at:
            self._denied.clear()
            self._forget_at = now + _DENIED_S
        if self._away is not None and now < self._away_until:
            raise self._away.with_traceback(None)
        if schema_id in self._denied:
            raise self._denied[schema_id].with_traceback(None)
        if len(self._denied) >= _DENIED_MAX:
            raise SchemaMissing(
                f"The schema registry was not asked for id {schema_id}: it lacks {_DENIED_MAX} "
                "others.",
                cause="what looks like ids of schemas is other data",
            )
