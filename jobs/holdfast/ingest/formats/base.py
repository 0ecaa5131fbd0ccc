"""The contract of a serialization format: decodes many records' bytes to Arrow columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from holdfast.types.columns.schema import Column

__all__ = ["Decoded", "Decoder", "Payloads", "Undecodable", "null_columns"]

Payloads = Sequence[bytes | None]


class Undecodable(ValueError):
    """A record cannot be decoded; the message says why.  Caught within `holdfast.ingest`."""


@dataclass(frozen=True)
class Decoded:
    """Columns of decoded payloads.

    Attributes:
        columns: one Arrow array per wanted column, each as long as the payloads.
        bad: index of every payload that could not be decoded, with the reason; its columns
            are null.
        nulls: indexes of payloads that hold bytes but mean null (JSON's `null`).
    """

    columns: tuple[pa.Array, ...]
    bad: Mapping[int, str] = field(default_factory=dict)
    nulls: frozenset[int] = frozenset()


class Decoder(ABC):
    """Decodes keys or values of one source.  Stateless except for caches; reusable for ever."""

    @abstractmethod
    def decode(self, payloads: Payloads) -> Decoded:
        """Decodes every payload separately: a bad one never changes the columns of another.

        A payload of None is valid: its columns are null.
        """


def null_columns(columns: Sequence[Column], length: int) -> tuple[pa.Array, ...]:
    """Columns of `length` nulls."""
    return tuple(pa.nulls(length, c.type.arrow()) for c in columns)
