"""The protocol between servers: msgpack; streams are frames with their length in front.

A frame of length 0 is a heartbeat.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import msgpack

from holdfast import errors
from holdfast.errors import HoldfastError, Retriable
from holdfast.serve.contract import Change, Holding, Member, MemberState, PartitionState, Rows

__all__ = [
    "ALIVE",
    "error_of",
    "frame",
    "frames",
    "from_change",
    "from_error",
    "from_member",
    "from_rows",
    "pack",
    "to_change",
    "to_member",
    "to_rows",
    "unpack",
]

_LENGTH = struct.Struct(">I")
ALIVE = _LENGTH.pack(0)
_FRAME_MAX = 1 << 30
Fields = Mapping[str, Any]


def pack(value: Any) -> bytes:
    """A plain value as bytes."""
    return bytes(msgpack.packb(value))


def unpack(data: bytes) -> Any:
    """The inverse of `pack`.

    Raises:
        ValueError: the bytes are not msgpack.
    """
    return msgpack.unpackb(data, strict_map_key=False)


def frame(value: Any) -> bytes:
    """One value of a stream."""
    data = pack(value)
    return _LENGTH.pack(len(data)) + data


async def frames(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Any, None]:
    """The values of a stream that arrives in chunks of any length.

    Raises:
        ValueError: it is not such a stream, or it ends inside a value.
    """
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        while len(held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(held)
            if length > _FRAME_MAX:
                raise ValueError(f"a frame of {length} bytes")
            end = _LENGTH.size + length
            if len(held) < end:
                break
            data = bytes(held[_LENGTH.size : end])
            del held[:end]
            if length:
                yield unpack(data)
    if held:
        raise ValueError(f"the stream ends inside a frame, after {len(held)} bytes")


def _plain(value: Any) -> dict[str, Any]:
    """The fields that differ from their defaults: another version may not know the others."""
    told = {f.name: (f.default, getattr(value, f.name)) for f in dataclasses.fields(value)}
    return {name: found for name, (default, found) in told.items() if found != default}


def from_rows(rows: Rows) -> dict[str, Any]:
    """`Rows` as plain values."""
    return {"keys": rows.keys, "rows": rows.rows, "states": list(map(_plain, rows.states.values()))}


def to_rows(fields: Fields) -> Rows:
    """The inverse of `from_rows`."""
    states = (PartitionState(**state) for state in fields["states"])
    return Rows(fields["keys"], fields["rows"], {state.partition: state for state in states})


def from_change(change: Change) -> dict[str, Any]:
    """`Change` as plain values."""
    return _plain(change)


def to_change(fields: Fields) -> Change:
    """The inverse of `from_change`."""
    return Change(**fields)


def from_member(member: Member) -> dict[str, Any]:
    """`Member` as plain values."""
    held = [[h.held_as, h.partition, _plain(h.state)] for h in member.holdings]
    return _plain(member) | {"state": member.state.value, "holdings": held}


def to_member(fields: Fields) -> Member:
    """The inverse of `from_member`."""
    held = (Holding(t, p, PartitionState(**state)) for t, p, state in fields["holdings"])
    state = MemberState(fields["state"])
    return Member(**{**fields, "state": state, "holdings": tuple(held)})


def from_error(error: HoldfastError) -> dict[str, Any]:
    """An error as plain values."""
    parts = {"fact": error.fact, "cause": error.cause, "action": error.action}
    return {"error": {"kind": type(error).__name__, **parts}}


def error_of(fields: Any) -> HoldfastError | None:
    """The error that an answer holds, or None; `Retriable` for an unknown class."""
    if not isinstance(fields, Mapping) or "error" not in fields:
        return None
    told = fields["error"]
    kind = getattr(errors, str(told["kind"]), Retriable)
    known = isinstance(kind, type) and issubclass(kind, HoldfastError)
    made: HoldfastError = (kind if known else Retriable)(
        told["fact"], cause=told["cause"], action=told["action"]
    )
    return made
