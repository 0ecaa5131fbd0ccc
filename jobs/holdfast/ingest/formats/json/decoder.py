"""JSON, by ksqlDB's rules.

A field name matches a column exactly, or an upper-case (unquoted) column ignoring the case of ASCII
letters; if several fields match, the last one counts.  A missing field is NULL, other fields are
ignored.  Numbers may be given as text; any value for a STRING becomes text.  Where ksqlDB lets a
number wrap around, the record is undecodable here.

There are three decoders.  `shaped` cuts columns out of a chunk whose records only differ in
their values, and `fast` parses a chunk in Arrow; both refuse a chunk if they cannot guarantee
every record.  `slow` decodes one record at a time, is exact, and says what is wrong with each
bad one.  All return the same columns for the records they accept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pyarrow as pa

from holdfast.ingest.formats.base import Decoded, Decoder, Payloads
from holdfast.ingest.formats.json.fast import FastJson, fast_json
from holdfast.ingest.formats.json.shaped import ShapedJson, shaped_json
from holdfast.ingest.formats.json.slow import SlowJson, slow_json
from holdfast.types.columns.schema import Column

__all__ = ["JsonDecoder"]

# One bad record sends this many records to the slow decoder, not a whole chunk.
_PART = 2_000


class JsonDecoder(Decoder):
    """Uses the fastest decoder for all records that it accepts, the slow one for the rest."""

    def __init__(
        self, wanted: Sequence[Column], *, unwrapped: bool = False, slow: SlowJson | None = None
    ) -> None:
        """See the class.

        Args:
            unwrapped: a payload is the single column's value, not an object.
            slow: decodes what the fast decoders refuse; None: by the rules of JSON.
        """
        self._wanted = tuple(wanted)
        self._slow = slow or slow_json(self._wanted, unwrapped=unwrapped)
        quick = [] if unwrapped else [shaped_json(self._wanted), fast_json(self._wanted)]
        self._quick: list[ShapedJson | FastJson] = [each for each in quick if each is not None]

    def decode(self, payloads: Payloads) -> Decoded:
        if all(payloads) or None not in payloads:  # the first test is faster and mostly true
            return self._present(cast("list[bytes]", payloads))
        present = [i for i, p in enumerate(payloads) if p is not None]
        found = self._present([p for p in payloads if p is not None])
        return _spread(found, present, len(payloads))

    def _present(self, payloads: list[bytes]) -> Decoded:
        for decoder in self._quick if payloads else ():
            columns = decoder.decode(payloads)
            if columns is not None:
                return Decoded(columns)
        if not self._quick or len(payloads) <= _PART:
            return self._slow.decode(payloads)
        starts = range(0, len(payloads), _PART)
        parts = [self._present(payloads[i : i + _PART]) for i in starts]
        return _joined(parts, starts)


def _joined(parts: Sequence[Decoded], starts: Sequence[int]) -> Decoded:
    columns = zip(*(p.columns for p in parts), strict=True)
    placed = list(zip(starts, parts, strict=True))
    return Decoded(
        tuple(pa.concat_arrays(arrays) for arrays in columns),
        {start + i: reason for start, part in placed for i, reason in part.bad.items()},
        frozenset(start + i for start, part in placed for i in part.nulls),
    )


def _spread(found: Decoded, present: list[int], length: int) -> Decoded:
    """Puts decoded rows back to the places of their payloads; the other rows are null."""
    index: list[int | None] = [None] * length
    for row, i in enumerate(present):
        index[i] = row
    rows = pa.array(index, pa.int64())
    return Decoded(
        tuple(c.take(rows) for c in found.columns),
        {present[i]: reason for i, reason in found.bad.items()},
        frozenset(present[i] for i in found.nulls),
    )
