"""What the records of a table's own topic say of its columns, read without the engine."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from holdfast.chaos.reads.state_rows import ROWTIME, WINDOWEND, WINDOWSTART
from holdfast.judge.read.decode import InputDecoder
from holdfast.judge.values import Untranslatable
from holdfast.types.schema import Base
from holdfast.types.topology import Format, Source, WindowKind

__all__ = ["TopicRows"]

# Types whose values are the same in a topic's JSON and in an answer's.
_PLAIN = frozenset({Base.STRING, Base.INTEGER, Base.BIGINT, Base.BOOLEAN, Base.DOUBLE})


@dataclass(frozen=True)
class TopicRows:
    """Reads keys and values of one topic; see `TableRows`.

    Attributes:
        columns: ROWTIME, and value columns of plain types; the others are decoded as well, since
            a record in which one of them cannot be read is no row.
        bounds: see `TableRows`.
    """

    columns: tuple[str, ...]
    bounds: tuple[str, ...]
    _decoder: InputDecoder

    @staticmethod
    def of(source: Source) -> TopicRows:
        """Raises `Untranslatable`: formats or types that are not known here."""
        if source.key_format not in (Format.KAFKA, Format.JSON):
            raise Untranslatable(f"keys in {source.key_format} format")
        if not source.wrap_single:
            raise Untranslatable("values that stand alone in their records (WRAP_SINGLE_VALUE)")
        decoder = InputDecoder(source, [c.name for c in source.value_columns])
        plain = (c.name for c in source.value_columns if c.type.base in _PLAIN)
        bounds = {None: (), WindowKind.SESSION: (WINDOWSTART, WINDOWEND)}
        return TopicRows((ROWTIME, *plain), bounds.get(source.window, (WINDOWSTART,)), decoder)

    @property
    def marked(self) -> bool:
        return False

    @property
    def doubtful(self) -> bool:
        return self._decoder.doubtful > 0

    def key(self, data: bytes) -> tuple[tuple[Any, ...], tuple[int, ...]] | None:
        """See `TableRows`; who writes the topic is not known, and so may be a key that is none."""
        found = self._decoder.tombstone(data, 0)
        try:
            window = self._decoder.bounds(data)[: len(self.bounds)]
        except struct.error:
            return None
        return None if found is None else (found[1 : 1 + len(self._decoder.key_columns)], window)

    def row(self, key: bytes, value: bytes, timestamp_ms: int) -> dict[str, Any] | None:
        """See `TableRows`."""
        found = self._decoder.row(key, value, timestamp_ms)
        if found is None:
            return None
        named = dict(zip((c.name for c in self._decoder.columns), found[1:], strict=True))
        named[ROWTIME] = found[0]
        return {name: _told(named[name]) for name in self.columns}


def _told(value: Any) -> Any:
    """As a run's history has it: JSON knows no number that is none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
