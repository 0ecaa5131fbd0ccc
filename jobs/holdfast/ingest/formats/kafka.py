"""KAFKA: the format of Kafka's own serializers, one column without any framing.

STRING is UTF-8, INTEGER and BIGINT are 4 and 8 bytes big-endian, DOUBLE is 8 bytes IEEE 754
big-endian, BYTES are themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from holdfast.errors import Unsupported
from holdfast.ingest.formats.base import Decoded, Decoder, Payloads, null_columns
from holdfast.types.columns.schema import Base, Column

__all__ = ["KafkaDecoder"]

_NUMBERS = {Base.INTEGER: ">i4", Base.BIGINT: ">i8", Base.DOUBLE: ">f8"}


class KafkaDecoder(Decoder):
    """Decodes the single declared column if it is wanted; otherwise it checks nothing."""

    def __init__(self, declared: Sequence[Column], wanted: Sequence[Column]) -> None:
        """Raises `Unsupported` unless one column of a supported type is declared."""
        if len(declared) > 1:
            raise Unsupported(
                f"The 'KAFKA' format only supports a single field, not {len(declared)} columns.",
                action="declare one column or use another format, JSON for example.",
            )
        self._wanted = tuple(wanted)
        self._decode = _decoder(declared[0]) if declared else None

    def decode(self, payloads: Payloads) -> Decoded:
        if self._decode is None or not self._wanted:
            return Decoded(null_columns(self._wanted, len(payloads)))
        array, bad = self._decode(payloads)
        return Decoded((array,), bad)


_Decode: TypeAlias = "Callable[[Payloads], tuple[pa.Array, dict[int, str]]]"


def _decoder(column: Column) -> _Decode:
    base = column.type.base
    if base is Base.STRING:
        return _strings
    if base is Base.BYTES:
        return lambda payloads: (pa.array(payloads, pa.binary()), {})
    if base not in _NUMBERS:
        raise Unsupported(
            f"The 'KAFKA' format does not support type '{base}', column {column.name}.",
            action="use INTEGER, BIGINT, DOUBLE, STRING or BYTES, or another format.",
        )
    dtype = np.dtype(_NUMBERS[base])
    return lambda payloads: _numbers(payloads, dtype, base)


def _strings(payloads: Payloads) -> tuple[pa.Array, dict[int, str]]:
    raw = pa.array(payloads, pa.binary())
    try:
        # Validates all payloads at once, without Python objects.
        return raw.cast(pa.string()), {}
    except pa.ArrowInvalid:
        return _strings_one_by_one(payloads)


def _strings_one_by_one(payloads: Payloads) -> tuple[pa.Array, dict[int, str]]:
    bad: dict[int, str] = {}
    texts: list[str | None] = []
    for i, payload in enumerate(payloads):
        try:
            texts.append(None if payload is None else payload.decode())
        except UnicodeDecodeError as error:
            texts.append(None)
            bad[i] = f"not valid UTF-8 at byte {error.start}"
    return pa.array(texts, pa.string()), bad


def _numbers(payloads: Payloads, dtype: np.dtype, base: Base) -> tuple[pa.Array, dict[int, str]]:
    width = dtype.itemsize
    zeros = bytes(width)
    bad = {
        i: f"{len(p)} bytes, but {base} takes {width}"
        for i, p in enumerate(payloads)
        if p is not None and len(p) != width
    }
    null = np.fromiter((p is None or len(p) != width for p in payloads), bool, len(payloads))
    sound = [zeros if absent else p for p, absent in zip(payloads, null, strict=True)]
    values = np.frombuffer(b"".join(sound), dtype)  # type: ignore[arg-type]
    return pa.array(values.astype(dtype.newbyteorder("=")), mask=null), bad
