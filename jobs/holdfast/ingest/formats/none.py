"""NONE: there is nothing to decode."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ingest.formats.base import Decoded, Decoder, Payloads, null_columns
from holdfast.types.columns.schema import Column

__all__ = ["NoneDecoder"]


class NoneDecoder(Decoder):
    """Returns columns of nulls for any bytes."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = tuple(columns)

    def decode(self, payloads: Payloads) -> Decoded:
        return Decoded(null_columns(self._columns, len(payloads)))
